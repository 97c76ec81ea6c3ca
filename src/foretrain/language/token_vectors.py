"""Vectors of tokens by which "related" is measured: tokens that stand in similar surroundings get similar vectors.

They come from the text alone, not from the model, so that the same words are related in every model.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.sparse.linalg import svds

DIMENSIONS = 64
REACH = 4  # tokens to either side that count as surroundings


def token_vectors(windows: Int[ndarray, "window token"], vocabulary: int) -> Float[ndarray, "vocabulary dimension"]:
    """A vector for each token, from the co-occurrence of tokens in the windows.

    Positive pointwise mutual information, then its leading singular vectors, times the square root of their values
    (Levy et al. 2015), scaled to a length of ln(tokens/count) by which frequent tokens count little. Zero for tokens
    that do not occur. With few different tokens, every token gets a direction of its own.
    """
    used, codes = np.unique(windows, return_inverse=True)
    codes = codes.reshape(windows.shape)
    counts = np.bincount(codes.ravel(), minlength=len(used))
    few = len(used) <= DIMENSIONS
    directions = np.eye(len(used), DIMENSIONS) if few else _directions(codes, len(used))
    vectors = np.zeros((vocabulary, DIMENSIONS), dtype=np.float32)
    vectors[used] = directions * np.log(windows.size / counts)[:, None]
    return vectors


def _directions(codes: np.ndarray, used: int) -> np.ndarray:
    pairs = sparse.csr_matrix((used, used))
    for distance in range(1, min(REACH, codes.shape[1] - 1) + 1):
        left, right = codes[:, :-distance].ravel(), codes[:, distance:].ravel()
        pairs = pairs + sparse.csr_matrix((np.ones(len(left)), (left, right)), shape=(used, used))
    pairs = (pairs + pairs.T).tocoo()
    sums = np.asarray(pairs.sum(axis=1)).ravel()
    smoothed = sums**0.75  # makes rare surroundings less surprising
    expected = sums[pairs.row] * smoothed[pairs.col] / smoothed.sum()
    information = np.maximum(np.log(pairs.data / expected), 0.0)
    matrix = sparse.csr_matrix((information, (pairs.row, pairs.col)), shape=(used, used))
    left, values, _ = svds(matrix, k=DIMENSIONS, v0=np.ones(used))
    scaled = left * np.sqrt(values)
    scaled -= np.bincount(codes.ravel(), minlength=used) / codes.size @ scaled  # what all tokens have in common
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)
