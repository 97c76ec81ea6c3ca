"""What samples that share tokens tell about templates: the precision of their template means.

Write K̂ + λI = B·N·Bᵀ + A with the n by r indicator B of templates. A, the covariance of what is peculiar to a
sample, is diagonal if no two samples share a token. The estimator needs of it only P = BᵀA⁻¹B and, for label
noise, Q = BᵀA⁻²B: on an unseen string of each template f̂ = N(N + P⁻¹)⁻¹·(P⁻¹BᵀA⁻¹y).

Who shares tokens with whom is a sparse random graph that looks the same for all n at one ratio n/m to the
alphabet's size, so P/n and Q/n are functions of n/m. They are measured here on a few hundred samples and serve
every n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.data.templates import TemplateTask
from foretrain.kernels.regression import Kernel

RATIOS = tuple(2.0**power for power in range(-4, 6))  # n/m
SAMPLES = 256
LEAST_ALPHABET = 16
LEAST_COUNT = 16  # expected samples of a template: of a rarer one more are drawn than its share


@dataclass(frozen=True)
class Precision:
    """P and Q per sample."""

    P: Float[Array, "*n r r"]
    Q: Float[Array, "*n r r"]


@dataclass(frozen=True)
class Sharing:
    """P and Q per sample as functions of the ratio of samples to tokens, tabulated at rising `ratios`."""

    ratios: Float[Array, "ratio"]
    table: Precision

    def at(self, ratio: Float[Array, "n"]) -> Precision:
        """By linear interpolation in the logarithm of the ratio.

        Below the first ratio samples hardly meet, and it stays; beyond the last, more samples of the same
        tokens tell nothing new, so it falls as 1/ratio.
        """
        place = np.interp(np.log(ratio), np.log(self.ratios), np.arange(len(self.ratios)))
        below = np.minimum(place.astype(int), max(len(self.ratios) - 2, 0))
        above = np.minimum(below + 1, len(self.ratios) - 1)
        share = (place - below)[:, None, None]
        full = np.minimum(1, self.ratios[-1] / ratio)[:, None, None]
        P, Q = (full * ((1 - share) * of[below] + share * of[above]) for of in (self.table.P, self.table.Q))
        return Precision(P, Q)


def apart(weights: Float[Array, "r"], shift: Float[Array, "r"]) -> Precision:
    """Samples that share no token: A is λ + K(x, x) − N on the diagonal, so P = diag(μ/A) and Q = diag(μ/A²)."""
    return Precision(np.diag(weights / shift), np.diag(weights / shift**2))


def measure_sharing(
    task: TemplateTask,
    kernel: Kernel,
    N: Float[Array, "r r"],
    *,
    ridge: float,
    ratios: Sequence[float] = RATIOS,
    samples: int = SAMPLES,
    draws: int = 4,
) -> Sharing:
    """P and Q per sample at each ratio n/m, from `draws` samples each of at most `samples` strings."""
    rows = [_measured(task, kernel, N, ridge, ratio, samples, draws) for ratio in ratios]
    table = Precision(np.array([row.P for row in rows]), np.array([row.Q for row in rows]))
    return Sharing(np.asarray(ratios, dtype=np.float64), table)


def _measured(
    task: TemplateTask, kernel: Kernel, N: Float[Array, "r r"], ridge: float, ratio: float, samples: int, draws: int
) -> Precision:
    """One row of the table.

    Where a template is rare, its samples are drawn at a rate 1/t higher, added to those of the others. Its samples
    hardly meet one another, so what it tells of itself is in proportion to t, and so are its cross terms.
    """
    alphabet = max(round(samples / ratio), LEAST_ALPHABET, task.wildcard_count)
    n = round(ratio * alphabet)
    weights = np.asarray(task.weights)
    drawn = np.maximum(weights, min(LEAST_COUNT / n, 1 / len(weights)))
    thin = weights / drawn
    to_share = np.outer(thin, thin)
    np.fill_diagonal(to_share, thin)
    frequent = replace(task, weights=tuple((drawn / drawn.sum()).tolist()))
    size = round(n * drawn.sum())
    P, Q = np.zeros_like(N), np.zeros_like(N)
    for seed in range(draws):
        train = frequent.sample(size, stream("sharing", seed, n, alphabet), alphabet=alphabet)
        A = kernel(train.tokens, train.tokens) - N[np.ix_(train.template, train.template)]
        A.flat[:: size + 1] += ridge
        B = np.eye(len(N))[train.template]
        half = np.linalg.solve(A, B)
        P += B.T @ half / (draws * n)
        Q += half.T @ half / (draws * n)
    return Precision(to_share * (P + P.T) / 2, to_share * (Q + Q.T) / 2)
