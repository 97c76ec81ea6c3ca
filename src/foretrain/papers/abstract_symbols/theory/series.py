"""Lemmas G.3 to G.8: truncated power series, and how fast they converge.

A series in m variables is an array with m axes: entry μ is the coefficient of the monomial Δ^μ, each power up to the
length of its axis. A function has type (τ1, τ2) at a point (Definition G.2) if the series around that point converges
within τ1 and the absolute values of all its terms but the constant one sum to at most τ2 there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import as_floats

Array = NDArray[np.float64]


def product(left: Array, right: Array) -> Array:
    """The product of two truncated power series in the same variables."""
    result = np.zeros_like(left)
    for powers in np.argwhere(left):  # few of the coefficients that are multiplied here differ from 0
        shifted = tuple(slice(power, None) for power in powers)
        rest = tuple(slice(None, size - power) for size, power in zip(left.shape, powers, strict=True))
        result[shifted] += left[tuple(powers)] * right[rest]
    return result


def one(shape: tuple[int, ...]) -> Array:
    """The series of the constant 1."""
    result = np.zeros(shape)
    result.flat[0] = 1.0
    return result


def exponential(series: Array) -> Array:
    """The exponential of a truncated power series."""
    return math.exp(series.flat[0]) * composed([1 / math.factorial(n) for n in range(_orders(series))], series)


def reciprocal(series: Array) -> Array:
    """1 over a truncated power series."""
    return composed(reciprocal_series(float(series.flat[0]), _orders(series)), series)


def composed(outer: Sequence[float] | Array, inner: Array) -> Array:
    """g(f): `outer` are the coefficients of g around f's constant term, which is left out of `inner` here."""
    rest = inner.copy()
    rest.flat[0] = 0.0
    total, power = outer[0] * one(inner.shape), one(inner.shape)
    for coefficient in outer[1 : _orders(inner)]:
        power = product(rest, power)
        total = total + coefficient * power
    return total


def reciprocal_series(y: float, orders: int) -> list[float]:
    """Proof of Lemma G.6: 1/y around y, Σ_k (−1)^k (Δy)^k/y^(k+1). Printed with (−1)^(k+1), which is −1/y."""
    return [(-1) ** k / y ** (k + 1) for k in range(orders)]


def absolute_sum(series: Array, radius: float) -> float:
    """Definition G.2: Σ_{|μ| ≥ 1} |a_μ|·radius^|μ|, the least τ2 for τ1 = radius."""
    total = np.abs(series)
    total.flat[0] = 0.0
    for axis, size in enumerate(series.shape):
        shape = [1] * series.ndim
        shape[axis] = size
        total = total * (radius ** np.arange(size)).reshape(shape)
    return float(total.sum())


def composition_radius(radius: float, total: float, outer_radius: float) -> float:
    """Lemma G.3: g∘f has type (min(τ1, σ1·τ1/τ2), σ2) if f has type (τ1, τ2) and g has type (σ1, σ2) at f."""
    return min(radius, outer_radius * radius / total)


def product_total(total: float, other: float, value: float, other_value: float) -> float:
    """Lemma G.4: fg has type (min(τ1, σ1), τ2σ2 + τ2|g| + |f|σ2); f + g has τ2 + σ2 (printed: τ2 + τ2)."""
    return total * other + total * abs(other_value) + abs(value) * other


def coefficient_bound(powers: ArrayLike, radius: float, total: float) -> Array:
    """Lemma G.5: |a_μ| ≤ τ2/τ1^|μ| for |μ| ≥ 1; the derivative is μ! times that. `powers` are the |μ|.

    Printed for every multi-index μ. Definition G.2 leaves the constant term out, so nothing is said of μ = 0.
    """
    return np.asarray(total / radius ** as_floats("powers", powers))


def softmax_series(point: Array, index: int, orders: int) -> Array:
    """Lemma G.6: smax(ζ)_index around `point`, of type (1/(2e²), 1); powers of every ζ_i below `orders`."""
    shape = (orders,) * len(point)
    total = np.zeros(shape)
    for i, value in enumerate(point):
        logit = np.zeros(shape)
        logit.flat[0] = value - point[index]
        for variable, sign in ((i, 1.0), (index, -1.0)):
            place = [0] * len(point)
            place[variable] = 1
            logit[tuple(place)] += sign
        total += exponential(logit)
    return reciprocal(total)


def positions_total(gamma: float) -> float:
    """Proof of Lemma G.8: an entry of XX̃ᵀ + γ²I has type (1, 1 + 2|γ|): (γ + Δ)² − γ² = 2γΔ + Δ².

    Printed is the type (1, γ) of XX̃ᵀ + γI, which at γ = 0 would leave no room for Δ².
    """
    return 1 + 2 * abs(gamma)


def _orders(series: Array) -> int:
    """One more than the largest |μ| that a truncated series can hold."""
    return sum(size - 1 for size in series.shape) + 1
