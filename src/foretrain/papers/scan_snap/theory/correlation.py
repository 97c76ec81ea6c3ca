"""Section 4 and appendix D.5: correlations of the features, and the gradient that the decoder sends back.

`features` are [..., class, token]: row n is f_n, which has length 1 and no negative entries. E has the overlaps
f_n·f_n' off its diagonal and 0 on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import as_floats

Array = NDArray[np.float64]


def overlaps(features: ArrayLike) -> Array:
    """Assumption 2: E = FᵀF − I, symmetric, with 0 on the diagonal."""
    f = as_floats("features", features)
    return (f @ np.swapaxes(f, -1, -2)) * (1 - np.eye(f.shape[-2]))


def unmixing(E: ArrayLike) -> Array:
    """Lemma 14: E' = Uᵀdiag(λ/(1+λ))U, so that (I+E)⁻¹ = I − E'. By Lemma 16, E'_nn < 0 where class n overlaps."""
    values, U = np.linalg.eigh(as_floats("E", E))
    return (U * (values / (1 + values))[..., None, :]) @ np.swapaxes(U, -1, -2)


def unmixing_printed(E: ArrayLike) -> Array:
    """Appendix D.1 as printed: E' := (I+E)⁻¹ − I, the negative of what Lemma 14 and everything after it use."""
    E = as_floats("E", E)
    return np.linalg.inv(np.eye(E.shape[-1]) + E) - np.eye(E.shape[-1])


def largest_correlation(E: ArrayLike) -> Array:
    """Lemma 13: |λ1|, the largest of the |λ_i(E)|, which bounds every |E_nn'|."""
    return np.asarray(abs(np.linalg.eigvalsh(as_floats("E", E))).max(axis=-1))


def unmixing_bound(largest: ArrayLike) -> Array:
    """Lemma 15: |λ_i(E')| ≤ |λ1|/(1 − |λ1|), for |λ1| < 1."""
    largest = as_floats("largest", largest)
    return np.asarray(largest / (1 - largest))


def unmixing_distance(largest: ArrayLike) -> Array:
    """Lemma 17: |E'_nn' − E_nn'| ≤ |λ1|²/(1 − |λ1|), for |λ1| < 1."""
    largest = as_floats("largest", largest)
    return np.asarray(largest**2 / (1 - largest))


def correlation_window(*, vocab: ArrayLike, classes: ArrayLike) -> tuple[Array, Array]:
    """Assumption 2: every |λ_i(E)| must be at least 6/√M, and below 1/K. Empty unless M > 36K²."""
    M, K = as_floats("vocab", vocab), as_floats("classes", classes)
    return np.asarray(6 / np.sqrt(M)), np.asarray(1 / K)


def least_vocab(classes: ArrayLike) -> Array:
    """Assumption 2 can be met only by a vocabulary above 36K² (K even), or 36K²((K+1)/(K−1))² (K odd).

    The eigenvalues of E sum to 0. For even K half of them can be 6/√M and half −6/√M. For odd K one sign has fewer
    eigenvalues, which must be larger by the factor (K+1)/(K−1). All must be below 1/K.
    """
    K = as_floats("classes", classes)
    return np.asarray(36 * K**2 * np.where(K % 2 == 0, 1.0, ((K + 1) / np.maximum(K - 1, 1)) ** 2))


def least_vocab_equal_overlaps(classes: ArrayLike) -> Array:
    """Assumption 2 with all f_n·f_n' = ρ: the eigenvalues are (K−1)ρ and −ρ, hence M > 36K²(K−1)²."""
    K = as_floats("classes", classes)
    return np.asarray(36 * K**2 * (K - 1) ** 2)


def gradient_coefficients(
    features: ArrayLike, *, vocab: int, theta: ArrayLike = 0.0, sigma: ArrayLike = 0.0
) -> tuple[Array, Array]:
    """Theorem 1, eq. 86 and 88 with its sign corrected: ι_n and β_nn' in g_n = γ(ι_n f_n − Σ_{n'≠n} β_nn' f_n').

    β_nn' = (1+σ)[q1(1+θ_n)E'_nn' + q0(Σ_{k≠n}(1+θ_k)E'_kn' − (1+θ_n'))], and β_nn is 0. `theta` (Theorem 5) and
    `sigma` (Corollary 1) have one value per class: what a count other than N/K changes in its row of W and its error.
    """
    return _coefficients(features, vocab, theta, sigma, sign=-1.0)


def gradient_coefficients_printed(
    features: ArrayLike, *, vocab: int, theta: ArrayLike = 0.0, sigma: ArrayLike = 0.0
) -> tuple[Array, Array]:
    """Theorem 1, eq. 86 and 88 as printed: with +q0(1+θ_n') in β_nn'."""
    return _coefficients(features, vocab, theta, sigma, sign=1.0)


def growth_speed_closed_form(features: ArrayLike, *, vocab: int) -> Array:
    """Theorem 1(a) with eq. 88 corrected and θ = σ = 0: ξ_n/γ = −(q1−q0)E'_nn − q0(1 − Σ_k (I+E)⁻¹_nk).

    Σ_{n'}β_nn'E_nn' = −q1·E'_nn − q0·Σ_{k≠n}E'_kn by E − E' = EE'. Both terms are at least 0 if the overlaps of each
    class sum to at most 1: then 0 ≤ (I+E)⁻¹1 ≤ 1. No lower bound on |λ_i(E)| is needed.
    """
    E_ = unmixing(overlaps(features))
    q1, q0 = _direction_products(vocab)
    diagonal = np.diagonal(E_, axis1=-2, axis2=-1)
    return -(q1 - q0) * diagonal - q0 * E_.sum(axis=-1)


def _coefficients(
    features: ArrayLike, vocab: int, theta: ArrayLike, sigma: ArrayLike, sign: float
) -> tuple[Array, Array]:
    E_ = unmixing(overlaps(features))
    K = E_.shape[-1]
    q1, q0 = _direction_products(vocab)
    kept = np.broadcast_to(1 + as_floats("theta", theta), E_.shape[:-1])
    scale = np.broadcast_to(1 + as_floats("sigma", sigma), E_.shape[:-1])
    kept_E = kept[..., :, None] * E_  # (1+θ_n)E'_nn'
    rest = kept_E.sum(axis=-2, keepdims=True) - kept_E  # Σ_{k≠n}(1+θ_k)E'_kn'
    beta = scale[..., None] * (q1 * kept_E + q0 * (rest + sign * kept[..., None, :])) * (1 - np.eye(K))
    diagonal = np.diagonal(E_, axis1=-2, axis2=-1)
    iota = scale * (q1 * kept * (1 - diagonal) - q0 * np.diagonal(rest, axis1=-2, axis2=-1))
    return iota, beta


def _direction_products(vocab: int) -> tuple[float, float]:
    """Appendix D.1: q1 = ζ_n·ζ_n and q0 = ζ_n·ζ_n'."""
    return vocab / (vocab - 1), -vocab / (vocab - 1) ** 2
