"""Feature extraction on paper: how label scores move under a constant tangent kernel.

The score of a token is the network's output on that token by itself. With the kernel ρ·1[e = e′] + β of an additive
network, scores move as in a logistic regression on counts. Derived anew; the paper states the kernel view and its
consequences.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, wrightomega

from foretrain.core.errors import as_floats, require

Array: TypeAlias = Any  # float64: an array, or a number where numbers went in


def one_step_scores(omega: ArrayLike, *, own: float, shared: float) -> Array:
    """ρω(e)/2 + βΣω/2: what the first step on the summed logistic loss adds to every score, per unit of learning rate.

    `omega` is ω(e) = Σ_i y_i n_i(e) of every token. Outputs start at 0, so every text pulls with a force of 1/2.
    """
    omega = as_floats("omega", omega)
    return (own * omega + shared * omega.sum()) / 2


def score_velocity(scores: ArrayLike, counts: ArrayLike, labels: ArrayLike, *, own: float, shared: float) -> Array:
    """ds(e)/dt = ρΩ(e) + βΣ_eΩ(e), Ω(e) = Σ_i y_i g_i n_i(e), g_i = σ(−y_i s_i), s_i = Σ_e n_i(e)s(e)."""
    counts, y = as_floats("counts", counts), _signs(labels)
    pull = y * expit(-y * (counts @ as_floats("scores", scores)))
    omega = pull @ counts
    return own * omega + shared * omega.sum()


def single_token_score(t: ArrayLike, *, own: float, occurrences: float) -> Array:
    """One token that occurs once in each of n₊ texts, all positive: s(t) = c − W(e^c), c = 1 + ρn₊t.

    ds/dt = ρn₊σ(−s), so s + e^s = c; W(e^c) is the Wright omega function of c, which does not overflow.
    """
    t = as_floats("t", t)
    require(bool(np.all(t >= 0)), f"t must not be negative; its smallest value is {np.min(t):g}.")
    c = 1 + own * occurrences * t
    return c - np.real(wrightomega(c))


def squared_loss_outputs(kernel: ArrayLike, cross: ArrayLike, labels: ArrayLike, t: float) -> Array:
    """u(t) = K_*Θ⁺(I − e^{−Θt})y: outputs of kernel gradient flow under squared loss, from outputs 0.

    `kernel` is Θ between training texts, `cross` is Θ between the texts asked about and the training texts.
    """
    values, vectors = np.linalg.eigh(as_floats("kernel", kernel))
    values = np.clip(values, 0, None)
    # (1 − e^{−λt})/λ, which is t where λ = 0
    gain = np.where(values * t > 1e-12, -np.expm1(-values * t) / np.where(values > 0, values, 1), t)
    return np.asarray(cross) @ (vectors @ (gain * (vectors.T @ as_floats("labels", labels))))


def next_token_velocity(
    pair_counts: ArrayLike, token_counts: ArrayLike, target_counts: ArrayLike, *, own: float, shared: float
) -> Array:
    """Language model at the start: ds_k(e)/dt = ρ[N(e,k) − N(e)/V] + β[T_k − T/V], [context token, target].

    N(e, k) counts context token e with target k, N(e) context tokens, T_k targets weighted by their context length.
    """
    pairs = as_floats("pair_counts", pair_counts)
    vocab = pairs.shape[1]
    tokens, targets = as_floats("token_counts", token_counts), as_floats("target_counts", target_counts)
    return own * (pairs - tokens[:, None] / vocab) + shared * (targets - targets.sum() / vocab)


def independent_pairs(pair_counts: ArrayLike) -> Array:
    """N(e)T_k/T: how often context token e would occur with target k if targets did not depend on contexts.

    N(e, k) minus this is the excess. Its rows and columns sum to 0, and next_token_velocity is linear, so the first
    step gives the excess ρ times itself and no bias: what frequencies alone explain is gone.
    """
    pairs = as_floats("pair_counts", pair_counts)
    return np.outer(pairs.sum(axis=1), pairs.sum(axis=0)) / pairs.sum()


def bias_ratio(own: float, shared: float) -> float:
    """β/ρ: how strongly all tokens move together, compared with how strongly each moves by itself."""
    require(own > 0, f"own (ρ) must be above 0; got {own}.")
    return shared / own


def _signs(labels: ArrayLike) -> Array:
    y = as_floats("labels", labels)
    require(bool(np.all(np.abs(y) == 1)), "labels must be +1 or -1.")
    return y
