"""Section 5: co-occurrence of tokens in a hierarchical binary latent tree (Theorem 5, Lemmas 8 and 9).

Layers count from the tokens (0) to the class label (L = `depth`); a common latent ancestor "of depth H" is at layer H.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import as_floats, require

Array = NDArray[np.float64]


def transition(rho: ArrayLike) -> Array:
    """Definition 1 and Lemma 8: M(ρ) = ½[[1+ρ, 1−ρ], [1−ρ, 1+ρ]], the conditional probabilities of an edge.

    They are on the last two axes. Lemma 8: M(ρ1)M(ρ2) = M(ρ1ρ2) and M(ρ1)p(ρ2) = p(ρ1ρ2).
    """
    rho = _correlations(rho)
    same, other = (1 + rho) / 2, (1 - rho) / 2
    return np.stack([np.stack([same, other], -1), np.stack([other, same], -1)], -2)


def distribution(rho: ArrayLike) -> Array:
    """Definition 1: p(ρ) = ½[1+ρ, 1−ρ], the probabilities of 0 and 1; last axis."""
    rho = _correlations(rho)
    return np.stack([(1 + rho) / 2, (1 - rho) / 2], -1)


def chain_correlation(rho: ArrayLike) -> Array:
    """Lemma 9: ρ_{γ|α} is the product of ρ along the chain from α down to γ (the last axis)."""
    return np.asarray(np.prod(_correlations(rho), axis=-1))


def cooccurrence(rho: ArrayLike, depth: ArrayLike, ancestor_depth: ArrayLike, p_zero: ArrayLike) -> Array:
    """Theorem 5, corrected: P[y_l = 1 | y_m = 1] with ρ0 = 2P[y = 0] − 1, y being a child of the root.

    = ½(1 + ρ^{2H} − 2ρ^{L−1}ρ0)/(1 − ρ^{L−1}ρ0). `p_zero` is P[y = 0] over all classes.
    """
    rho, L, H, p_zero = _checked(rho, depth, ancestor_depth, p_zero)
    return _cooccurrence(rho, L, H, np.asarray(2 * p_zero - 1))


def cooccurrence_printed(rho: ArrayLike, depth: ArrayLike, ancestor_depth: ArrayLike, p_zero: ArrayLike) -> Array:
    """Theorem 5 as printed, with ρ0 = p_{·|0}ᵀp_0, which is P[y = 0] itself."""
    rho, L, H, p_zero = _checked(rho, depth, ancestor_depth, p_zero)
    return _cooccurrence(rho, L, H, p_zero)


def cooccurrence_by_edge(to_token: ArrayLike, to_query: ArrayLike, ancestor: ArrayLike) -> Array:
    """Theorem 5 for any ρ per edge, from eq. 98: P[y_l = 1 | y_m = 1] = ½(1 + ρ_lρ_m − (ρ_l + ρ_m)ρ_c)/(1 − ρ_mρ_c).

    `to_token` ρ_l and `to_query` ρ_m are the products of ρ along the chains from the common ancestor c down to the two
    tokens (Lemma 9), and `ancestor` is ρ_c = 2P[y_c = 0] − 1.
    """
    rho_l, rho_m, rho_c = (_correlations(a) for a in (to_token, to_query, ancestor))
    with np.errstate(divide="ignore", invalid="ignore"):  # for a query that never occurs the result is nan
        return np.asarray(0.5 * (1 + rho_l * rho_m - (rho_l + rho_m) * rho_c) / (1 - rho_m * rho_c))


def cooccurrence_limit(depth: ArrayLike, ancestor_depth: ArrayLike) -> Array:
    """Section 5, eq. 8: 1 − H/L, the limit for ρ = ρ0 = 1 − ε.

    The error is −(H/L)(L − 2H)·ε/2 + O(ε²), where the paper prints O(ε²).
    """
    L, H = _layers(depth, ancestor_depth)
    return np.asarray(1 - H / L)


def _cooccurrence(rho: Array, L: Array, H: Array, rho0: Array) -> Array:
    both_zero = rho ** (L - 1) * rho0
    with np.errstate(divide="ignore", invalid="ignore"):  # for a token that never occurs the result is nan
        return np.asarray(0.5 * (1 + rho ** (2 * H) - 2 * both_zero) / (1 - both_zero))


def _correlations(rho: ArrayLike) -> Array:
    rho = as_floats("rho", rho)
    require(rho.size >= 1, "rho must hold at least one number; got none.")
    good = bool(np.all(np.abs(rho) <= 1))
    require(good, f"rho must lie between −1 and 1; got values from {np.min(rho):g} to {np.max(rho):g}.")
    return rho


def _checked(
    rho: ArrayLike, depth: ArrayLike, ancestor_depth: ArrayLike, p_zero: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    rho = _correlations(rho)
    L, H = _layers(depth, ancestor_depth)
    p_zero = as_floats("p_zero", p_zero)
    require(p_zero.size >= 1, "p_zero must hold at least one number; got none.")
    require(
        bool(np.all((p_zero >= 0) & (p_zero <= 1))),
        f"p_zero is a probability between 0 and 1; got values from {np.min(p_zero):g} to {np.max(p_zero):g}.",
    )
    return rho, L, H, p_zero


def _layers(depth: ArrayLike, ancestor_depth: ArrayLike) -> tuple[Array, Array]:
    L, H = as_floats("depth", depth), as_floats("ancestor_depth", ancestor_depth)
    require(
        bool(L.size and H.size), "depth and ancestor_depth must hold at least one number each; one of them is empty."
    )
    whole = bool(np.all(np.isfinite(L) & np.isfinite(H)) and np.all(np.round(L) == L) and np.all(np.round(H) == H))
    require(whole, f"depth and ancestor_depth must be whole numbers of layers; got {L.tolist()} and {H.tolist()}.")
    require(
        bool(np.all((H >= 0) & (H <= L - 1))),
        f"ancestor_depth must lie between 0 and depth − 1 (the root's children); got {np.min(H):g} to {np.max(H):g} "
        f"with depth {np.min(L):g}.",
    )
    return L, H
