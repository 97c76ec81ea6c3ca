"""How far the tangent kernel of a finite network moves until its loss has fallen by a fixed share."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import torch
import xarray as xr
from jaxtyping import Bool
from torch import Tensor
from torch.func import grad_and_value, vmap

from foretrain.core.errors import require, require_known
from foretrain.core.streams import seed_list, torch_stream
from foretrain.core.trajectory import trajectory
from foretrain.dynamics import SGD, Adagrad
from foretrain.dynamics.epochs import batch_loss
from foretrain.kernels.tangent import Scales
from foretrain.models.classifiers import Classifier, Parameters
from foretrain.papers.feature_extraction.experiments.lazy import SmallCorpus
from foretrain.papers.feature_extraction.experiments.networks import finite_kernels, network

READOUTS = ("both signs", "one sign")  # of the initial readout weights
OPTIMIZERS: dict[str, SGD | Adagrad] = {"sgd": SGD(0.03), "adagrad": Adagrad(0.01)}
MOST_STEPS = 2000


@cache
def movement_by_width(
    networks: tuple[str, ...], widths: tuple[int, ...], seeds: int, loss_left: float, optimizer: str, sigma: float
) -> xr.Dataset:
    """‖Θ_after − Θ_before‖/‖Θ_before‖ over (readout, network, width, seed), on 16 made-up texts of 6 tokens.

    Not a number, with a warning, where the loss did not fall so far in MOST_STEPS steps.
    """
    require_known("optimizer", optimizer, OPTIMIZERS)
    require(0 < loss_left < 1, f"loss_left must lie between 0 and 1; got {loss_left}.")
    corpus = SmallCorpus.made_up(16, 6, 4, 0.7)
    table, labels = torch.from_numpy(corpus.texts), torch.from_numpy(corpus.labels)
    listed = seed_list(seeds)

    def runs(name: str, width: int) -> np.ndarray:
        """[readout, seed]; both readouts start from the same weights but for their signs."""
        net = network(name, corpus.vocab, width, scales=Scales(sigma, sigma, sigma, sigma))
        start = net.start_runs(torch_stream("feature_extraction/ntk_stability", width, s) for s in listed)
        starts = {key: torch.cat([value, value.abs() if key == "readout" else value]) for key, value in start.items()}
        trained, reached = _until(net, starts, table, labels, loss_left, optimizer)
        if not reached.all():
            few = int((~reached).sum())
            warnings.warn(
                f"{few} of {len(reached)} runs of {name} at width {width} still had more than {loss_left:g} of their "
                f"loss after {MOST_STEPS} steps; their movement is not a number.",
                stacklevel=2,
            )

        before, after = (finite_kernels(net, state, table) for state in (starts, trained))
        moved = np.linalg.norm(after - before, axis=(1, 2)) / np.linalg.norm(before, axis=(1, 2))
        return np.where(reached, moved, np.nan).reshape(len(READOUTS), -1)

    found = np.array([[runs(name, width) for width in widths] for name in networks])
    return trajectory(
        {"movement": (("readout", "network", "width", "seed"), np.moveaxis(found, 2, 0))},
        {"readout": list(READOUTS), "network": list(networks), "width": list(widths), "seed": listed},
        loss_left=loss_left, optimizer=optimizer, sigma=sigma,
    )  # fmt: skip


def _until(
    net: Classifier, starts: Parameters, texts: Tensor, labels: Tensor, loss_left: float, optimizer: str
) -> tuple[Parameters, Bool[np.ndarray, "run"]]:
    """Full-batch steps of all runs, outputs starting at 0, each until its loss is down to `loss_left` of ln 2; and
    which runs got there."""
    method = OPTIMIZERS[optimizer]
    rate = torch.tensor(float(method.rate))  # type: ignore[arg-type]
    parameters = {name: value.clone() for name, value in starts.items()}
    states = {name: method.begin(value) for name, value in starts.items()}
    begun = net.run_scores(starts, texts)
    slope = vmap(grad_and_value(lambda weights, start: batch_loss(net.scores(weights, texts) - start, labels)))
    for step in range(1, MOST_STEPS + 1):
        gradients, loss = slope(parameters, begun)
        running = ~(loss <= loss_left * np.log(2))  # a loss that is not a number never gets there
        if not running.any():
            break
        for name, value in parameters.items():
            # Both optimizers stand still where the gradient is 0.
            still = torch.where(running.reshape(-1, *[1] * (value.ndim - 1)), gradients[name], 0.0)
            method.update(value, still, rate, states[name], step)
    return parameters, ~running.numpy()
