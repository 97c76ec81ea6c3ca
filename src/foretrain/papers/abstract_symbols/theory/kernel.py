"""Eq. 4 and Claim E.2: a definition and a closed form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, softmax

Array = NDArray[np.float64]


def attention_expectation(
    x: Sequence[object], y: Sequence[object], *, beta: float, gamma: float, same_scores: bool = True, log2: int = 16
) -> float:
    """Eq. 4: E[smax(βm(X))ᵀ(XYᵀ + γ²I)smax(βm(Y))] with m(X) = Xζ + γp, by 2^log2 scrambled Sobol points.

    Appendix G.1 prints m(Y) = Yζ̃ + γp with ζ̃ independent of ζ (`same_scores=False`); eq. 4 needs ζ̃ = ζ.
    """
    from scipy.stats import qmc  # slow to load

    tokens = list(dict.fromkeys([*x, *y]))
    rows, columns = ([tokens.index(t) for t in s] for s in (x, y))
    m, k = len(tokens), len(x)
    points = qmc.Sobol(m * (1 if same_scores else 2) + k, scramble=True, rng=np.random.default_rng(1)).random_base2(
        log2
    )
    normal = ndtri(np.clip(points, 2.0**-40, 1 - 2.0**-40))
    p = gamma * normal[:, -k:]
    zeta, other = normal[:, :m], normal[:, :m] if same_scores else normal[:, m : 2 * m]
    product = np.equal.outer(rows, columns) + gamma**2 * np.eye(k)
    first, second = softmax(beta * (zeta[:, rows] + p), axis=1), softmax(beta * (other[:, columns] + p), axis=1)
    return float(((first @ product) * second).sum(axis=1).mean())


def cosine_expectation(a: ArrayLike, b: ArrayLike, rho: ArrayLike, *, k: ArrayLike, c: ArrayLike) -> Array:
    """Claim E.2: E[cos(kU + c)cos(kV + c)] for variances a, b and covariance ρ."""
    a, b, rho, k, c = (np.asarray(v, dtype=np.float64) for v in (a, b, rho, k, c))
    return np.asarray(np.exp(-(k**2) * (a + b) / 2) * (np.exp(-(k**2) * rho) * np.cos(2 * c) + np.exp(k**2 * rho)) / 2)
