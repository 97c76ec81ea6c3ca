"""SGD with momentum, Adam and Adagrad over leading axes of runs; each run gets the numbers of torch.optim.

A rate is a number, an `xarray.DataArray` over the axes of a sweep, or a mapping from names of parameter blocks (or the
beginnings of names) to these: `SGD({"Y": eta_y, "Z": eta_z}, momentum=.9)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import require

Rate = float | xr.DataArray
State = dict[str, Tensor]


@dataclass(frozen=True)
class SGD:
    """Gradient descent, optionally with momentum. If a rate is an array, its axes become axes of the runs."""

    rate: Rate | Mapping[str, Rate]
    momentum: float = 0.0

    def __post_init__(self) -> None:
        check_rates(self.rate)
        require(0 <= self.momentum < 1, f"momentum must be at least 0 and below 1; got {self.momentum}.")

    def begin(self, parameter: Tensor) -> State:
        """The state of a parameter before the first step."""
        return {"velocity": torch.zeros_like(parameter)} if self.momentum else {}

    def update(self, parameter: Tensor, gradient: Tensor, rate: Tensor, state: State, step: int) -> None:
        """Move a parameter by one step, in place."""
        if self.momentum:
            gradient = torch.add(gradient, state["velocity"], alpha=self.momentum, out=state["velocity"])
        parameter.addcmul_(gradient, rate, value=-1)


@dataclass(frozen=True)
class Adam:
    """Adam, optionally with weight decay."""

    rate: Rate | Mapping[str, Rate]
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0  # added to the gradient, as in torch.optim.Adam

    def __post_init__(self) -> None:
        check_rates(self.rate)
        require(all(0 <= b < 1 for b in self.betas), f"betas must be at least 0 and below 1; got {self.betas}.")

    def begin(self, parameter: Tensor) -> State:
        """The state of a parameter before the first step."""
        return {"first": torch.zeros_like(parameter), "second": torch.zeros_like(parameter)}

    def update(self, parameter: Tensor, gradient: Tensor, rate: Tensor, state: State, step: int) -> None:
        """Move a parameter by one step, in place."""
        b1, b2 = self.betas
        if self.weight_decay:
            gradient = gradient + self.weight_decay * parameter
        state["first"].lerp_(gradient, 1 - b1)
        state["second"].mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        scale = (state["second"] / (1 - b2**step)).sqrt_().add_(self.eps)
        parameter.sub_((rate / (1 - b1**step)) * state["first"] / scale)


@dataclass(frozen=True)
class Adagrad:
    """Adagrad: the rate divided by the root of the sum of squared gradients."""

    rate: Rate | Mapping[str, Rate]
    eps: float = 1e-10

    def __post_init__(self) -> None:
        check_rates(self.rate)

    def begin(self, parameter: Tensor) -> State:
        """The state of a parameter before the first step."""
        return {"sum": torch.zeros_like(parameter)}

    def update(self, parameter: Tensor, gradient: Tensor, rate: Tensor, state: State, step: int) -> None:
        """Move a parameter by one step, in place."""
        state["sum"].addcmul_(gradient, gradient)
        parameter.sub_(rate * gradient / state["sum"].sqrt().add_(self.eps))


def rates_by_block(rate: Rate | Mapping[str, Rate], blocks: list[str]) -> dict[str, xr.DataArray]:
    """The rate of every parameter block: the one under its own name, else under the longest prefix of it."""
    if not isinstance(rate, Mapping):
        return {block: _array(rate) for block in blocks}
    unused = [key for key in rate if not any(block.startswith(key) for block in blocks)]
    require(not unused, f"A rate is given for {', '.join(unused)}, but the parameters are {', '.join(blocks)}.")
    rates = {}
    for block in blocks:
        keys = [key for key in rate if block.startswith(key)]
        require(
            bool(keys), f"No learning rate is given for {block.split('_')[0]!r}; there are rates for {', '.join(rate)}."
        )
        rates[block] = _array(rate[max(keys, key=len)])
    return rates


def check_rates(rate: Any) -> None:
    """Refuse anything but a `Rate`, or a mapping from blocks to rates."""
    for name, value in rate.items() if isinstance(rate, Mapping) else [("rate", rate)]:
        number = isinstance(value, xr.DataArray) or np.ndim(value) == 0
        require(
            number and not isinstance(value, str), f"{name} must be a number or an xarray.DataArray; got {value!r}."
        )
        values = np.asarray(value, dtype=float)
        bad = values[~(np.isfinite(values) & (values > 0))]
        require(
            bad.size == 0,
            f"A learning rate must be a finite number above 0; {name} has {bad.ravel()[0] if bad.size else ''}.",
        )


def _array(value: Any) -> xr.DataArray:
    return value if isinstance(value, xr.DataArray) else xr.DataArray(float(value))
