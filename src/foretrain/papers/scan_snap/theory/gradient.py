"""Section 3 and appendices C, H: gradients of the 1-layer transformer, and what they become for long sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from foretrain.core.errors import as_floats, require

Array = NDArray[np.float64]


def loss_gradients(
    X: ArrayLike, Y: ArrayLike, Z: ArrayLike, *, query: int, label: int, project: bool = True
) -> tuple[Array, Array]:
    """Lemma 1, eq. 3 and 4 for η_Y = η_Z = 1: how Y and Z move on one sequence, as [vocab, vocab] each.

    X is [position, vocab], the context as one-hot rows. `project=False` leaves out P⊥, to show what it is needed for.
    """
    X, Y, Z = (as_floats(name, a) for name, a in (("X", X), ("Y", Y), ("Z", Z)))
    b = softmax(X @ Z[query])
    v = X.T @ b
    f = v / np.linalg.norm(v)
    error = np.eye(len(Y))[label] - softmax(Y.T @ f)
    P = np.eye(len(v)) - np.outer(f, f) if project else np.eye(len(v))
    row = X.T @ np.diag(b) @ X @ P / np.linalg.norm(v) @ Y @ error
    return np.outer(f, error), np.outer(np.eye(len(Z))[query], row)


def attention_limit(probabilities: ArrayLike, logits: ArrayLike) -> Array:
    """Lemma 2, eq. 5 and 6: c_l ∝ P(l|n)·exp(z_l), the limit of Xᵀb as T → ∞; that of Xᵀdiag(b)X is diag(c)."""
    P, z = as_floats("probabilities", probabilities), as_floats("logits", logits)
    weights = P * np.exp(z - z.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def frequency_radius(*, length: ArrayLike, failure: float) -> Array:
    """Lemma 18, eq. 136: a token's share of T−1 context tokens is within √(ln(2/δ)/(2(T−1))) of P(l|n) with
    probability 1 − δ.
    """
    T = as_floats("length", length)
    require(bool(np.all(T >= 2)), f"length must be at least 2; got {np.min(T):g}.")
    require(0 < failure < 1, f"failure must lie between 0 and 1; got {failure}.")
    return np.asarray(np.sqrt(np.log(2 / failure) / (2 * (T - 1))))
