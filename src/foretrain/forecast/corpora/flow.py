"""Gradient flow under a constant kernel, written for the training rows: da/dt = residuals(Θa)/n.

a is what each training row has pulled so far, and the score of any text x is Σ_i Θ(x, x_i)·a_i exactly. So the same
numbers give the scores and say which rows they come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from foretrain.kernels.label_flow import FastDirection, chebyshev_step, fastest, residual

STEPS = 6  # from one time to its double; errors are below 1e-3 of the largest score (see the tests)
STIFF = 10.0  # times as fast as all others: from there on, the fastest direction is implicit, and exact enough


@dataclass(frozen=True)
class TextKernel:
    """Θ between training rows as a product, its largest rate, and the rate that sets the unit of time."""

    times: Callable[[Array], Array]  # a -> Θa
    largest: float  # largest eigenvalue of Θ/n, times the steepest slope of the residuals
    unit: float  # the same without what all texts share: networks then learn equally long, whatever their bias
    others: float  # largest rate but for that of one direction
    rows: int


def sparse_kernel(rows: sparse.csr_array, slope: float) -> TextKernel:
    """Θ = R Rᵀ; column 0 of R is what all texts share."""
    rows, by_feature = _narrow(rows), _narrow(sparse.csr_array(rows.T))
    others = sparse.diags_array(np.arange(rows.shape[1]) > 0, dtype=np.float64)
    unit = fastest(aslinearoperator(rows) @ aslinearoperator(others))
    return TextKernel(
        lambda pulls: rows @ (by_feature @ pulls),
        1.1 * fastest(rows, slope=slope),  # power iteration comes from below
        unit,
        1.1 * unit * slope / 0.25,  # Θ is what texts share, of rank one, and the rest, whose largest rate this is
        rows.shape[0],
    )


def _narrow(table: sparse.csr_array) -> sparse.csr_array:
    """The same table with indices of 32 bits where they suffice: a product reads a quarter less memory."""
    if max(table.nnz, *table.shape) > np.iinfo(np.int32).max:
        return table
    return sparse.csr_array((table.data, table.indices.astype(np.int32), table.indptr.astype(np.int32)), table.shape)


def dense_kernel(whole: Float[Array, "row row"], unshared: Float[Array, "row row"], slope: float) -> TextKernel:
    n = len(whole)
    largest, unit = (float(np.linalg.eigvalsh(table)[-1]) / n for table in (whole, unshared))
    rate = 1.01 * largest * slope
    return TextKernel(lambda pulls: whole @ pulls, rate, unit * 0.25, rate, n)


def flow(kernel: TextKernel, target: Array, times: Array) -> Iterator[Float[Array, "row output"]]:
    """The pulls a at each of the growing `times`, in units of the fastest direction of the counts."""
    pulls, before = np.zeros_like(target), 0.0
    stiff = target.ndim == 1 and kernel.largest > STIFF * kernel.others
    rate, fast = (kernel.others, _FastestDirection(kernel)) if stiff else (kernel.largest, None)

    def velocity(at: Array) -> Array:
        return residual(target, kernel.times(at)) / kernel.rows

    for now in np.asarray(times) / kernel.unit:
        # the flow slows down, so a step may grow with the time that has passed
        count = 4 * STEPS if before == 0 else max(1, math.ceil(STEPS * math.log2(now / before)))
        for step in np.diff(np.linspace(before, now, count + 1)):
            stages = max(2, math.ceil(math.sqrt(1 + step * rate / 0.65)))
            pulls = chebyshev_step(velocity, pulls, step, stages, fast)
        before = now
        yield pulls if pulls.ndim == 2 else pulls[:, None]


class _FastestDirection:
    """The fastest direction of a flow with two classes: roughly, what all texts share.

    It turns slowly, so each is found from the last, by power iteration on DΘ/n, where D is the slope of the residuals.
    """

    def __init__(self, kernel: TextKernel) -> None:
        self.kernel = kernel
        self.pulled = kernel.times(np.ones(kernel.rows))  # Θ times the direction
        self.iterations = 8  # at first; then one for each step

    def __call__(self, velocity: Array) -> FastDirection:
        residual = np.abs(velocity) * self.kernel.rows  # σ(−ys), whose slope is residual·(1 − residual)
        slopes = residual * (1 - residual) / self.kernel.rows
        for _ in range(self.iterations):
            turned = slopes * self.pulled
            right = turned / np.linalg.norm(turned)
            self.pulled = self.kernel.times(right)
        self.iterations = 1
        left = self.pulled / (self.pulled @ right)
        return FastDirection(float(left @ (slopes * self.pulled)), right, left)


def grid(time: float) -> Float[Array, "time"]:
    """1, 2, 4, … up to `time`."""
    doubled = 2.0 ** np.arange(math.ceil(math.log2(time))) if time > 1 else np.array([])
    return np.append(doubled, time)
