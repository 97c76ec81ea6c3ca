"""Each optimizer over run axes against torch.optim, run by run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from foretrain import SGD, Adagrad, Adam, InputError
from foretrain.dynamics.optimizers import rates_by_block

CASES = {
    "sgd": (lambda rate: SGD(rate), lambda p, lr: torch.optim.SGD([p], lr)),
    "momentum": (lambda rate: SGD(rate, momentum=0.9), lambda p, lr: torch.optim.SGD([p], lr, momentum=0.9)),
    "adam": (lambda rate: Adam(rate), lambda p, lr: torch.optim.Adam([p], lr)),
    "adam_decay": (
        lambda rate: Adam(rate, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.1),
        lambda p, lr: torch.optim.Adam([p], lr, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.1),
    ),
    "adagrad": (lambda rate: Adagrad(rate), lambda p, lr: torch.optim.Adagrad([p], lr)),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_torch_run_by_run(name):
    ours, theirs = CASES[name]
    rates = torch.tensor([0.01, 0.3, 1.0], dtype=torch.float64)
    draw = torch.Generator().manual_seed(1)
    start = torch.randn(3, 2, 4, generator=draw, dtype=torch.float64)
    gradients = torch.randn(6, 3, 2, 4, generator=draw, dtype=torch.float64)
    gradients[2] = 0  # Adam divides by what it has seen, which may be nothing
    optimizer = ours(xr.DataArray(rates.numpy(), dims="rate"))
    parameter, state = start.clone(), optimizer.begin(start)
    for step, gradient in enumerate(gradients):
        optimizer.update(parameter, gradient.clone(), rates.view(3, 1, 1), state, step + 1)
    for run, rate in enumerate(rates.tolist()):
        alone = start[run].clone().requires_grad_()
        reference = theirs(alone, rate)
        for gradient in gradients:
            alone.grad = gradient[run].clone()
            reference.step()
        assert torch.allclose(parameter[run], alone.detach(), rtol=1e-12, atol=1e-14)


def test_rates_by_block_take_the_longest_prefix():
    found = rates_by_block({"Y": 1.0, "Z": 2.0, "Z_common": 3.0}, ["Y_common", "Z_common", "Z_distinct"])
    assert {name: float(rate) for name, rate in found.items()} == {"Y_common": 1, "Z_common": 3, "Z_distinct": 2}
    with pytest.raises(InputError, match="No learning rate is given for 'W'"):
        rates_by_block({"Y": 1.0}, ["Y", "W"])
    with pytest.raises(InputError, match="A rate is given for Q, but"):
        rates_by_block({"Y": 1.0, "Q": 1.0}, ["Y"])


@pytest.mark.parametrize("kind", [SGD, Adam, Adagrad])
@pytest.mark.parametrize("rate", [0.0, -1.0, np.inf, np.nan])
def test_a_rate_must_be_finite_and_above_zero(kind, rate):
    with pytest.raises(InputError, match=f"finite number above 0; rate has {rate}"):
        kind(rate)
    with pytest.raises(InputError, match=f"finite number above 0; Y has {rate}"):
        kind({"Z": 1.0, "Y": xr.DataArray([1.0, rate], dims="a")})


def test_momentum_is_below_one():
    with pytest.raises(InputError, match="momentum must be at least 0 and below 1; got 1"):
        SGD(1.0, momentum=1.0)
