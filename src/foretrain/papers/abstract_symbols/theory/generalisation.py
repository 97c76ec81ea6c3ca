"""Section 3 and appendices C and D: how far kernel ridge regression is from the template labels.

N is the r by r matrix of the templates, `weights` their probabilities μ, `counts` the number of samples |ℐ_j| of each
template, `labels` f*. N has to be positive semidefinite, which it is for every token-symmetric kernel.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def error_rate(n: ArrayLike, diversity: ArrayLike, delta: float) -> Array:
    """Theorem 3.4 (Lemmas 3.5 and C.3): √(log(1/δ)/n) + √(1/ρ), the bound on the error up to its constant."""
    return np.asarray(np.sqrt(math.log(1 / delta) / np.asarray(n, float)) + np.sqrt(1 / np.asarray(diversity, float)))


def inverse_norm_rate(n: ArrayLike, inverse_norm: ArrayLike, delta: float) -> Array:
    """Lemma D.6: √(log(1/δ)/n) + ‖N⁻¹‖/n, the bound for samples without a common token, up to its constant."""
    n = np.asarray(n, float)
    return np.asarray(np.sqrt(math.log(1 / delta) / n) + np.asarray(inverse_norm, float) / n)


def proportional_ridge_limit(N: Array, weights: Array, labels: Array, ratio: float) -> Array:
    """Lemma D.1, corrected: with λ = ratio·n the estimator tends to N(N + ratio·diag(1/μ))⁻¹f*, not to f*.

    Printed: for any λ in [c'n, C'n] the error is O(√(log(1/δ)/n) + √(1/ρ)). The proof of Claim D.4 bounds
    |yᵀ(1/|ℐ_a| − w)| by the length of the second factor alone; the first has length Θ(√n).
    """
    return N @ np.linalg.solve(N + ratio * np.diag(1 / weights), labels)


def many_samples_estimate(N: Array, mean_kernel: Array, labels: Array) -> Array:
    """Theorem 3.4 at n → ∞ and fixed ρ: the estimator tends to N·M⁻¹f* on unseen symbols, whatever the fixed λ.

    M_ij is the mean of K over pairs of samples of templates i and j, with the tokens they happen to share; such pairs
    are a share O(1/ρ) of all, so M = N + O(1/ρ), and the error (N − M)M⁻¹f* is of order 1/ρ, not √(1/ρ). (By symmetry
    all samples of one template get the same coefficient, which makes eq. 5 a system of r equations.)
    """
    return np.asarray(N @ np.linalg.solve(mean_kernel, labels))


def chain_bound(
    N: Array, weights: Array, labels: Array, *, n: float, diversity: float, ridge: float, constant: float = 1.0
) -> float:
    """Proof of Lemma D.1: Claim D.2 plus Claim D.4, |f̂ − f̂_ideal| ≤ C/λ + Cn/(λ√ρ) and |f̂_ideal − f*| without noise.

    Printed, the second part is O(√(log(1/δ)/n)) for every λ, so λ = Θ(n) gives √(1/ρ). It is λ/n times a constant: the
    first part needs λ ≫ n/√ρ, the second λ ≪ n, and the best λ, near n·ρ^(−1/4), leaves ρ^(−1/4).
    """
    shrunk = abs(proportional_ridge_limit(N, weights, labels, ridge / n) - labels).max()
    return float(constant * idealisation_rate(n, diversity, ridge) + shrunk)


def threshold(N: Array, counts: Array) -> float:
    """Claim D.3: τ = min_j |ℐ_j| / ‖N⁻¹‖."""
    return float(counts.min() * np.linalg.eigvalsh(N)[0])


def weight_bounds(N: Array, counts: Array, ridge: float) -> tuple[Array, Array]:
    """Claim D.3: bounds on ‖w‖ and on ‖1_{ℐ_a}/|ℐ_a| − w‖, w = (K̂_ideal + λI)⁻¹v_ideal, for each template a.

    (1/√|ℐ_a|)·τ/(τ − λ) and (1/√|ℐ_a|)·(τ/(τ − λ) − 1); the last step of the printed proof drops 1/√|ℐ_a|.
    """
    tau = threshold(N, counts)
    growth = tau / (tau - ridge)
    return growth / np.sqrt(counts), (growth - 1) / np.sqrt(counts)


def shrinkage_bound(N: Array, counts: Array, labels: Array, shift: Array) -> float:
    """Claim D.4, corrected: without noise |f̂_ideal − f*| ≤ √(max|ℐ_j|/min|ℐ_j|)·λ/(τ + λ)·‖f*‖.

    f̂_ideal − f* = −D^{−½}·λ(S + λI)⁻¹·D^½f* with S = D^½ND^½, whose least eigenvalue is at least τ. It does
    not vanish for λ = Θ(n), since τ = Θ(n). `shift` is the λ of each template; the bound is its maximum over τ plus its
    minimum.
    """
    share = shift.max() / (threshold(N, counts) + shift.min())
    return math.sqrt(counts.max() / counts.min()) * float(share) * float(np.linalg.norm(labels))


def disjoint_error_bound(N: Array, counts: Array, labels: Array, shift: Array, *, noise: float, delta: float) -> Array:
    """Lemma D.6, corrected, with its constants: error on each template when samples share no token.

    There K̂ = K̂_ideal + diag(K(x,x) − N), so `shift` = λ + K(x,x) − N_jj takes the place of λ. First the
    shrinkage of Claim D.4, of order (λ + ‖K‖)‖N⁻¹‖/n; then the noise, a Gaussian of standard deviation at most
    σ√(max shift/min shift)/√|ℐ_a|.
    """
    quantile = math.sqrt(2 * math.log(2 / delta)) * math.sqrt(shift.max() / shift.min())
    return shrinkage_bound(N, counts, labels, shift) + quantile * noise / np.sqrt(counts)


def regression_difference_bound(
    label_norm: float, ridge: float, cross: Array, gram_norm: float, weights: Array
) -> Array:
    """Claim D.5: |f̂ − f̂_ideal| ≤ ‖y‖/λ·(‖v_ideal − v‖ + ‖K̂ − K̂_ideal‖·‖(K̂_ideal + λI)⁻¹v_ideal‖)."""
    return label_norm / ridge * (cross + gram_norm * weights)


def idealisation_rate(n: ArrayLike, diversity: ArrayLike, ridge: ArrayLike) -> Array:
    """Claim D.2: 1/λ + n/(λ√ρ), the bound on |f̂_ideal − f̂| up to its constant."""
    n, diversity, ridge = (np.asarray(v, float) for v in (n, diversity, ridge))
    return np.asarray(1 / ridge + n / (ridge * np.sqrt(diversity)))


def all_represented_probability(n: int, weights: Array) -> float:
    """Proof of Claim D.2, corrected: |ℐ_j| ≥ nμ_j/2 for all j has probability at least 1 − Σ e^{−nμ_j/8} (Chernoff).

    As printed, |ℐ_j| ≥ nμ_j for all j forces equality everywhere, since both sides sum to n.
    """
    return max(0.0, 1 - float(np.exp(-n * weights / 8).sum()))


def spectral_norm(symmetric: Array) -> float:
    """‖A‖ of a symmetric matrix, from its eigenvalues: ten times as fast as from its singular values."""
    return float(abs(np.linalg.eigvalsh(symmetric)).max())


def principal_angle(basis: Array, other: Array) -> float:
    """Fig 4: the largest angle in degrees between two subspaces of equal dimension, given by orthonormal columns."""
    cosine = np.linalg.svd(basis.T @ other, compute_uv=False).min()
    return math.degrees(math.acos(min(1.0, float(cosine))))
