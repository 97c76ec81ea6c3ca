"""Section 5 and appendix E: how attention logits move, and which tokens win.

Axes: `probabilities` and `features` are [..., class, token]. Every class takes the attention logits of its query,
z[n] = Z[ψ(n)], so they are [..., class, token] as well. `by_query` sums over the classes ψ⁻¹(m) of a query.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.correlation import overlaps
from foretrain.papers.scan_snap.theory.decoder import Array, Values
from foretrain.papers.scan_snap.theory.gradient import attention_limit


def features(probabilities: ArrayLike, logits: ArrayLike) -> Array:
    """Eq. 7: f_n = c_n/‖c_n‖₂ with the c_n of Lemma 2, for infinitely long sequences."""
    c = attention_limit(probabilities, logits)
    return c / np.sqrt((c * c).sum(axis=-1, keepdims=True))


def next_token_error(logits: ArrayLike) -> Array:
    """Eq. 7: e_n − α_n of every class, from the output Yᵀf_n [..., class, label]; label n belongs to class n."""
    logits = as_floats("logits", logits)
    return np.eye(*logits.shape[-2:]) - softmax(logits, axis=-1)


def logit_velocity(features: ArrayLike, backpropagated: ArrayLike) -> Array:
    """Eq. 94, the share of each class: diag(f_n)·(I − f_n f_nᵀ)·g_n, for η_Z = 1."""
    f, g = as_floats("features", features), as_floats("backpropagated", backpropagated)
    return f * (g - f * (f * g).sum(axis=-1, keepdims=True))


def attention_velocity(features: ArrayLike, beta: ArrayLike) -> Array:
    """Lemma 4, eq. 10, the share of each class: diag(f_n)·Σ_{n'≠n} β_nn'·(f_n f_nᵀ − I)·f_n', for η_Z·γ = 1.

    Summed over the classes of a query (`by_query`) this is ż_m/(η_Z·γ).
    """
    f = as_floats("features", features)
    return logit_velocity(f, -_others(beta) @ f)


def growth_speed(features: ArrayLike, beta: ArrayLike) -> Array:
    """Theorem 1(a): ξ_n/γ = Σ_{n'≠n} β_nn'·f_nᵀf_n'; a distinct token grows at ż_l = η_Z·f_nl²·ξ_n (eq. 98)."""
    return (as_floats("beta", beta) * overlaps(features)).sum(axis=-1)


def by_query(share: ArrayLike, query: ArrayLike) -> Array:
    """Sum over all classes of the same query, for every class n: Σ_{n' : ψ(n') = ψ(n)} share_n'."""
    query = np.atleast_1d(np.asarray(query))
    same = (query[:, None] == query[None, :]).astype(np.float64)
    return same @ as_floats("share", share)


def fates(probabilities: ArrayLike, query: ArrayLike, *, local: bool = False) -> Array:
    """Theorem 2 and Corollary 2: for every class, +1 at distinct tokens, which gain attention, −1 at common ones.

    A token is distinct if it occurs in one class only. A token that occurs in no class of the query has 0: its logit
    cannot move. With `local`, only classes of the same query count (section 7, with a residual connection).
    """
    occurs = as_floats("probabilities", probabilities) > 0
    in_query = by_query(occurs, query)
    in_classes = in_query if local else occurs.sum(axis=-2, keepdims=True)
    return np.where(in_query > 0, np.where(in_classes == 1, 1.0, -1.0), 0.0)


def growth_factor(gain: ArrayLike) -> Values:
    """Theorem 3: χ_l = exp(2(z_l(t) − z_l(0))); `gain` is z_l(t) − z_l(0)."""
    return np.exp(2 * as_floats("gain", gain))


def relative_gain(start: ArrayLike, gain: ArrayLike) -> Values:
    """Theorem 3, eq. 11: r_{l/l'}(t) = r_{l/l'}(0)·χ_l(t); `gain` is z_l(t) − z_l(0), the gain of l alone."""
    return as_floats("start", start) * growth_factor(gain)


def growth_factor_bounds(growth: ArrayLike, *, feature: ArrayLike) -> tuple[Values, Values]:
    """Theorem 3, eq. 12: exp(2·f_{nl0}(0)²·B_n) ≤ χ_{l0} ≤ exp(2·B_n) for the dominant distinct token l0.

    `growth` is B_n(t), `feature` is f_{nl0}(0).
    """
    growth, feature = as_floats("growth", growth), as_floats("feature", feature)
    require(bool(np.all(growth >= 0)), f"growth must not be negative; its smallest value is {np.min(growth):g}.")
    inside = (feature >= 0) & (feature <= 1)
    require(bool(np.all(inside)), "feature must lie between 0 and 1: it is an entry of a vector of length 1.")
    return np.exp(2 * feature**2 * growth), np.exp(2 * growth) * np.ones_like(feature)


def _others(beta: ArrayLike) -> Array:
    """β without its diagonal."""
    beta = as_floats("beta", beta)
    return beta * (1 - np.eye(beta.shape[-1]))
