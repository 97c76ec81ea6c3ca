"""Appendix I: trained MLPs cannot tell strings of unseen tokens apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
import xarray as xr

from foretrain.core.streams import torch_stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, close, every, same_mean
from foretrain.ledger.tolerances import ALGEBRA, CHANCE, THREE_ERRORS
from foretrain.models.one_hot_mlp import OneHotMLP
from foretrain.models.parameters import Parameters
from foretrain.papers.abstract_symbols import theory
from foretrain.papers.abstract_symbols.experiments.unseen import (
    TOKENS,
    UNSEEN,
    WAYS,
    mlp_outputs,
    relational_weights,
    trained,
    transformer_outputs,
)
from foretrain.papers.abstract_symbols.tolerances import COUPLED


def _unseen(seeds: int, width: int, layers: int, steps: int, model: str = "MLP") -> xr.Dataset:
    """Outputs less those on the first string, and the larger of the mean squared errors on the two templates."""
    outputs = (mlp_outputs(seeds, width, layers, steps) if model == "MLP" else transformer_outputs(5)).output
    labels = xr.DataArray([1.0 if a == b else -1.0 for a, b in UNSEEN], dims="string")
    errors = ((outputs - labels) ** 2).mean("seed")
    others = outputs.isel(string=slice(1, None))
    difference = (others - outputs.isel(string=0, drop=True)).transpose("way", "string", "seed")
    return xr.Dataset({"difference": difference, "larger_error": errors.groupby(labels).mean().max("group")})


def _equal_outputs(model: str = "MLP") -> xr.Dataset:
    ways = list(WAYS) if model == "MLP" else ["transformer"]
    shape = (len(ways), len(UNSEEN) - 1)
    return trajectory(
        {
            "difference": (("way", "string"), np.zeros(shape)),
            "difference_std": ALGEBRA.value,  # of rounding: the kernel gives exactly the same value to several strings
            "difference_seeds": 1.0,
            "floor": theory.error_floor(1.0, -1.0),
        },
        {"way": ways, "string": [f"{a}-{b}" for a, b in UNSEEN[1:]]},
    )


theoremI2 = Claim(
    id="abstract_symbols/theoremI2",
    source="Theorem I.2, Remark I.5",
    whose="the paper's statement",
    says=(
        "MLPs trained by SGD, mini-batch SGD, Adam or gradient flow have the same mean output on all strings of unseen "
        "tokens, so their mean squared error on one of two templates is at least ¼(f*(z) − f*(z'))²."
    ),
    predict=_equal_outputs,
    observe=_unseen,
    compare=every(same_mean("difference", THREE_ERRORS), bounded("larger_error", low="floor")),
    settings={
        "fast": {"seeds": 2000, "width": 16, "layers": 1, "steps": 50},
        "full": {"seeds": 2000, "width": 32, "layers": 2, "steps": 100},
    },
    control=Control("a transformer learns from the same data", {"model": "transformer"}),
)


@lru_cache(maxsize=1)
def _uncoupled(seeds: int, width: int, steps: int) -> tuple[OneHotMLP, Parameters, dict[str, Parameters]]:
    """Twice `seeds` networks, at the start and after training in every way."""
    model = OneHotMLP(TOKENS, 2, width=width)
    start = model.draw(2 * seeds, torch_stream("abstract_symbols/lemmaI7", width))
    return model, start, {way: trained(model, start, way, steps) for way in WAYS}


def _coupled(seeds: int, width: int, steps: int, second: Sequence[int] = (8, 9)) -> xr.Dataset:
    """f(x1) of runs that start from a permuted first layer against f(x2) of the others, and the test of two halves."""
    from scipy import stats  # slow to load, and only the measurement needs it

    model, start, plain_runs = _uncoupled(seeds, width, steps)
    first, other = torch.tensor([6, 6]), torch.tensor(list(second))
    gaps, chances = [], []
    for way, plain in plain_runs.items():
        turned = trained(model, model.exchanged(start, first, other), way, steps)
        on_second = model.outputs(plain, other[None])[:, 0]
        gaps.append(float((model.outputs(turned, first[None])[:, 0] - on_second).abs().max()))
        on_first = model.outputs(plain, first[None])[:, 0]
        chances.append(stats.ks_2samp(on_first[:seeds].numpy(), on_second[seeds:].numpy()).pvalue)
    return trajectory({"coupled_gap": ("way", gaps), "chance": ("way", np.array(chances))}, {"way": list(WAYS)})


def _same_distribution() -> xr.Dataset:
    return trajectory({"coupled_gap": ("way", np.zeros(len(WAYS)))}, {"way": list(WAYS)})


lemmaI7 = Claim(
    id="abstract_symbols/lemmaI7",
    source="Lemma I.7",
    whose="the paper's statement",
    says=(
        "The output of a trained MLP has the same distribution on any two strings of unseen tokens: with the first "
        "layer permuted, runs agree one by one, and a two-sample test finds no difference."
    ),
    predict=_same_distribution,
    observe=_coupled,
    compare=every(close("coupled_gap", COUPLED), bounded("chance", low=CHANCE)),
    settings={"fast": {"seeds": 2000, "width": 8, "steps": 25}, "full": {"seeds": 2000, "width": 16, "steps": 100}},
    control=Control("one of the strings holds a seen token", {"second": (0, 9)}),
)


def _labels() -> xr.Dataset:
    return _on_strings([1.0 if a == b else -1.0 for a, b in UNSEEN])


def _outputs(found_by: str = "construction", width: int = 16, steps: int = 50) -> xr.Dataset:
    """Outputs on strings of unseen tokens, of constructed weights or of weights that SGD finds."""
    if found_by == "construction":
        model, weights = relational_weights()
        return _on_strings(model.outputs(weights, torch.tensor(UNSEEN))[0].tolist())
    return _on_strings(mlp_outputs(1, width, 1, steps).output.sel(way=found_by).isel(seed=0).values.tolist())


def _on_strings(values: Sequence[float]) -> xr.Dataset:
    return trajectory({"output": ("string", list(values))}, {"string": [f"{a}-{b}" for a, b in UNSEEN]})


remarkI3 = Claim(
    id="abstract_symbols/remarkI3",
    source="Remark I.3",
    whose="the paper's statement",
    says=(
        "There are weights with which an MLP generalises to unseen symbols; training does not find them. (One hidden "
        "layer with a unit for each token, which fires if both places hold it, solves same/different exactly.)"
    ),
    predict=_labels,
    observe=_outputs,
    compare=close("output", ALGEBRA, by="by the label", seen="by the MLP"),
    settings={"fast": {}},
    control=Control("weights found by SGD", {"found_by": "SGD"}),
)

CLAIMS = [theoremI2, lemmaI7, remarkI3]
