"""How much samples that share tokens tell about templates: the precision of their template means.

Write K̂ + λI = B·N·Bᵀ + A with the n by r indicator B of templates. A is the covariance of what is specific to each
sample, and is diagonal if no two samples share a token. The estimator needs only P = BᵀA⁻¹B of it and, for label noise,
Q = BᵀA⁻²B: on an unseen string of each template f̂ = N(N + P⁻¹)⁻¹·(P⁻¹BᵀA⁻¹y).

Which samples share tokens is a sparse random graph. At a fixed ratio n/m of samples to tokens it looks the same for all
n, so P/n and Q/n are functions of n/m. They are measured here on a few hundred samples, and then serve every n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.data.template_task import TemplateTask
from foretrain.kernels.regression import Kernel

RATIOS = tuple(2.0**power for power in range(-4, 6))  # n/m
SAMPLES = 256
LEAST_ALPHABET = 16
LEAST_COUNT = 16  # least expected samples of a template; a rarer one is drawn more often than its share


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
        """P and Q at these ratios, by linear interpolation in the logarithm.

        Below the first ratio samples hardly share tokens, so P and Q stay the same. Beyond the last, more samples of
        the same tokens tell nothing new, so they fall as 1/ratio.
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
    """P and Q per sample at each ratio n/m, averaged over `draws` samples of about `samples` strings."""
    rows = [_measured(task, kernel, N, ridge, ratio, samples, draws) for ratio in ratios]
    table = Precision(np.array([row.P for row in rows]), np.array([row.Q for row in rows]))
    return Sharing(np.asarray(ratios, dtype=np.float64), table)


def _measured(
    task: TemplateTask, kernel: Kernel, N: Float[Array, "r r"], ridge: float, ratio: float, samples: int, draws: int
) -> Precision:
    """One row of the table.

    A rare template is drawn 1/t times as often as its share, in addition to the others. Its samples hardly share tokens
    with each other, so its own terms are in proportion to t, and so are its cross terms.
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
