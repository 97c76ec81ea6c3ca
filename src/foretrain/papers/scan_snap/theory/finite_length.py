"""Theorem 2 at finite sequence length: what the noise of token counts does to attention, at the start of training.

The counts of T − 1 context tokens scatter around P(l|n), so the features scatter by δf around their mean f. While the
decoder's logit is still small, g_n = u·((1 − 1/M)·f_n − Σ_n' f_n'/M), and the mean force on a logit is

    K·ż_l/(η_Z·u) = f_l²·Σ_n' f_n·f_n'/M  +  (1 − 1/M)(f_l²·Σ_j σ_j² − σ_l²),      σ_j² = E[δf_j²] ∝ 1/(T − 1),

for a token that is distinct for class n. The first term is Theorem 2. The second is noise: it moves attention from
tokens whose share varies much from sequence to sequence, the rare ones, to those whose share varies little.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.correlation import overlaps
from foretrain.papers.scan_snap.theory.decoder import Array


def feature_noise(probabilities: ArrayLike) -> Array:
    """Lemma 18 for f: (T − 1)·σ_l² to leading order, σ_l² the variance of f_nl over sequences, [class, token].

    With f = c/‖c‖ and counts from a multinomial distribution, δf = (I − ffᵀ)δc/‖c‖ and Cov(c) = (diag P − PPᵀ)/(T−1).
    """
    P = as_floats("probabilities", probabilities)
    squares = (P**2).sum(axis=-1, keepdims=True)
    f = P / np.sqrt(squares)
    # δf_l = (δc_l − f_l·Σ_j f_j δc_j)/‖P‖, and f·δc has Cov with δc_l of P_l(f_l − Σ_j P_j f_j)
    mean = (P * f).sum(axis=-1, keepdims=True)
    along = (P * f**2).sum(axis=-1, keepdims=True) - mean**2
    return (P * (1 - P) - 2 * f * P * (f - mean) + f**2 * along) / squares


def finite_length_force(probabilities: ArrayLike, *, length: ArrayLike) -> tuple[Array, Array]:
    """K·ż_l/(η_Z·u) of distinct tokens at the start: (Theorem 2's share, the share of noise), each [class, token].

    Tokens that are not distinct for a class are nan there.
    """
    P = as_floats("probabilities", probabilities)
    T = as_floats("length", length)
    require(bool(np.all(T >= 2)), f"length must be at least 2; got {np.min(T):g}.")
    f = P / np.linalg.norm(P, axis=-1, keepdims=True)
    noise = feature_noise(P)
    M = P.shape[-1]
    gain = f**2 * overlaps(f).sum(axis=-1, keepdims=True) / M
    spread = (1 - 1 / M) * (f**2 * noise.sum(axis=-1, keepdims=True) - noise) / (T - 1)
    distinct = (P > 0) & ((P > 0).sum(axis=-2, keepdims=True) == 1)
    return np.where(distinct, gain, np.nan), np.where(distinct, spread, np.nan)


def least_length(probabilities: ArrayLike) -> Array:
    """Theorem 2(a) at finite length: how long sequences must be for a distinct token to gain attention from the start.

    [class, token], in tokens including the query; 2 for tokens that noise helps, nan for tokens that are not distinct,
    infinite if the class does not overlap with any other. Later in training shorter sequences will do: α_nn' rises
    above 1/M, and Theorem 2's share with it.
    """
    gain, noise = finite_length_force(probabilities, length=2.0)  # the noise of one context token
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = 1 - noise / gain
    return np.where(np.isnan(gain), np.nan, np.where(noise >= 0, 2.0, np.maximum(needed, 2.0)))
