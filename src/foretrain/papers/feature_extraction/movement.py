"""How far the tangent kernel of a finite network moves until its loss has fallen by a fixed share."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import xarray as xr

from foretrain.dynamics import SGD, Adagrad
from foretrain.dynamics.epochs import batch_loss
from foretrain.errors import require, require_known
from foretrain.kernels import empirical
from foretrain.kernels.tangent import Scales
from foretrain.models.classifiers import Classifier, Parameters
from foretrain.papers.feature_extraction.lazy import SmallCorpus
from foretrain.papers.feature_extraction.networks import network
from foretrain.streams import seed_list, torch_stream
from foretrain.trajectory import trajectory

READOUTS = ("both signs", "one sign")  # of the initial readout weights
OPTIMIZERS: dict[str, SGD | Adagrad] = {"sgd": SGD(0.03), "adagrad": Adagrad(0.01)}
MOST_STEPS = 2000


@cache
def kernel_movement(
    networks: tuple[str, ...], widths: tuple[int, ...], seeds: int, loss_left: float, optimizer: str, sigma: float
) -> xr.Dataset:
    """‖Θ_after − Θ_before‖/‖Θ_before‖ over (readout, network, width, seed), on 16 made-up texts of 6 tokens."""
    require_known("optimizer", optimizer, OPTIMIZERS)
    require(0 < loss_left < 1, f"loss_left must lie between 0 and 1; got {loss_left}.")
    corpus = SmallCorpus.made_up(16, 6, 4, 0.7)
    table, labels = torch.from_numpy(corpus.texts), torch.from_numpy(corpus.labels)
    listed = seed_list(seeds)

    def one(readout: str, name: str, width: int, seed: int) -> float:
        net = network(name, corpus.vocab, width, scales=Scales(sigma, sigma, sigma, sigma))
        start = net.start(torch_stream("feature_extraction/ntk_stability", width, seed))
        if readout == "one sign":
            start["readout"] = start["readout"].abs()
        trained = _until(net, start, table, labels, loss_left, optimizer)
        return empirical.kernel_movement(net.of_one, (start, trained), table)[1]

    moved = [[[[one(r, name, w, s) for s in listed] for w in widths] for name in networks] for r in READOUTS]
    return trajectory(
        {"movement": (("readout", "network", "width", "seed"), np.array(moved))},
        {"readout": list(READOUTS), "network": list(networks), "width": list(widths), "seed": listed},
        loss_left=loss_left, optimizer=optimizer, sigma=sigma,
    )  # fmt: skip


def _until(
    net: Classifier, start: Parameters, texts: torch.Tensor, labels: torch.Tensor, loss_left: float, optimizer: str
) -> Parameters:
    """Full-batch steps, outputs starting at 0, until the loss is down to `loss_left` of ln 2."""
    method = OPTIMIZERS[optimizer]
    rate = torch.tensor(float(method.rate))  # type: ignore[arg-type]
    parameters = {name: value.clone().requires_grad_() for name, value in start.items()}
    states = {name: method.begin(value) for name, value in start.items()}
    begun = net.scores(start, texts)
    for step in range(1, MOST_STEPS + 1):
        loss = batch_loss(net.scores(parameters, texts) - begun, labels)
        if float(loss.detach()) <= loss_left * np.log(2):
            break
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        with torch.no_grad():
            for (name, value), gradient in zip(parameters.items(), gradients, strict=True):
                method.update(value, gradient, rate, states[name], step)
    return {name: value.detach() for name, value in parameters.items()}
