"""Tangent kernels between texts as sparse features: Θ = R Rᵀ, so that all pairs of texts are one sparse product.

Column 0 of R is what all texts have in common, whatever their tokens: the bias. It is 0 for a network without bias.
Training texts and the texts to score must go through one call, so that they have the same columns; `Features.split`
then separates them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import comb
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy import sparse

from foretrain.core.errors import require
from foretrain.data.tokens import TokenTexts
from foretrain.kernels.tangent import (
    UNIT,
    Scales,
    attention_weights,
    cnn_window_kernel,
    matrix_vector_weight,
    mlp_kernel,
    recurrent_weights,
)

NEGLIGIBLE = 1e-12  # relative to the largest weight: lags of a recurrent network with smaller weights are left out


class Features(NamedTuple):
    """R, and what one part of a text (a token, a window) adds to column 0."""

    rows: sparse.csr_array
    shared: float

    def kernel(self) -> Float[Array, "text text"]:
        return np.asarray((self.rows @ self.rows.T).toarray())

    def split(self, first: int) -> tuple[sparse.csr_array, sparse.csr_array]:
        """The features of the first `first` texts and of the rest, as views in the same memory."""
        data, columns, starts = self.rows.data, self.rows.indices, self.rows.indptr
        end, count = starts[first], self.rows.shape[1]
        return (
            sparse.csr_array((data[:end], columns[:end], starts[: first + 1]), shape=(first, count)),
            sparse.csr_array((data[end:], columns[end:], starts[first:] - end), shape=(len(starts) - 1 - first, count)),
        )


Rates: TypeAlias = Float[Array, "vocab"] | None  # learning rate of each token; None if all have the same, 1


def token_rates(texts: TokenTexts) -> Float[Array, "vocab"]:
    """The learning rate that Adagrad gives each token, relative to a parameter that every text moves: 1/√(n(e)/N).

    Adagrad divides steps by the root of the summed squared gradients, and a token's gradient is 0 where it is absent.
    Adam with sparse gradients does much the same. With these rates Θ is what the first steps of such training follow.
    """
    occurrences = np.bincount(texts.flat, minlength=texts.vocab)
    return np.sqrt(max(1, len(texts)) / np.maximum(occurrences, 1.0))


def mlp_features(texts: TokenTexts, activation: str, scales: Scales = UNIT, rates: Rates = None) -> Features:
    """√ρ·n(e) for each token e, and √β·T in column 0."""
    kernel = mlp_kernel(activation, scales)
    shared = float(np.sqrt(kernel.shared))
    return _with_shared([np.sqrt(kernel.own) * _paced(texts.counts, rates)], shared * texts.lengths, shared)


def attention_features(texts: TokenTexts, scales: Scales = UNIT, rates: Rates = None) -> Features:
    """√(σ_e²+σ_v²)·a(e) for each token e."""
    scale = np.sqrt(scales.embedding**2 + scales.readout**2)
    weights = _paced(attention_weights(texts.counts, scales), rates)
    return _with_shared([scale * weights], np.zeros(len(texts)), 0.0)


def _paced(counts: sparse.csr_array, rates: Rates, parts: Int[Array, "column place"] | None = None) -> sparse.csr_array:
    """Columns times the root of their rate, so that Θ has the rate itself. A column that belongs to several tokens
    (`parts`) has the mean of their rates, since each token's gradient adds its share to Θ."""
    if rates is None:
        return counts
    by_column = rates if parts is None else rates[parts].mean(axis=1)
    data = counts.data * np.sqrt(by_column)[counts.indices]
    return sparse.csr_array((data, counts.indices, counts.indptr), shape=counts.shape)


def window_features(
    texts: TokenTexts, window: int, activation: str, scales: Scales = UNIT, rates: Rates = None
) -> Features:
    """CNN: how often a text has each partial window.

    Θ(m) between windows with m equal places is Σ_j a_j·C(m, j), and C(m, j) counts the sets of j places on which they
    agree. So there is a feature √a_j for each set of j places and the tokens there; the empty set is the bias.
    """
    theta = cnn_window_kernel(activation, window, scales)
    weights = [sum((-1) ** (j - m) * comb(j, m) * theta[m] for m in range(j + 1)) for j in range(window + 1)]
    grams, counts = texts.ngrams(window)
    blocks = (
        np.sqrt(weight) * _merged(_paced(counts, rates, grams[:, list(places)]), grams[:, list(places)], texts.vocab)
        for j, weight in enumerate(weights[1:], start=1)
        if weight > NEGLIGIBLE * theta[-1]
        for places in combinations(range(window), j)
    )
    shared = float(np.sqrt(max(weights[0], 0.0)))
    return _with_shared(blocks, shared * np.asarray(counts.sum(axis=1)), shared)


