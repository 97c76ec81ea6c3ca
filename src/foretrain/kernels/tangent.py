"""Tangent kernels of infinitely wide text classifiers, in closed form; between whole texts: see kernels.features.

The networks (width d → ∞; E ~ N(0, σ_e²), W ~ N(0, σ_w²), v ~ N(0, σ_v²), M ~ N(0, σ_m²)):

    MLP     s = Σ_t (1/√d) vᵀφ(W E_t/√d)                 CNN   the same over windows, Σ_k W_k E_k/√d inside
    SA      s = Σ_t (1/√d) vᵀ(A E)_t,  A = softmax(E Eᵀ/d)      SA+MLP   φ(W ·/√d) after it
    MV      s(ab) = (1/d) vᵀM_a E_b (full) or (1/√d) vᵀ(m_a ∘ E_b) (diagonal)
    L-RNN   h_t = E_t + M h_{t−1}/√d, s = (1/√d) vᵀh_T, with a matrix per token or one shared

These formulas were derived for this library; the tests check each of them against finite networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array
from scipy import sparse

from foretrain.core.errors import require, require_positive
from foretrain.kernels import gaussian_moments as moments

Counts: TypeAlias = Any  # an array or a scipy.sparse array [text, vocab]


@dataclass(frozen=True)
class Scales:
    """Standard deviations of the initial weights."""

    embedding: float = 1.0  # σ_e
    weight: float = 1.0  # σ_w
    readout: float = 1.0  # σ_v
    matrix: float = 1.0  # σ_m

    def __post_init__(self) -> None:
        for name in ("embedding", "weight", "readout", "matrix"):
            require_positive(f"the standard deviation {name!r}", getattr(self, name))

    @property
    def q(self) -> float:
        """Variance of a hidden unit: σ_e²σ_w²."""
        return self.embedding**2 * self.weight**2

    @property
    def inner(self) -> float:
        """σ_v²(σ_e² + σ_w²): the weight of the gradients of E and W."""
        return self.readout**2 * (self.embedding**2 + self.weight**2)


UNIT = Scales()


class TokenKernel(NamedTuple):
    """Θ(e, e′) = own·1[e = e′] + shared: a token moves itself by `own`, and every token by `shared` (the bias)."""

    own: float  # ρ
    shared: float  # β


def mlp_kernel(activation: str, scales: Scales = UNIT) -> TokenKernel:
    """MLP: ρ = Eφ² − (Eφ)² + σ_v²(σ_e²+σ_w²)Eφ′², β = (Eφ)²."""
    q = scales.q
    shared = float(moments.mean(activation, q)) ** 2
    square = float(moments.product(activation, q, q, q))
    slope = float(moments.slope_product(activation, q, q, q))
    return TokenKernel(own=square - shared + scales.inner * slope, shared=shared)


def cnn_window_kernel(activation: str, window: int, scales: Scales = UNIT) -> Float[Array, "matches"]:
    """CNN: Θ between two windows of K tokens with m = 0..K tokens equal in the same place.

    ReLU: (qK/2π)(sin θ + (π−θ)cos θ) + σ_v²(σ_e²+σ_w²)·m(π−θ)/2π with cos θ = m/K.
    """
    require(window >= 1, f"window must be at least 1; got {window}.")
    m = np.arange(window + 1)
    variance, covariance = scales.q * window, scales.q * m
    value = moments.product(activation, variance, variance, covariance)
    return value + scales.inner * m * moments.slope_product(activation, variance, variance, covariance)


def attention_weights(counts: Counts, scales: Scales = UNIT) -> sparse.csr_array:
    """a(e): the weight that self-attention, in its limit, gives to all occurrences of e, summed over a text's queries.

    A query e attends to each of its own occurrences e^{σ_e²} times as much as to another token, so with
    D_e = n(e)(e^{σ_e²}−1) + T:  a(e) = n(e)·[n(e)(e^{σ_e²}−1)/D_e + Σ_e′ n(e′)/D_e′].
    """
    table = sparse.csr_array(counts, dtype=np.float64)
    boost = np.expm1(scales.embedding**2)
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    lengths = np.asarray(table.sum(axis=1))
    per_query = table.data / (table.data * boost + lengths[rows])
    everyone = np.bincount(rows, weights=per_query, minlength=table.shape[0])
    data = table.data * (boost * per_query + everyone[rows])
    return sparse.csr_array((data, table.indices, table.indptr), shape=table.shape)


def attention_mlp_texts(activation: str, counts: Counts, scales: Scales = UNIT) -> Float[Array, "text text"]:
    """SA+MLP between texts: Σ over pairs of queries of E[φφ′] + σ_v²(σ_e²+σ_w²)·k·E[φ′φ′].

    k is the overlap of what the two queries attend to. With ReLU the kernel is positive even for texts without a common
    token: the bias is back. There is no sparse product here, since all pairs of queries count.
    """
    attended, per_text = _queries(counts, scales)
    overlap = np.asarray((attended @ attended.T).toarray())
    variance, covariance = scales.q * np.asarray((attended * attended).sum(axis=1)), scales.q * overlap
    value = moments.product(activation, variance[:, None], variance, covariance)
    value = value + scales.inner * overlap * moments.slope_product(activation, variance[:, None], variance, covariance)
    return np.asarray(per_text @ (per_text @ value.T).T)


def _queries(counts: Counts, scales: Scales) -> tuple[sparse.csr_array, sparse.csr_array]:
    """What each distinct token of a text attends to [query, vocab], and how often it is the query [text, query]."""
    table = sparse.csr_array(counts, dtype=np.float64)
    text = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    weight = sparse.csr_array(table[text])
    on_itself = sparse.csr_array(
        (np.expm1(scales.embedding**2) * table.data, (np.arange(len(text)), table.indices)), weight.shape
    )
    weight = weight + on_itself  # a query attends to its own token e^{σ_e²} times as much
    asks = sparse.csr_array((table.data, (text, np.arange(len(text)))), (table.shape[0], len(text)))
    return sparse.csr_array(weight.multiply(1 / np.asarray(weight.sum(axis=1))[:, None])), asks


def even_attention_relu(
    counts: Counts, others: Counts, scales: Scales = UNIT
) -> tuple[sparse.csr_array, Float[Array, "text"], Float[Array, "other"]]:
    """SA+ReLU if every query attends to all tokens equally (σ_e → 0): a sparse part, and two factors of the rest.

    Θ = sparse + outer(first, second). The outer product is the bias, which texts without a common token have too; the
    sparse part is 0 for these. The difference to `attention_mlp_texts` is of order σ_e².
    """
    mixes = [sparse.csr_array(c, dtype=np.float64) for c in (counts, others)]
    variances = [
        scales.q * np.asarray((m * m).sum(axis=1)) for m in mixes
    ]  # of n(e), not of n(e)/T: ReLU is homogeneous
    overlap = sparse.coo_array(mixes[0] @ mixes[1].T)
    i, j = overlap.coords
    k = overlap.data
    value = moments.product("relu", variances[0][i], variances[1][j], scales.q * k)
    value = value + scales.inner * k * moments.slope_product("relu", variances[0][i], variances[1][j], scales.q * k)
    first, second = (np.sqrt(o / (2 * np.pi)) for o in variances)
    return sparse.csr_array((value - first[i] * second[j], (i, j)), overlap.shape), first, second


def matrix_vector_weight(scales: Scales = UNIT) -> float:
    """MV, full or diagonal: σ_m²σ_e² + σ_v²σ_e² + σ_v²σ_m² where both tokens are equal, else 0: a bigram kernel."""
    e, v, m = scales.embedding**2, scales.readout**2, scales.matrix**2
    return m * e + v * e + v * m


def recurrent_weights(length: int, scales: Scales = UNIT) -> Float[Array, "length"]:
    """c_n = σ_m^{2(n−1)}(σ_v²+σ_e²) + (n−1)σ_m^{2(n−2)}σ_v²σ_e², n = 1..length.

    c_n is what the token n places from the end adds if it matches. With a matrix per token it counts only if all later
    tokens match too; with one shared matrix it counts by itself, so there are no n-grams.
    """
    require(length >= 1, f"length must be at least 1; got {length}.")
    e, v, m = scales.embedding**2, scales.readout**2, scales.matrix**2
    n = np.arange(1, length + 1, dtype=np.float64)
    return m ** (n - 1) * (v + e) + (n - 1) * m ** (n - 2) * v * e
