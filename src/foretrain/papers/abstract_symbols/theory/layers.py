"""Section 3.3: the kernel of one and of two attention layers with a·I, in the limit of infinite width.

The network is that of appendix H.1, with W_KW_Qᵀ + a·I in every head and, for two layers, attention at every position
of the first. Expectations over the Gaussian logits are taken with scrambled Sobol points.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, softmax

Array = NDArray[np.float64]
String = tuple[Hashable, ...]


def identity_kernel(
    x: Sequence[Hashable],
    y: Sequence[Hashable],
    *,
    beta: float,
    gamma: float,
    identity: float,
    layers: int,
    scramble: int = 1,
    log2: int = 12,
) -> float:
    """Section 3.3: K_attn of eq. 4 after `layers` attention layers whose heads have W_KW_Qᵀ + a·I, a = `identity`.

    With G = XXᵀ + γ²I, a head of the first layer adds a·G_ij to the logit of position j at position i. At the last
    position, the only one that a single layer reads, these are a(1 + γ²) for [CLS] itself and 0 for all others: one
    layer does not see XXᵀ at all.
    """
    normal = _normal(2 * len(x), log2, scramble)

    def first(u: String, v: String) -> Array:
        return np.array([[float(a == b) for b in v] for a in u]) + gamma**2 * np.eye(len(u))

    @cache
    def second(u: String, v: String) -> Array:
        grams = first(u, u), first(u, v), first(v, v)
        places = range(len(u))
        return np.array([[_attended(grams, i, j, beta, identity, normal) for j in places] for i in places])

    # Logits are divided by the variance 1 + γ² of an embedding, which for one layer gives the variances of eq. 4.
    beta /= np.sqrt(1 + gamma**2)
    gram: Callable[[String, String], Array] = first if layers == 1 else second
    u, v = tuple(x), tuple(y)
    of_one = [(g + g.T) / 2 for g in (gram(u, u), gram(v, v))]
    return _attended((of_one[0], gram(u, v), of_one[1]), -1, -1, beta, identity, normal)


def _attended(grams: tuple[Array, Array, Array], i: int, j: int, beta: float, identity: float, normal: Array) -> float:
    """E[s(X, i)ᵀ·G(X, Y)·s(Y, j)], the covariance of what position i of X and position j of Y attend to.

    The logits of i and j are Gaussian with covariance G_ij·G. `grams` are G(X, X), G(X, Y) and G(Y, Y).
    """
    within, across, other = grams
    covariance = np.block(
        [[within[i, i] * within, across[i, j] * across], [across[i, j] * across.T, other[j, j] * other]]
    )
    values, vectors = np.linalg.eigh(covariance)
    logits = beta * normal @ (vectors * np.sqrt(np.clip(values, 0, None))).T
    k = len(within)
    left = softmax(logits[:, :k] + identity * within[i], axis=1)
    right = softmax(logits[:, k:] + identity * other[j], axis=1)
    return float(np.einsum("sp,pq,sq->", left, across, right, optimize=True) / len(normal))


@lru_cache(maxsize=8)
def _normal(dimension: int, log2: int, scramble: int) -> Array:
    """2^log2 scrambled Sobol points as normal variables."""
    from scipy.stats import qmc  # slow to load

    points = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(scramble)).random_base2(log2)
    return np.asarray(ndtri(np.clip(points, 2.0**-40, 1 - 2.0**-40)))
