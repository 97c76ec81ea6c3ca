"""The attention kernel by sampling: randomised quasi-Monte Carlo, and plain Monte Carlo.

Used for pairs of strings whose graph of tokens is too entangled to contract, and as a reference for the others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats
from scipy.special import ndtri, softmax

from foretrain.core.errors import require_at_least
from foretrain.kernels.patterns import String
from foretrain.kernels.quadrature import Array

RANDOMISATIONS = 16  # enough for Student's t to bound the error at 99.9 % by 4.1 standard errors


def quasi_monte_carlo(
    x: String,
    y: String,
    *,
    beta: float,
    gamma: float,
    identity: float = 0.0,
    log2_points: int = 14,
    randomisations: int = RANDOMISATIONS,
    seed: int = 0,
) -> tuple[float, float]:
    """K_attn from scrambled Sobol points, 2^log2_points per randomisation, and a 99.9 % bound on its error."""
    require_at_least("randomisations", randomisations, 2)
    draw, dimensions = _integrand(x, y, beta, gamma, identity)
    means = []
    for child in np.random.SeedSequence(seed).spawn(randomisations):
        sobol = stats.qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(child))
        cube = np.clip(sobol.random_base2(log2_points), 2.0**-40, 1 - 2.0**-40)
        means.append(float(draw(ndtri(cube)).mean()))
    quantile = float(stats.t.ppf(0.9995, randomisations - 1))
    return float(np.mean(means)), quantile * float(np.std(means, ddof=1)) / randomisations**0.5


def monte_carlo(
    x: String, y: String, *, beta: float, gamma: float, identity: float = 0.0, points: int = 1 << 16, seed: int = 0
) -> tuple[float, float]:
    """K_attn from independent Gaussians, and its standard error."""
    draw, dimensions = _integrand(x, y, beta, gamma, identity)
    values = draw(np.random.default_rng(seed).standard_normal((points, dimensions)))
    return float(values.mean()), float(values.std(ddof=1)) / points**0.5


def _integrand(
    x: String, y: String, beta: float, gamma: float, identity: float
) -> tuple[Callable[[Array], Array], int]:
    """smax(βm(x))ᵀ(XYᵀ + γ²I)smax(βm(y)) as a function of rows of standard Gaussians: ζ per token, p per position."""
    tokens = list(dict.fromkeys([*x, *y]))
    rows = [np.array([tokens.index(t) for t in s]) for s in (x, y)]
    places = len(rows[0]) if gamma else 0
    product = (rows[0][:, None] == rows[1][None, :]) + gamma**2 * np.eye(len(rows[0]))
    offsets = [identity * (row[:, None] == row[None, :]).sum(axis=1) for row in rows]

    def draw(gaussians: Array) -> Array:
        zeta, p = gaussians[:, : len(tokens)], gaussians[:, len(tokens) :]
        shift = gamma * p if places else 0.0
        first, second = (
            softmax(beta * (zeta[:, row] + shift) + offset, axis=1) for row, offset in zip(rows, offsets, strict=True)
        )
        return ((first @ product) * second).sum(axis=1)

    return draw, len(tokens) + places
