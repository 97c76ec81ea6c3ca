"""Appendix G: how fast the derivatives of the attention kernel grow, pointwise and after the expectation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import bernoulli

from foretrain.papers.abstract_symbols.theory import series as power_series

Array = NDArray[np.float64]


def two_token_kernel(beta: NDArray[np.complex128] | Array) -> NDArray[np.complex128]:
    """κ of x = y = AB at γ = 0: E[(1 + tanh²(βΔ/2))/2] with Δ = ζ_A − ζ_B ~ N(0, 2); β may be complex if Re β > 0."""
    z = np.arange(-900, 901) / 100
    weight = np.exp(-(z**2) / 2)
    values = np.tanh(np.multiply.outer(np.asarray(beta, dtype=np.complex128), z) / math.sqrt(2)) ** 2
    return np.asarray((1 + values @ weight / weight.sum()) / 2)


def two_token_series_at_0(orders: int) -> Array:
    """Lemma G.1 at β = 0: ln|a_2|, ln|a_4|, … of κ = Σ a_n β^n for x = y = AB at γ = 0.

    tanh² = Σ t_2n u^2n has |t_2n| = (2n + 1)·2^{2n+2}(2^{2n+2} − 1)|B_{2n+2}|/(2n + 2)!, and the Gaussian adds
    E Δ^2n = 2^n (2n − 1)!!: the radius of convergence is 0.
    """
    n = np.arange(1, orders + 1)
    b = np.log(np.abs(bernoulli(2 * orders + 2)[2 * n + 2]))
    power = (2 * n + 2) * math.log(2)
    tanh2 = np.log(2 * n + 1) + power + np.log(np.expm1(power)) + b - _log_factorial(2 * n + 2)
    gaussian = _log_factorial(2 * n) - _log_factorial(n)  # 2^n (2n − 1)!!
    return tanh2 - 2 * n * math.log(2) + gaussian - math.log(2)


def two_token_series(center: float, orders: int, radius: float) -> Array:
    """Lemma G.1 at β > 0: ln|a_1|, ln|a_2|, … of the same κ around `center`, by Cauchy's integral on a circle."""
    angles = 2 * math.pi * np.arange(256) / 256
    values = two_token_kernel(center + radius * np.exp(1j * angles))
    n = np.arange(1, orders + 1)
    return np.log(np.abs(np.fft.fft(values)[n] / 256)) - n * math.log(radius)


def pointwise_derivatives(
    x: Sequence[int], y: Sequence[int], *, beta: float, gamma: float, zeta: Array, p: Array, order: int
) -> Array:
    """Lemmas G.7 to G.9: the derivatives that they bound, ∂^k1/∂β^k1 ∂^k2/∂γ^k2 of f for given ζ and p, [k1, k2].

    f = smax(βm(X))ᵀ(XYᵀ + γ²I)smax(βm(Y)), and both orders go up to `order`.
    """
    size = max(order, 1) + 1
    series = np.zeros((2, len(x), size, size))
    for side, string in enumerate((x, y)):
        logits = np.zeros((len(x), size, size))
        for i, token in enumerate(string):  # (β + s)(ζ + (γ + t)p)
            logits[i, :2, :2] = [[beta * (zeta[token] + gamma * p[i]), beta * p[i]], [zeta[token] + gamma * p[i], p[i]]]
        logits[:, 0, 0] -= logits[:, 0, 0].max()
        powers = np.stack([power_series.exponential(row) for row in logits])
        total = power_series.reciprocal(powers.sum(axis=0))
        series[side] = np.stack([power_series.product(row, total) for row in powers])
    square = np.zeros((size, size))
    square[0, :3] = np.array([gamma**2, 2 * gamma, 1.0])[:size]
    result = np.zeros((size, size))
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            if a == b or i == j:
                entry = square * (i == j)
                entry[0, 0] += a == b
                result += power_series.product(entry, power_series.product(series[0, i], series[1, j]))
    factorials = np.array([math.factorial(n) for n in range(size)])
    return (result * np.multiply.outer(factorials, factorials))[: order + 1, : order + 1]


def log_derivative_bound(
    x: Sequence[int],
    y: Sequence[int],
    *,
    beta: float,
    gamma: float,
    zeta: Array,
    p: Array,
    order: int,
    positions: float,
) -> Array:
    """Lemma G.9: ln of C(1 + γ²)·max(1, (2e²·size)^{k1+k2})·k1!·k2!, with C = 12·length² by the rules of Lemma G.4.

    size = ‖Xζ‖ + ‖Yζ‖ + positions·‖p‖, each norm being the largest entry. Lemmas G.7 to G.9 are
    printed with positions = |β| + |γ|; the series of βXζ + βγp around (β, γ) also has the term (Δβ)(Δγ)p, so it must be
    1 + |β| + |γ|.
    """
    size = np.abs(zeta[list(x)]).max() + np.abs(zeta[list(y)]).max() + positions * np.abs(p).max()
    n = np.arange(order + 1)
    grow = max(0.0, math.log(2 * math.e**2 * size)) if size > 0 else 0.0
    return (
        math.log(12 * len(x) ** 2 * (1 + gamma**2))
        + grow * np.add.outer(n, n)
        + np.add.outer(_log_factorial(n), _log_factorial(n))
    )


def _log_factorial(n: NDArray[np.int64]) -> Array:
    return np.array([math.lgamma(v + 1) for v in n])