def _merged(counts: sparse.csr_array, parts: Int[Array, "gram place"], vocab: int) -> sparse.csr_array:
    """Counts of the distinct parts of n-grams; the n-grams themselves are distinct already."""
    key = np.zeros(len(parts), dtype=np.int64)
    for tokens in parts.T:  # one number per part sorts faster than a row; it fits in 64 bits, because the n-gram's does
        key = key * vocab + tokens
    distinct, group = np.unique(key, return_inverse=True)
    if len(distinct) == len(parts):
        return counts
    return counts @ sparse.csr_array((np.ones(len(parts)), (np.arange(len(parts)), group)))


def matrix_vector_features(texts: TokenTexts, scales: Scales = UNIT, rates: Rates = None) -> Features:
    """One feature per bigram; the same for full and diagonal matrices."""
    grams, counts = texts.ngrams(2)
    bigrams = _paced(counts, rates, grams)
    return _with_shared([np.sqrt(matrix_vector_weight(scales)) * bigrams], np.zeros(len(texts)), 0.0)


def recurrent_features(texts: TokenTexts, *, shared_matrix: bool, scales: Scales = UNIT) -> Features:
    """√c_n for the token n places from the end; with a matrix per token, for the whole suffix of length n."""
    ends, lengths = texts.starts[1:], texts.lengths
    weights = recurrent_weights(max(1, int(lengths.max(initial=1))), scales)
    weights = weights[: np.flatnonzero(weights > NEGLIGIBLE * weights.max())[-1] + 1]
    group = np.zeros(len(texts), dtype=np.int64)
    blocks = []
    for n, weight in enumerate(weights, start=1):
        long_enough = np.flatnonzero(lengths >= n)
        if not len(long_enough):
            break
        token = texts.flat[ends[long_enough] - n]
        key = token if shared_matrix else group[long_enough] * texts.vocab + token
        distinct, group_there = np.unique(key, return_inverse=True)
        group[long_enough] = group_there
        entries = np.full(len(long_enough), np.sqrt(weight))
        blocks.append(sparse.csr_array((entries, (long_enough, group_there)), shape=(len(texts), len(distinct))))
    return _with_shared(blocks, np.zeros(len(texts)), 0.0)


def require_windows(texts: TokenTexts, window: int, place: str = "The shortest text") -> None:
    """Refuse texts shorter than the window."""
    shortest = int(texts.lengths.min()) if len(texts) else 0
    require(
        shortest >= window, f"{place} has {shortest} tokens, fewer than the window ({window}); make the window smaller."
    )


def _with_shared(blocks: Iterable[sparse.csr_array], shared: Array, of_one: float) -> Features:
    """The bias, the features that several texts have, and one feature for all that only one text has.

    Half of all n-grams occur in one text only, and of these Θ sees nothing but the norm. Blocks are taken one by one
    and written into place, because stacking them would need several times the memory.
    """
    squares, parts, first = np.zeros(len(shared)), [], 1
    for block in blocks:
        seen = np.bincount(block.indices, minlength=block.shape[1])
        squares += sparse.csr_array((block.data**2, block.indices, block.indptr), shape=block.shape) @ (seen == 1.0)
        several = seen[block.indices] > 1
        number = np.cumsum(seen > 1, dtype=np.int32) + np.int32(first - 1)
        starts = np.concatenate([[0], np.cumsum(several)])[block.indptr]
        parts.append((starts, number[block.indices[several]], block.data[several]))
        first += int((seen > 1).sum())
    starts = 2 * np.arange(len(shared) + 1) + sum(part[0] for part in parts)
    columns, data = np.zeros(starts[-1], dtype=np.int32), np.empty(starts[-1])
    data[starts[:-1]] = shared
    free = starts[:-1] + 1
    for of_part, part_columns, part_data in parts:
        to = np.repeat(free - of_part[:-1], np.diff(of_part)) + np.arange(len(part_data))
        columns[to], data[to] = part_columns, part_data
        free = free + np.diff(of_part)
    columns[free], data[free] = first + np.arange(len(shared)), np.sqrt(squares)
    return Features(sparse.csr_array((data, columns, starts), shape=(len(shared), first + len(shared))), of_one)
