"""Appendix I: trained MLPs cannot tell strings of unseen tokens apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
import xarray as xr
from scipy import stats
from torch import Tensor

from foretrain.claim import Claim, Control
from foretrain.comparators import bounded, close, every, same_mean
from foretrain.data.template_tasks import same_different
from foretrain.dynamics.optimizers import SGD, Adam, Optimizer
from foretrain.kernels.attention import transformer_kernel
from foretrain.models.one_hot_mlp import OneHotMLP, Parameters
from foretrain.papers.abstract_symbols import theory
from foretrain.streams import stream, torch_stream
from foretrain.tolerances import COUPLED, THREE_ERRORS
from foretrain.trajectory import trajectory

SEEN, TOKENS = 6, 12  # tokens 0 to 5 occur in training, 6 to 11 do not
UNSEEN = ((6, 6), (7, 7), (8, 8), (6, 7), (7, 6), (8, 9), (10, 11))
# Batch size and optimizer of each way of training; flow takes small steps on all 36 strings of seen tokens.
WAYS: dict[str, tuple[int, Optimizer]] = {
    "SGD": (1, SGD(0.01)),
    "mini-batch": (8, SGD(0.02)),
    "Adam": (8, Adam(0.01)),
    "flow": (0, SGD(0.01)),
}


def _data(way: str, steps: int) -> list[tuple[Tensor, Tensor]]:
    """The batches of a run: same/different on seen tokens, the same for all seeds of the network."""
    batch = WAYS[way][0]
    if batch == 0:
        strings = np.array([(a, b) for a in range(SEEN) for b in range(SEEN)])
        labels = np.where(strings[:, 0] == strings[:, 1], 1.0, -1.0)
        return [(torch.tensor(strings), torch.tensor(labels))] * steps
    drawn = same_different().sample(steps * batch, stream("abstract_symbols/mlp", way), alphabet=SEEN)
    rows = torch.tensor(drawn.tokens).reshape(steps, batch, -1)
    return list(zip(rows, torch.tensor(drawn.labels).reshape(steps, batch), strict=True))


def trained(model: OneHotMLP, start: Parameters, way: str, steps: int) -> Parameters:
    """All seeds after training on the batches of this way."""
    optimizer = WAYS[way][1]
    parameters = {name: value.clone() for name, value in start.items()}
    states = {name: optimizer.begin(value) for name, value in parameters.items()}
    rate = torch.tensor(float(optimizer.rate), dtype=torch.float64)  # type: ignore[arg-type]
    for step, (strings, labels) in enumerate(_data(way, steps), start=1):
        for name, gradient in model.gradient(parameters, strings, labels).items():
            optimizer.update(parameters[name], gradient, rate, states[name], step)
    return parameters


@lru_cache(maxsize=2)
def mlp_outputs(seeds: int, width: int, layers: int, steps: int) -> xr.Dataset:
    """Outputs of trained MLPs on strings of unseen tokens."""
    model = OneHotMLP(TOKENS, 2, width=width, layers=layers)
    start = model.start(seeds, torch_stream("abstract_symbols/mlp", width, layers))
    strings = torch.tensor(UNSEEN)
    outputs = [model.outputs(trained(model, start, way, steps), strings).numpy() for way in WAYS]
    return _outputs(np.stack(outputs), list(WAYS))


def _outputs(values: np.ndarray, ways: Sequence[str]) -> xr.Dataset:
    return trajectory(
        {"output": (("way", "seed", "string"), values)},
        {"way": list(ways), "seed": np.arange(1, values.shape[1] + 1), "string": [f"{a}-{b}" for a, b in UNSEEN]},
    )


def transformer_outputs(seeds: int, beta: float = 4.0, gamma: float = 2.0, ridge: float = 1e-2) -> xr.Dataset:
    """A transformer's last layer trained to the end on the same kind of data: ridge regression with K_trans."""
    cls = [TOKENS]
    unseen = [[*s, *cls] for s in UNSEEN]
    values = []
    for seed in range(seeds):
        drawn = same_different().sample(60, stream("abstract_symbols/mlp", "transformer", seed), alphabet=SEEN)
        known = [[*s, *cls] for s in drawn.tokens.tolist()]
        gram = transformer_kernel(known, known, beta=beta, gamma=gamma)
        weights = np.linalg.solve(gram + ridge * np.eye(len(known)), drawn.labels)
        values.append(transformer_kernel(unseen, known, beta=beta, gamma=gamma) @ weights)
    return _outputs(np.array(values)[None], ["transformer"])


