"""Tangent kernels of infinitely wide text classifiers, in closed form and from counts.

The networks (width d → ∞; E ~ N(0, σ_e²), W ~ N(0, σ_w²), v ~ N(0, σ_v²), M ~ N(0, σ_m²)):

    MLP     s = Σ_t (1/√d) vᵀφ(W E_t/√d)                 CNN   the same over windows, Σ_k W_k E_k/√d inside
    SA      s = Σ_t (1/√d) vᵀ(A E)_t,  A = softmax(E Eᵀ/d)      SA+MLP   φ(W ·/√d) after it
    MV      s(ab) = (1/d) vᵀM_a E_b (full) or (1/√d) vᵀ(m_a ∘ E_b) (diagonal)
    L-RNN   h_t = E_t + M h_{t−1}/√d, s = (1/√d) vᵀh_T, with a matrix per token or one shared

Derived anew for this library; each is checked against finite networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from numpy.typing import ArrayLike
from scipy import sparse

from foretrain.data.tokens import TokenTexts
from foretrain.errors import require, require_positive
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
        """σ_v²(σ_e² + σ_w²): what the gradients of E and W weigh."""
        return self.readout**2 * (self.embedding**2 + self.weight**2)


UNIT = Scales()


@dataclass(frozen=True)
class TokenKernel:
    """Θ(e, e′) = own·1[e = e′] + shared: a token moves itself by `own`, and every token by `shared` (the bias)."""

    own: float  # ρ
    shared: float  # β

    def texts(self, counts: Counts, others: Counts | None = None) -> Float[Array, "text other"]:
        """Between texts given by token counts: ρ·Σ_e n(e)n′(e) + β·T·T′."""
        others = counts if others is None else others
        lengths = np.asarray(counts.sum(axis=1), dtype=np.float64)
        other_lengths = np.asarray(others.sum(axis=1), dtype=np.float64)
        return self.own * _dense(counts @ others.T) + self.shared * np.outer(lengths, other_lengths)


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


def cnn_texts(
    activation: str, window: int, texts: TokenTexts, others: TokenTexts | None = None, scales: Scales = UNIT
) -> Float[Array, "text other"]:
    """CNN between texts: Σ over pairs of windows.

    Θ(m) = Σ_j a_j·C(m, j) turns the sum over pairs of windows into one sparse product per subset of places: two
    windows that agree on j given places are counted by the product of their counts of that partial window.
    """
    others = texts if others is None else others
    shortest = min(int(texts.lengths.min()), int(others.lengths.min()))
    require(shortest >= window, f"The window ({window}) is larger than the shortest text ({shortest} tokens); pad it.")
    theta = cnn_window_kernel(activation, window, scales)
    weights = [sum((-1) ** (j - m) * comb(j, m) * theta[m] for m in range(j + 1)) for j in range(window + 1)]
    total = np.zeros((len(texts), len(others)))
    for j, weight in enumerate(weights):
        for places in combinations(range(window), j):
            total += weight * _partial_matches(texts, others, window, places)
    return total


def _partial_matches(texts: TokenTexts, others: TokenTexts, window: int, places: tuple[int, ...]) -> Array:
    """How many pairs of windows agree on `places`."""
    joined = TokenTexts(
        np.concatenate([texts.flat, others.flat]),
        np.concatenate([texts.starts, texts.starts[-1] + others.starts[1:]]),
        texts.vocab,
    )
    grams, counts = joined.ngrams(window)
    _, group = np.unique(grams[:, list(places)], axis=0, return_inverse=True)
    onto = sparse.csr_array((np.ones(len(grams)), (np.arange(len(grams)), group.ravel())))
    merged = sparse.csr_array(counts @ onto)
    return _dense(merged[: len(texts)] @ merged[len(texts) :].T)


def attention_weights(counts: Counts, scales: Scales = UNIT) -> sparse.csr_array:
    """a(e): the weight self-attention in its limit gives to all occurrences of e, summed over the queries of a text.

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


def attention_texts(counts: Counts, others: Counts | None = None, scales: Scales = UNIT) -> Array:
    """SA: (σ_e²+σ_v²)·Σ_e a(e)a′(e). No shared term: no bias."""
    first = attention_weights(counts, scales)
    second = first if others is None else attention_weights(others, scales)
    return (scales.embedding**2 + scales.readout**2) * _dense(first @ second.T)


def attention_mlp_text(
    activation: str, counts: Int[Array, "vocab"], other: Int[Array, "vocab"], scales: Scales = UNIT
) -> float:
    """SA+MLP between two texts: Σ over pairs of queries of E[φφ′] + σ_v²(σ_e²+σ_w²)·k·E[φ′φ′].

    k is the overlap of what the two queries attend to. With ReLU it is positive even for texts without a common
    token: the bias is back.
    """
    tokens, others = np.flatnonzero(counts), np.flatnonzero(other)
    attended, other_attended = _attended(counts, tokens, scales), _attended(other, others, scales)
    overlap = attended @ other_attended.T
    q = scales.q
    own, other_own = q * (attended**2).sum(1)[:, None], q * (other_attended**2).sum(1)[None]
    value = moments.product(activation, own, other_own, q * overlap)
    value = value + scales.inner * overlap * moments.slope_product(activation, own, other_own, q * overlap)
    return float(counts[tokens] @ value @ other[others])


def _attended(counts: Int[Array, "vocab"], queries: Int[Array, "query"], scales: Scales) -> Float[Array, "query vocab"]:
    """What each query token attends to, by token."""
    weight = np.tile(counts.astype(np.float64), (len(queries), 1))
    weight[np.arange(len(queries)), queries] *= np.exp(scales.embedding**2)
    return weight / weight.sum(axis=1, keepdims=True)


def matrix_vector_weight(scales: Scales = UNIT) -> float:
    """MV, full or diagonal: σ_m²σ_e² + σ_v²σ_e² + σ_v²σ_m² where both tokens are equal, else 0: a bigram kernel."""
    e, v, m = scales.embedding**2, scales.readout**2, scales.matrix**2
    return m * e + v * e + v * m


def recurrent_weights(length: int, scales: Scales = UNIT) -> Float[Array, "length"]:
    """c_n = σ_m^{2(n−1)}(σ_v²+σ_e²) + (n−1)σ_m^{2(n−2)}σ_v²σ_e², n = 1..length.

    c_n is what the token n places from the end adds where it matches. With a matrix per token it counts only if all
    later tokens match too; with one shared matrix it counts by itself, so there are no n-grams.
    """
    require(length >= 1, f"length must be at least 1; got {length}.")
    e, v, m = scales.embedding**2, scales.readout**2, scales.matrix**2
    n = np.arange(1, length + 1, dtype=np.float64)
    return m ** (n - 1) * (v + e) + (n - 1) * m ** (n - 2) * v * e


def recurrent_kernel(first: ArrayLike, second: ArrayLike, *, shared: bool, scales: Scales = UNIT) -> float:
    """L-RNN between two texts: Σ_n c_n over matching suffixes (a matrix per token) or matching places (`shared`)."""
    a, b = np.asarray(first)[::-1], np.asarray(second)[::-1]
    length = min(len(a), len(b))
    equal = a[:length] == b[:length]
    if not shared:
        equal = np.logical_and.accumulate(equal)
    return float(recurrent_weights(length, scales) @ equal)


def _dense(table: Any) -> Array:
    return np.asarray(table.toarray() if sparse.issparse(table) else table)
