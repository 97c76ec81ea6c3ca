"""Fig 7 and 10 on a small GPT trained on WikiText-2, judged from kept results."""

from __future__ import annotations

from typing import Any

import xarray as xr

from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, every
from foretrain.papers.joma.tolerances import GPT_BOUNCE, GPT_DROP, SEVERAL
from foretrain.papers.kept import kept


def _superposed(model: str, text: str) -> xr.Dataset:
    """The share of superposed neurons in each seed, over all layers."""
    return kept("joma/fig10")[["superposed"]].sel(model=model, text=text, drop=True).mean("layer")


superposition = Claim(
    id="joma/fig10",
    source="Fig 10 and appendix A.4, 'Pattern superposition'",
    whose="the paper's statement",
    says="In a trained language model at least one MLP neuron in twenty fires for two or more unrelated patterns. A "
    "pattern is a token together with what it attends to.",
    observe=_superposed,
    compare=bounded("superposed", low=SEVERAL),
    settings={"fast": {"model": "trained", "text": "real"}},
    control=Control("the model before training", {"model": "untrained"}),
    finding="Unrelated tokens alone fire one neuron as often before training as after; only combinations of a token "
    "with what it attends to appear with training.",
)


def _ranks(weights: str, layer: int, steps: int = 1000) -> xr.Dataset:
    """The lowest stable rank over the first, and the last over the lowest, of one layer's lower MLP matrix."""
    rank = kept("joma/fig7")["stable_rank"].sel(weights=weights, step=slice(None, steps)).drop_vars("weights")
    rank = rank.isel(layer=layer, drop=True).mean("seed")
    low = rank.min("step")
    return xr.Dataset(
        {"rank_drop": low / rank.isel(step=0, drop=True), "rank_rebound": rank.isel(step=-1, drop=True) / low}
    )


_rank_of_layers: dict[str, Any] = {
    "source": "Fig 7 and section 6, stable rank over checkpoints",
    "whose": "the paper's statement",
    "observe": _ranks,
}
top = Claim(
    id="joma/fig7",
    says="Over the checkpoints of a small GPT, the stable rank of the top layer's lower MLP matrix drops and bounces "
    "back.",
    compare=every(bounded("rank_drop", high=GPT_DROP), bounded("rank_rebound", low=GPT_BOUNCE)),
    settings={"fast": {"weights": "trained", "layer": -1}},
    control=Control("a random walk with steps as long as those of training", {"weights": "random walk"}),
    **_rank_of_layers,
)
bottom = Claim(
    id="joma/fig7_bottom",
    says="In the bottom layer it drops and does not come back.",
    compare=every(bounded("rank_drop", high=GPT_DROP), bounded("rank_rebound", high=GPT_BOUNCE)),
    settings={"fast": {"weights": "trained", "layer": 0}},
    expect=None,
    finding="In a GPT of four layers on WikiText-2 it is the bottom layer that comes back furthest: its stable rank "
    "falls from 58 to 10 and is 18 after 1000 steps, while that of the top layer goes from 58 to 2.7 and 3.5.",
    control=Control("training stops after 128 steps, before the rank comes back", {"steps": 128}),
    **_rank_of_layers,
)

CLAIMS = [top, bottom, superposition]
