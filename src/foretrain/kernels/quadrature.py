"""Grids and tables for the exact attention kernel.

With 1/S = ∫ exp(a − e^a·S) da for both softmax denominators, the kernel is an integral over (a, b) and over the
Gaussian scores ζ of the tokens, in which the positions factorise. A position with token t in x and u in y gives

    T(A, B) = E_p exp(−(e^A + e^B)·e^{βγp}),   A = a + βζ_t,  B = b + βζ_u,

and a numerator e^{βm} of the softmax turns T into −∂T/∂A, −∂T/∂B or ∂²T/∂A∂B. All sums are trapezoid sums, whose error
falls like exp(−π²/step), because the integrands are analytic in a strip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri, roots_hermitenorm

Array = NDArray[np.float64]

WIDEST_HERMITE = 1600  # of numbers a_i + βζ_s with Gauss–Hermite nodes; a table has their square
MOST_TABLES = 8


@dataclass(frozen=True, eq=False)  # compared by identity, so that a grid can be a key of a cache
class QuadratureGrid:
    """Nodes of b, of which every `row_step`-th is a node of a, and nodes of the token scores ζ.

    `scores` has a_i + βζ_s at index i·stride + s·dilation, so that windows of one table serve every token.
    """

    nodes_b: Array
    row_step: int
    weights: Array  # of ζ_s
    scores: Array
    stride: int
    dilation: int
    beta: float
    gamma: float

    @property
    def shape(self) -> tuple[int, int]:
        """How many values of a and of b."""
        return len(self.nodes_b[:: self.row_step]), len(self.nodes_b)

    @property
    def nodes(self) -> int:
        """How many values of ζ."""
        return len(self.weights)

    def integral(self, values: Array) -> float:
        """∫∫ da db of a function given at the nodes."""
        step = float(self.nodes_b[1] - self.nodes_b[0])
        return float(values.sum()) * self.row_step * step**2

    @cached_property
    def _tables(self) -> dict[tuple[float, float], tuple[Array, Array, Array, Array]]:
        return {}

    def table(self, offset_x: float = 0.0, offset_y: float = 0.0) -> tuple[Array, Array, Array, Array]:
        """T, −∂_A T, −∂_B T and ∂_A∂_B T at all pairs of scores, with a constant added to the logits of x and of y."""
        key = (offset_x, offset_y)
        if key not in self._tables:
            A, B = self.scores[:, None] + offset_x, self.scores[None, :] + offset_y
            u = np.logaddexp(A, B)
            H, first, second = position_factor(u, self.beta * self.gamma)
            share_x, share_y = np.exp(A - u), np.exp(B - u)
            if len(self._tables) >= MOST_TABLES:
                self._tables.pop(next(iter(self._tables)))
            self._tables[key] = H, -first * share_x, -first * share_y, (second - first) * share_x * share_y
        return self._tables[key]


@lru_cache(maxsize=8)
def grid(beta: float, gamma: float, length: int, identity: float, crossed: bool, tolerance: float) -> QuadratureGrid:
    """The grid on which kernels of strings of this length have an absolute error below the tolerance.

    crossed  whether some token has different positions in the two strings
    """
    share = tolerance / (6 * (1 + gamma**2))  # the kernel is at most 1 + γ², and several errors of this size add up
    low, high = _range(beta * math.hypot(1.0, gamma), length, share)
    low, high = low - max(0.0, identity * length), high - min(0.0, identity * length)
    step_a, step_b = _steps(beta, gamma, length, share)
    step = min(step_a, step_b)
    decay = _Decay(beta, math.inf if crossed else 2 * gamma**2 / length)
    fewest = decay.hermite_nodes(share)
    lattice_step, dilation, half = _lattice(decay, step, step_a, share)
    if fewest < 2 * half + 1 and fewest * (high - low) / step <= WIDEST_HERMITE:
        zeta, weights = roots_hermitenorm(fewest)
        nodes_b = np.arange(low, high + step, step)
        scores = (nodes_b[:, None] + beta * zeta).ravel()
        stride, dilation = fewest, 1
    else:
        step, stride = lattice_step, 1
        nodes_b = np.arange(low, high + step, step)
        weights = np.exp(-((np.arange(-half, half + 1) * step * dilation / beta) ** 2) / 2)
        scores = low + step * np.arange(-half * dilation, len(nodes_b) + half * dilation)
    return QuadratureGrid(
        nodes_b, max(1, int(step_a / step)), weights / weights.sum(), scores, stride, dilation, beta, gamma
    )


def _lattice(decay: _Decay, step: float, step_a: float, share: float) -> tuple[float, int, int]:
    """The common step of a, b and βζ, how many of these make a step of βζ, and the nodes of ζ on each side of 0.

    A smaller step of a and b may allow a larger step of βζ. The cost is that of sums over two tokens with two
    neighbours each.
    """
    largest = decay.lattice_step(share)
    reach = -float(ndtri(share)) * decay.beta

    def option(dilation: int) -> tuple[float, int, int]:
        common = min(step, largest / dilation)
        return common, dilation, math.ceil(reach / (common * dilation))

    def cost(lattice: tuple[float, int, int]) -> float:
        common, _, half = lattice
        return (2 * half + 1) ** 3 / (common**2 * max(1, int(step_a / common)))

    return min((option(dilation) for dilation in (1, 2, 3)), key=cost)


@dataclass(frozen=True)
class _Decay:
    """How fast the Fourier transform of the integrand falls in ζ, which determines how many nodes a sum over ζ needs.

    The softmax of one string has poles at distance π/β from the real axis, which gives e^{−πω/β}. Positions smooth by a
    variance s², unless the other string has the opposite frequency at the same positions; then its own e^{−πω/β} counts
    as well. So the exponent is the least value of π(ω + ω')/β + s²(ω − ω')²/2. If a token has different positions in
    the two strings, the two frequencies add up in its ζ, and nothing is gained.
    """

    beta: float
    smoothing: float  # s²; infinite: a token is crossed

    def exponent(self, omega: float) -> float:
        if math.isinf(self.smoothing):
            return math.pi * omega / self.beta
        apart = min(omega, math.pi / (self.beta * self.smoothing)) if self.smoothing else omega
        return math.pi * (2 * omega - apart) / self.beta + self.smoothing * apart**2 / 2

    def lattice_step(self, share: float) -> float:
        """The largest step of βζ. A trapezoid sum aliases ω = 2πβ/step, damped by the Gaussian of ζ or the decay."""

        def excess(step: float) -> float:
            omega = 2 * math.pi * self.beta / step
            strip = self.exponent(omega) / omega
            w = min(strip, omega)
            return w * w / 2 - omega * w - math.log(share)

        return float(brentq(excess, 1e-3 * self.beta, 99.0 * self.beta))

    def hermite_nodes(self, share: float) -> int:
        """How many Gauss–Hermite nodes: n of them resolve ω up to 2√n, where measured errors exceed the decay by up to
        e^8."""
        n = 10
        while n < 400 and self.exponent(2 * math.sqrt(n)) < 9 - math.log(share):
            n += 1
        return n


def _steps(beta: float, gamma: float, length: int, share: float) -> tuple[float, float]:
    """The largest steps of a and of b with aliasing errors below `share`.

    A trapezoid sum over a adds the integrand's Fourier transform at ω = 2π/step: |Γ(1 + iω)| times e^{−ω²v/2}, where
    v = β²γ²/length is the variance of the mean of βγp. In a and b together the phases may cancel, but both Γ count, so
    one of the two may have the larger step.
    """

    def log_gamma(step: float) -> float:
        omega = 2 * math.pi / step
        return 0.5 * (math.log(2 * math.pi * omega) - math.pi * omega)

    def alone(step: float) -> float:
        return log_gamma(step) - (2 * math.pi / step * beta * gamma) ** 2 / (2 * length) - math.log(share)

    def together(step: float) -> float:
        return 2 * log_gamma(step) - math.log(share)

    return float(brentq(alone, 1e-3, 9.0 + 9.0 * beta * gamma)), float(brentq(together, 1e-3, 9.0))


def _range(sigma: float, length: int, tail: float) -> tuple[float, float]:
    """The range of a that loses at most `tail` of ∫ S·exp(a − e^a·S) da, where S is a sum of e^{σz}.

    Upper bounds on the loss, for one Gaussian z: length · E min(1, e^{a+σz}) below, and E exp(−e^{a+σz}) above.
    """

    def below(a: float) -> float:
        beyond = math.exp(a + sigma**2 / 2 + float(log_ndtr(-a / sigma - sigma)))
        return math.log(length * (float(ndtr(a / sigma)) + beyond)) - math.log(tail)

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
    p, weights = _normal_nodes(min(0.6, 0.3 / spread))
    sums = [np.zeros_like(knots) for _ in range(3)]
    for node, weight in zip(p, weights, strict=True):
        for total, values in zip(sums, _double_exponential(knots + spread * node), strict=True):
            total += weight * values
    together = CubicSpline(knots, np.stack(sums, axis=-1))(
        u
    )  # one spline of three columns finds each u among the knots once
    H, first, second = (np.ascontiguousarray(part) for part in np.moveaxis(together, -1, 0))
    return H, first, second


def _double_exponential(u: Array) -> tuple[Array, Array, Array]:
    e = np.exp(np.minimum(u, 7.0))  # exp(−e^7) is 0
    f = np.exp(-e)
    return f, -e * f, (e * e - e) * f


def _normal_nodes(step: float) -> tuple[Array, Array]:
    """Trapezoid nodes and weights of a standard Gaussian."""
    half = math.ceil(7.2 / step)
    z = step * np.arange(-half, half + 1, dtype=np.float64)
    weights = np.exp(-(z**2) / 2)
    return z, weights / weights.sum()
