"""Section 4: the stable rank of the lower MLP matrix along training."""

from __future__ import annotations

from typing import Any

import xarray as xr

from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, every
from foretrain.papers.joma.claims.drawing import drawn
from foretrain.papers.joma.experiments import rank
from foretrain.papers.joma.experiments.parameters import Activation
from foretrain.papers.joma.tolerances import RANK_BOUNCE, RANK_DROP


def _drop_and_rebound(ranks: xr.DataArray) -> xr.Dataset:
    """The lowest rank over the first, and the last over the lowest: means over seeds, and the worst of the layers."""
    lowest = ranks.min("time")
    drop, rebound = lowest / ranks.isel(time=0, drop=True), ranks.isel(time=-1, drop=True) / lowest
    drop, rebound = drop.mean("seed"), rebound.mean("seed")
    if "layer" in rebound.dims:
        drop, rebound = drop.max("layer"), rebound.min("layer")
    return xr.Dataset({"rank_drop": drop, "rank_rebound": rebound})


def _rank(
    model: str, activation: Activation, seeds: int, steps: int, configuration: str = rank.TRANSFORMER.configuration
) -> xr.Dataset:
    numbers = range(1, seeds + 1)
    if model == "layer":
        run = rank.layer_rank((activation,), seeds=numbers, steps=steps)
    else:
        run = rank.transformer_rank((activation,), numbers, steps, configuration)
    curves = run["stable_rank"].isel(activation=0, drop=True)
    return _drop_and_rebound(curves).assign(stable_rank=curves)


_rank_claim: dict[str, Any] = {
    "source": 'Section 4, "Relationship with rank of MLP lower layer"',
    "observe": _rank,
    "compare": every(bounded("rank_drop", high=RANK_DROP), bounded("rank_rebound", low=RANK_BOUNCE)),
    "figure": drawn("stable_rank"),
}

TWO_CLASSES = Control(
    "two classes: one direction is all there is to learn, and nothing catches up", {"configuration": "C2-ch2-10-20"}
)


def _transformers(activation: Activation) -> dict[str, dict[str, Any]]:
    sizes = {"fast": {"seeds": 3, "steps": 120}, "full": {"seeds": 10, "steps": 400}}
    return {tier: {"model": "transformer", "activation": activation, **size} for tier, size in sizes.items()}


rank_layer = Claim(
    id="joma/rank",
    whose="the paper's statement",
    says="In a trained layer with ReLU the stable rank of the lower MLP matrix first drops (below half of its start) "
    "and then bounces back (by more than a tenth). Half and a tenth are our reading of the two words.",
    settings={
        "fast": {"model": "layer", "activation": "relu", "seeds": 4, "steps": 4000},
        "full": {"model": "layer", "activation": "relu", "seeds": 20, "steps": 10000},
    },
    control=Control("linear activation", {"activation": "linear"}),
    finding="It depends on the setting. On smooth classes with temperature 1 and rate .4 the rank comes back by a "
    "factor 1.20 in 4000 steps. With Fig 2's temperature .5 and rate .1 it is 1.00 in 4000 steps, where the rank still "
    "falls, and 1.16 in 16 000; on random classes 1.03 in 4000 steps and 1.09 in 10 000 (eight seeds).",
    **_rank_claim,
)
rank_transformer = Claim(
    id="joma/rank_transformer",
    whose="the paper's statement",
    says="In a small ReLU transformer on the data of Table 1 the stable rank of every lower MLP matrix first drops "
    "(below half of its start) and then bounces back (by more than a tenth).",
    settings=_transformers("relu"),
    control=TWO_CLASSES,
    finding="The matrices start at a tenth of torch's own size; from that size their random rank hides what training "
    "puts in.",
    **_rank_claim,
)
rank_linear = Claim(
    id="joma/rank_transformer_linear",
    whose="our own expectation",
    says="In the same transformer with a linear activation the rank drops and comes back as well. (From one layer, "
    "where the bounce needs ReLU, one might have expected that it does not.)",
    settings=_transformers("linear"),
    control=TWO_CLASSES,
    finding="In one layer the bounce of the rank needs a nonlinear φ, in a transformer it does not: with linear "
    "activation the ranks come back by a quarter and more, since softmax, normalisation and the other layers remain.",
    **_rank_claim,
)

CLAIMS = [rank_layer, rank_transformer, rank_linear]
