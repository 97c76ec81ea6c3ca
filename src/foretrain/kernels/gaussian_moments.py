"""Gaussian moments of activations: the building blocks of infinitely wide layers.

For (z, z′) centred Gaussian with variances k11, k22 and covariance k12:
`product(activation, …)` is E[φ(z)φ(z′)] and `slope_product` is E[φ′(z)φ′(z′)].
ReLU and GeLU have closed forms (kernels.activations); SiLU and tanh take quadrature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from foretrain.core.errors import require_known
from foretrain.kernels.activations import GELU, ReLU

Array: TypeAlias = Any  # float64: an array, or a number if the arguments are numbers

CLOSED: dict[str, ReLU | GELU] = {"relu": ReLU(), "gelu": GELU()}
SMOOTH: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "silu": (lambda z: z * expit(z), lambda z: expit(z) * (1 + z * expit(-z))),
    "tanh": (np.tanh, lambda z: 4 * expit(2 * z) * expit(-2 * z)),  # 1/cosh², which does not overflow
}
NAMES = ("linear", *CLOSED, *SMOOTH)

_REACH = 8.5  # standard deviations: less than 1e-16 of a Gaussian is beyond
# The trapezoidal rule with step h is off by e^{−2πa/h} if the integrand is analytic up to ±ai. Both activations have
# their nearest pole at a = π/(2√q) or farther, so h = π²/(36√q) leaves e^{−36}. The Gaussian needs h ≤ 1/2.
_STEP = np.pi**2 / 36
_BLOCK = 1 << 22  # values of the integrand in memory at once


def product(activation: str, k11: ArrayLike, k22: ArrayLike, k12: ArrayLike) -> Array:
    """E[φ(z)φ(z′)]."""
    k11, k22, k12 = _checked(activation, k11, k22, k12)
    if activation == "linear":
        return k12
    if activation in CLOSED:
        return CLOSED[activation].expectation(k11, k22, k12)
    return _quadrature(SMOOTH[activation][0], k11, k22, k12)


def slope_product(activation: str, k11: ArrayLike, k22: ArrayLike, k12: ArrayLike) -> Array:
    """E[φ′(z)φ′(z′)]."""
    k11, k22, k12 = _checked(activation, k11, k22, k12)
    if activation == "linear":
        return np.ones_like(k12)
    if activation in CLOSED:
        return CLOSED[activation].slope_expectation(k11, k22, k12)
    return _quadrature(SMOOTH[activation][1], k11, k22, k12)


def mean(activation: str, variance: ArrayLike) -> Array:
    """E[φ(z)] for z of the given variance."""
    (variance,) = _checked(activation, variance)
    if activation in ("linear", "tanh"):
        return np.zeros_like(variance)
    if activation in CLOSED:
        return CLOSED[activation].mean(variance)
    z, w = _rule(float(np.max(variance, initial=0)))
    return SMOOTH[activation][0](np.sqrt(variance)[..., None] * z) @ w


def _checked(activation: str, *values: ArrayLike) -> tuple[Array, ...]:
    require_known("activation", activation, NAMES)
    return tuple(np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in values)))


def _rule(variance: float) -> tuple[Array, Array]:
    """Nodes and weights of the trapezoidal rule for a standard Gaussian, fine enough for f(√variance·z)."""
    step = min(0.5, _STEP / np.sqrt(variance)) if variance > 0 else 0.5
    half = int(np.ceil(_REACH / step))
    nodes = step * np.arange(-half, half + 1)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()


def _quadrature(function: Callable[[Array], Array], k11: Array, k22: Array, k12: Array) -> Array:
    """E[f(z)f(z′)] with z′ = (k12/√k11)·x + √(k22 − k12²/k11)·y for independent standard x, y."""
    x, w = _rule(float(max(np.max(k11, initial=0), np.max(k22, initial=0))))
    root = np.sqrt(k11)
    along = np.divide(k12, root, out=np.zeros_like(k12), where=root > 0)
    left = k22 - along**2
    across = np.sqrt(np.where(left > 1e-14 * k22, left, 0.0))  # for z′ = z only rounding is left, which is no spread
    first = function(root[..., None] * x)
    middle = along[..., None] * x
    if not across.any():
        return (first * function(middle)) @ w
    spread = np.broadcast_to(across[..., None], middle.shape).ravel()
    step = max(1, _BLOCK // len(x))
    second = [
        function(part[:, None] + spread[i * step : (i + 1) * step, None] * x) @ w
        for i, part in enumerate(np.split(middle.ravel(), range(step, middle.size, step)))
    ]
    return (first * np.concatenate(second).reshape(middle.shape)) @ w