def _unseen(seeds: int, width: int, layers: int, steps: int, model: str = "MLP") -> xr.Dataset:
    """Differences of outputs to those on the first string, and the larger mean squared error of the two templates."""
    outputs = (mlp_outputs(seeds, width, layers, steps) if model == "MLP" else transformer_outputs(5)).output
    labels = xr.DataArray([1.0 if a == b else -1.0 for a, b in UNSEEN], dims="string")
    errors = ((outputs - labels) ** 2).mean("seed")
    others = outputs.isel(string=slice(1, None))
    difference = (others - outputs.isel(string=0, drop=True)).transpose("way", "string", "seed")
    return xr.Dataset({"difference": difference, "error": errors.groupby(labels).mean().max("group")})


def _equal_outputs(model: str = "MLP") -> xr.Dataset:
    ways = list(WAYS) if model == "MLP" else ["transformer"]
    shape = (len(ways), len(UNSEEN) - 1)
    return trajectory(
        {
            "difference": (("way", "string"), np.zeros(shape)),
            "difference_std": 1e-12,  # of rounding: a kernel gives exactly equal values to some strings
            "difference_seeds": 1.0,
            "floor": theory.error_floor(1.0, -1.0),
        },
        {"way": ways, "string": [f"{a}-{b}" for a, b in UNSEEN[1:]]},
    )


theoremI2 = Claim(
    id="abstract_symbols/theoremI2",
    source="Theorem I.2, Remark I.5",
    says=(
        "MLPs trained by SGD, mini-batch SGD, Adam or gradient flow have the same mean output on all strings of unseen "
        "tokens, so their error on one of two templates is at least ¼(f*(z) − f*(z'))²."
    ),
    predict=_equal_outputs,
    observe=_unseen,
    compare=every(same_mean("difference", THREE_ERRORS), bounded("error", low="floor")),
    settings={
        "fast": {"seeds": 2000, "width": 16, "layers": 1, "steps": 50},
        "full": {"seeds": 4000, "width": 64, "layers": 2, "steps": 300},
    },
    control=Control("a transformer learns from the same data", {"model": "transformer"}),
)


@lru_cache(maxsize=1)
def _uncoupled(seeds: int, width: int, steps: int) -> tuple[OneHotMLP, Parameters, dict[str, Parameters]]:
    """Two times `seeds` networks at their start and trained in every way."""
    model = OneHotMLP(TOKENS, 2, width=width)
    start = model.start(2 * seeds, torch_stream("abstract_symbols/lemmaI7", width))
    return model, start, {way: trained(model, start, way, steps) for way in WAYS}


def _coupled(seeds: int, width: int, steps: int, second: Sequence[int] = (8, 9)) -> xr.Dataset:
    """f(x1) of runs begun with a permuted first layer against f(x2) of the others; and two halves of all seeds."""
    model, start, plain_runs = _uncoupled(seeds, width, steps)
    first, other = torch.tensor([6, 6]), torch.tensor(list(second))
    gaps, chances = [], []
    for way, plain in plain_runs.items():
        turned = trained(model, model.exchanged(start, first, other), way, steps)
        on_second = model.outputs(plain, other[None])[:, 0]
        gaps.append(float((model.outputs(turned, first[None])[:, 0] - on_second).abs().max()))
        on_first = model.outputs(plain, first[None])[:, 0]
        chances.append(stats.ks_2samp(on_first[:seeds].numpy(), on_second[seeds:].numpy()).pvalue)
    return trajectory({"gap": ("way", gaps), "chance": ("way", np.array(chances))}, {"way": list(WAYS)})


def _same_distribution() -> xr.Dataset:
    return trajectory({"gap": ("way", np.zeros(len(WAYS))), "least_chance": 1e-3}, {"way": list(WAYS)})


lemmaI7 = Claim(
    id="abstract_symbols/lemmaI7",
    source="Lemma I.7",
    says=(
        "The output of a trained MLP has the same distribution on any two strings of unseen tokens: with the first "
        "layer permuted, runs agree one by one, and a two-sample test finds no difference."
    ),
    predict=_same_distribution,
    observe=_coupled,
    compare=every(close("gap", COUPLED), bounded("chance", low="least_chance")),
    settings={"fast": {"seeds": 2000, "width": 8, "steps": 25}, "full": {"seeds": 5000, "width": 32, "steps": 200}},
    control=Control("one of the strings holds a seen token", {"second": (0, 9)}),
)

CLAIMS = [theoremI2, lemmaI7]
