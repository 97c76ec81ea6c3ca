"""A task in as few numbers as training needs, for classes that share one query.

Two things make it small, and neither is an approximation. Tokens that are no class's next token all have the same
column of the decoder Y, so K + 1 columns stand for all M. Tokens with the same probabilities in every class have the
same row of Y and the same logit, so one row stands for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.decoder import Array, within


@dataclass(frozen=True)
class Reduced:
    """Tokens that behave alike are one column of `columns`; the labels are the K classes and, as one, all the rest."""

    columns: Array  # P(token | class) of each kind of token, [class, kind]
    weight: Array  # how many tokens are of each kind
    kind: NDArray[np.int64]  # the kind of each token that occurs
    occurs: NDArray[np.bool_]  # which tokens occur
    rest: int  # M − K tokens that are no class's next token
    times: Array
    tokens: int

    @property
    def labels(self) -> int:
        return len(self.columns) + (self.rest > 0)

    def error(self, outputs: Array, classes: slice = slice(None)) -> Array:
        """e_n − α_n of these classes, summed over the remaining tokens in the last column."""
        many = np.ones(self.labels)
        many[len(self.columns) :] = self.rest
        right = np.eye(len(self.columns), self.labels)[classes]
        return np.asarray(right - softmax(outputs + np.log(many), axis=-1))

    def per_label(self, error: Array) -> Array:
        """The same for one remaining token."""
        each = error.copy()
        each[..., len(self.columns) :] /= max(self.rest, 1)
        return each


def reduced(probabilities: ArrayLike, times: ArrayLike) -> Reduced:
    P = as_floats("probabilities", probabilities)
    require(P.ndim == 2, f"probabilities must be [class, token]; got {P.ndim} axes.")
    classes, tokens = P.shape
    require(
        bool(np.all(P >= 0) and np.allclose(P.sum(axis=1), 1)), "Every row of probabilities must be ≥ 0 and sum to 1."
    )
    require(
        classes <= tokens,
        f"{classes} classes need at least as many tokens, as each has a next token of its own; got {tokens} columns.",
    )
    at = np.atleast_1d(within("times must be finite and at least 0", times, 0.0))
    require(at.ndim == 1, "times must be one number or a list of numbers.")
    occurs = np.asarray(P.any(axis=0))
    columns, kind = np.unique(P[:, occurs], axis=1, return_inverse=True)
    kind = kind.reshape(-1).astype(np.int64)
    weight = np.bincount(kind).astype(np.float64)
    return Reduced(columns, weight, kind, occurs, tokens - classes, at, tokens)
