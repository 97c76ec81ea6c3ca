"""Grids and tables for the exact attention kernel.

With 1/S = ∫ exp(a − e^a·S) da for both softmax denominators, the kernel is an integral over (a, b) and the
Gaussian scores ζ of the tokens; the positions factorise. One position that holds token t in x and u in y gives

    T(A, B) = E_p exp(−(e^A + e^B)·e^{βγp}),   A = a + βζ_t,  B = b + βζ_u,

and every numerator e^{βm} of the softmax turns T into −∂T/∂A, −∂T/∂B or ∂²T/∂A∂B. All sums are trapezoid
sums: the integrands are analytic in a strip, so the error falls like exp(−π²/step).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, roots_hermitenorm

Array = NDArray[np.float64]

# Below this temperature a lattice fine enough for ζ would be far too fine for a: Gauss–Hermite nodes instead.
SMALLEST_LATTICE_BETA = 0.6
HERMITE_NODES = 18


@dataclass(frozen=True)
class Grid:
    """Nodes of a (the same for b), of the token scores ζ, and the numbers a_i + βζ_s at index i·stride + s."""

    a: Array
    step: float
    weights: Array  # of ζ_s
    scores: Array
    stride: int
    beta: float
    gamma: float

    @property
    def nodes(self) -> int:
        return len(self.weights)

    @cached_property
    def tables(self) -> dict[tuple[float, float], tuple[Array, Array, Array, Array]]:
        """Filled by `table`: one set per pair of offsets."""
        return {}

    def table(self, offset_x: float = 0.0, offset_y: float = 0.0) -> tuple[Array, Array, Array, Array]:
        """T, −∂_A T, −∂_B T and ∂_A∂_B T at all pairs of scores, moved by a constant logit of x and of y."""
        key = (offset_x, offset_y)
        if key not in self.tables:
            self.tables[key] = self._table(self.scores[:, None] + offset_x, self.scores[None, :] + offset_y)
        return self.tables[key]

    def _table(self, A: Array, B: Array) -> tuple[Array, Array, Array, Array]:
        u = np.logaddexp(A, B)
        H, first, second = position_factor(u, self.beta * self.gamma)
        share_x, share_y = np.exp(A - u), np.exp(B - u)
        return H, -first * share_x, -first * share_y, (second - first) * share_x * share_y


@lru_cache(maxsize=16)
def grid(beta: float, gamma: float, length: int, offset: float, fineness: float) -> Grid:
    """The grid for strings of `length` and constant logits between 0 and `offset`.

    `fineness` 1 is made for an error of 1e-8 up to beta 2 and of 1e-6 up to beta 4; larger is finer and wider.
    """
    tail = 2e-10 if beta <= 2 else 2e-8
    tail /= math.exp(6 * (fineness - 1))
    step = (0.42 if beta <= 2 else 0.5) / fineness
    low, high = _range(beta * math.hypot(1.0, gamma), length, tail)
    count = math.ceil((high - low + offset) / step)
    a = low - offset + step * np.arange(count + 1)
    if beta < SMALLEST_LATTICE_BETA:
        zeta, weights = roots_hermitenorm(round(HERMITE_NODES * fineness))
        weights = weights / weights.sum()
        return Grid(a, step, weights, (a[:, None] + beta * zeta).ravel(), len(zeta), beta, gamma)
    half = math.ceil(-_normal_quantile(tail) * beta / step)
    zeta = np.arange(-half, half + 1) * step / beta
    weights = np.exp(-(zeta**2) / 2)
    weights = weights / weights.sum()
    scores = a[0] + step * np.arange(-half, count + half + 1)
    return Grid(a, step, weights, scores, 1, beta, gamma)


def _range(sigma: float, length: int, tail: float) -> tuple[float, float]:
    """Where a must run so that at most `tail` of ∫ S·exp(a − e^a·S) da is lost, S a sum of e^{σz}.

    Below: length · E min(1, e^{a+σz}); above: E exp(−e^{a+σz}), both for one Gaussian z, are upper bounds.
    """

    def below(a: float) -> float:
        late = math.exp(a + sigma**2 / 2 + float(log_ndtr(-a / sigma - sigma)))
        return math.log(length * (float(ndtr(a / sigma)) + late)) - math.log(tail)

    def above(a: float) -> float:
        z, w = _normal_nodes(0.1 / max(1.0, sigma))
        return math.log(max(1e-300, float(w @ np.exp(-np.exp(np.minimum(a + sigma * z, 7.0)))))) - math.log(tail)

    far = 40 + 9 * sigma
    return float(brentq(below, -far - math.log(length), 0.0, xtol=1e-3)), float(brentq(above, 0.0, far, xtol=1e-3))


def position_factor(u: Array, spread: float) -> tuple[Array, Array, Array]:
    """H(u) = E_p exp(−e^{u + spread·p}) and its first two derivatives, for a standard Gaussian p."""
    if spread == 0:
        return _double_exponential(u)
    lowest, highest = float(u.min()), float(u.max())
    fine = 0.005 * max(1.0, spread)
    knots = np.linspace(lowest, highest, max(8, math.ceil((highest - lowest) / fine)))
    p, weights = _normal_nodes(min(0.8, 0.4 / spread))
    sums = [np.zeros_like(knots) for _ in range(3)]
    for node, weight in zip(p, weights, strict=True):
        for total, values in zip(sums, _double_exponential(knots + spread * node), strict=True):
            total += weight * values
    H, first, second = (CubicSpline(knots, total)(u) for total in sums)
    return H, first, second


def _double_exponential(u: Array) -> tuple[Array, Array, Array]:
    e = np.exp(np.minimum(u, 7.0))  # exp(−e^7) is 0
    f = np.exp(-e)
    return f, -e * f, (e * e - e) * f


def _normal_nodes(step: float) -> tuple[Array, Array]:
    """Trapezoid nodes and weights of a standard Gaussian."""
    half = math.ceil(7.2 / step)
    z = np.arange(-half, half + 1) * step
    weights = np.exp(-(z**2) / 2)
    return z, weights / weights.sum()


def _normal_quantile(p: float) -> float:
    return float(brentq(lambda z: float(log_ndtr(z)) - math.log(p), -20.0, 0.0))
