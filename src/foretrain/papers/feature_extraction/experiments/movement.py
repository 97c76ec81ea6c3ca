"""How far the tangent kernel of a finite network moves while its loss falls by a fixed share."""

from __future__ import annotations

import warnings
from typing import Annotated

import numpy as np
import torch
import xarray as xr
from jaxtyping import Bool
from pydantic import Field
from torch import Tensor
from torch.func import grad_and_value, vmap

from foretrain.core.errors import require
from foretrain.core.streams import seed_list
from foretrain.dynamics.epochs import batch_loss
from foretrain.dynamics.optimizers import SGD
from foretrain.kernels.tangent import Scales
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Positive, about
from foretrain.models.classifiers import Classifier
from foretrain.models.parameters import Parameters
from foretrain.models.text_networks import finite_kernels
from foretrain.models.text_networks import network as text_network
from foretrain.papers.feature_extraction.experiments.lazy import SmallCorpus
from foretrain.papers.feature_extraction.experiments.parameters import Network, SeedCount, Width

READOUTS = ("both signs", "one sign")  # of the initial readout weights
DESCENT = SGD(0.03)
MOST_STEPS = 2000


def movement(
    network: Network = "MLP ReLU",
    width: Width = 256,
    seeds: SeedCount = 8,
    loss_left: Annotated[
        float, Field(gt=0, lt=1), about("Share of the initial loss that is left when training stops.")
    ] = 0.6,
    sigma: Annotated[Positive, about("Standard deviation of the initial weights.")] = 1.0,
    mean_field: Annotated[
        bool, about("Whether outputs are divided by √width once more and the rate is multiplied by the width.")
    ] = False,
) -> xr.Dataset:
    """‖Θ_after − Θ_before‖/‖Θ_before‖ over (readout, seed), on 16 made-up texts over 6 tokens.

    Both readouts start from the same weights, except for the signs of the readout. With `mean_field` networks of every
    width learn features. It is nan, with a warning, for runs whose loss did not fall that far in MOST_STEPS steps.
    """
    require(0 < loss_left < 1, f"loss_left must lie between 0 and 1; got {loss_left}.")
    corpus, listed = SmallCorpus.made_up(16, 6), seed_list(seeds)
    table, labels = torch.from_numpy(corpus.texts), torch.from_numpy(corpus.labels)
    net = text_network(network, corpus.vocab, width, scales=Scales(sigma, sigma, sigma, sigma))
    start = net.start([("feature_extraction/ntk_stability", width, s) for s in listed])
    starts = {key: torch.cat([value, value.abs() if key == "readout" else value]) for key, value in start.items()}
    trained, reached = _until(net, starts, table, labels, loss_left, width**-0.5 if mean_field else 1.0)
    if not reached.all():
        unfinished = int((~reached).sum())
        warnings.warn(
            f"{unfinished} of {len(reached)} runs of {network} at width {width} still had more than {loss_left:g} of "
            f"their loss after {MOST_STEPS} steps; their movement is not a number.",
            stacklevel=2,
        )
    before, after = (finite_kernels(net, state, table) for state in (starts, trained))
    moved = np.linalg.norm(after - before, axis=(1, 2)) / np.linalg.norm(before, axis=(1, 2))
    return xr.Dataset(
        {"movement": (("readout", "seed"), np.where(reached, moved, np.nan).reshape(len(READOUTS), -1))},
        {"readout": list(READOUTS), "seed": listed},
    )


def _until(
    net: Classifier, starts: Parameters, texts: Tensor, labels: Tensor, loss_left: float, scale: float = 1.0
) -> tuple[Parameters, Bool[np.ndarray, "run"]]:
    """Trains each run with full batches until its loss is `loss_left` of ln 2, and says which runs got there.

    Outputs start at 0, where the loss is ln 2. They are multiplied by `scale`, and the rate is divided by its square.
    """
    method = DESCENT
    rate = torch.tensor(float(method.rate) / scale**2)  # type: ignore[arg-type]
    parameters = {name: value.clone() for name, value in starts.items()}
    states = {name: method.begin(value) for name, value in starts.items()}
    initial = net.run_scores(starts, texts)
    slope = vmap(
        grad_and_value(lambda weights, start: batch_loss(scale * (net.scores(weights, texts) - start), labels))
    )
    for step in range(1, MOST_STEPS + 1):
        gradients, loss = slope(parameters, initial)
        running = ~(loss <= loss_left * np.log(2))  # a loss that is not a number never gets there
        if not running.any():
            break
        for name, value in parameters.items():
            # A parameter whose gradient is 0 does not move, so runs that are done stay where they are.
            gradient = torch.where(running.reshape(-1, *[1] * (value.ndim - 1)), gradients[name], 0.0)
            method.update(value, gradient, rate, states[name], step)
    return parameters, ~running.numpy()


EXPERIMENTS = [
    Experiment(
        "feature_extraction/movement",
        "movement of the tangent kernel against width",
        movement,
        {"network": ("MLP ReLU", "MLP GeLU", "MLP tanh"), "width": (32, 64, 128, 256, 512)},
        settings={
            "fast": {"network": ("MLP ReLU", "MLP GeLU"), "width": (32, 64), "seeds": 2, "loss_left": 0.9},
            "full": {},
        },
    )
]
