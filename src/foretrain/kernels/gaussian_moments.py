"""Gaussian moments of activations: what infinitely wide layers are made of.

For (z, z′) centred Gaussian with variances k11, k22 and covariance k12:
`product(activation, …)` is E[φ(z)φ(z′)] and `slope_product` is E[φ′(z)φ′(z′)].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, expit, roots_hermitenorm

from foretrain.errors import require_known

Array: TypeAlias = Any  # float64: an array, or a number where numbers went in
_NODES = 80  # Gauss-Hermite in each direction: 1e-13 for smooth activations at variance up to 4


def _normal_density(z: Array) -> Array:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def _normal_share(z: Array) -> Array:
    return 0.5 * (1 + erf(z / np.sqrt(2)))


FUNCTIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "linear": (lambda z: z, lambda z: np.ones_like(z)),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(np.float64)),
    "gelu": (lambda z: z * _normal_share(z), lambda z: _normal_share(z) + z * _normal_density(z)),
    "silu": (lambda z: z * expit(z), lambda z: expit(z) * (1 + z * (1 - expit(z)))),
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
}


def product(activation: str, k11: ArrayLike, k22: ArrayLike, k12: ArrayLike) -> Array:
    """E[φ(z)φ(z′)]; the arc-cosine form for ReLU, quadrature for smooth activations."""
    k11, k22, k12 = _checked(activation, k11, k22, k12)
    if activation == "linear":
        return k12
    if activation == "relu":
        size, theta = _angle(k11, k22, k12)
        return size * (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / (2 * np.pi)
    return _quadrature(FUNCTIONS[activation][0], k11, k22, k12)


def slope_product(activation: str, k11: ArrayLike, k22: ArrayLike, k12: ArrayLike) -> Array:
    """E[φ′(z)φ′(z′)]."""
    k11, k22, k12 = _checked(activation, k11, k22, k12)
    if activation == "linear":
        return np.ones_like(k12)
    if activation == "relu":
        return (np.pi - _angle(k11, k22, k12)[1]) / (2 * np.pi)
    return _quadrature(FUNCTIONS[activation][1], k11, k22, k12)


def mean(activation: str, variance: ArrayLike) -> Array:
    """E[φ(z)] for z of the given variance."""
    variance = np.asarray(variance, dtype=np.float64)
    require_known("activation", activation, FUNCTIONS)
    if activation in ("linear", "tanh"):
        return np.zeros_like(variance)
    if activation == "relu":
        return np.sqrt(variance / (2 * np.pi))
    if activation == "gelu":
        return variance / np.sqrt(2 * np.pi * (1 + variance))
    z, w = _rule()
    return FUNCTIONS[activation][0](np.sqrt(variance)[..., None] * z) @ w


def _checked(activation: str, *values: ArrayLike) -> tuple[Array, ...]:
    require_known("activation", activation, FUNCTIONS)
    return tuple(np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in values)))


def _angle(k11: Array, k22: Array, k12: Array) -> tuple[Array, Array]:
    size = np.sqrt(k11 * k22)
    cosine = np.divide(k12, size, out=np.zeros_like(size), where=size > 0)
    return size, np.arccos(np.clip(cosine, -1, 1))


@lru_cache
def _rule() -> tuple[Array, Array]:
    nodes, weights = roots_hermitenorm(_NODES)
    return nodes, weights / weights.sum()


def _quadrature(function: Callable[[Array], Array], k11: Array, k22: Array, k12: Array) -> Array:
    """E[f(z)f(z′)] with z′ = (k12/√k11)·x + √(k22 − k12²/k11)·y for independent standard x, y."""
    x, w = _rule()
    root = np.sqrt(k11)
    along = np.divide(k12, root, out=np.zeros_like(k12), where=root > 0)
    across = np.sqrt(np.clip(k22 - along**2, 0, None))
    first = function(root[..., None] * x)
    second = function(along[..., None, None] * x[:, None] + across[..., None, None] * x) @ w
    return (first * second) @ w
