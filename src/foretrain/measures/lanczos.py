"""The largest singular value of one matrix, by a Lanczos iteration on the smaller Gram matrix.

The iteration builds an orthonormal basis Q and keeps the images W·Q, so the largest Ritz value (the largest eigenvalue
of (WQ)ᵀ(WQ)) never exceeds σ_max². Each step multiplies by W and by Wᵀ once, and the basis is orthogonalised in full.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

TOLERANCE = 1e-4  # on the estimated relative error of σ², for a result to count as converged
COLD_TOLERANCE = 1e-8  # without known vectors; 2e-4 stopped at the second value in 7 of 320 random spectra
COLD_STEPS = 12  # before the first estimate; a random matrix needs about 40 steps, a spiked one 12 to 16
FRESH = 0.1  # share of the random direction beside the image of the top vector; with more, convergence is slower
MOST_STEPS = 96  # a flat spectrum needs them; after that the caller should compute the whole spectrum


@dataclass(frozen=True)
class Top:
    """The top of a spectrum. `vectors` are orthonormal rows, the first of which belongs to `square`."""

    square: float  # σ_max², never above the true value except for rounding
    error: float  # estimated relative error of `square`
    vectors: Float[Tensor, "kept n"]
    steps: int

    @property
    def converged(self) -> bool:
        return self.error <= TOLERANCE


def top(
    W: Float[Tensor, "m n"],
    start: Float[Tensor, "m"],
    known: Float[Tensor, "known n"] | None = None,
    *,
    first: int = COLD_STEPS,
    most: int = MOST_STEPS,
    kept: int = 1,
) -> Top:
    """The largest squared singular value of W, which must be finite and not zero.

    The basis begins with `known`, orthonormal rows that are expected to lie near the top singular vectors, and goes on
    with the Krylov chain of Wᵀu. There u is `start`, a random unit vector, or, if vectors are known, the image of the
    first one plus a little of `start`. After `first` steps, and then again and again, the error is estimated. The
    iteration ends when the estimate is small enough or after `most` steps, so check `converged`.
    """
    cold = known is None
    tolerance, chain = (COLD_TOLERANCE, 4) if cold else (TOLERANCE, 1)  # an estimate costs as much as half a step
    basis, count = _Basis(W, known, most), 0
    image = start if cold else start.mul(FRESH * torch.linalg.vector_norm(basis.images[0])).add_(basis.images[0])
    steps, direction = first, torch.mv(W.mT, image)
    while True:
        added = basis.extend(direction, min(steps, most - count))
        count, steps = count + added, chain
        squares, vectors, residual = basis.ritz(kept)
        error = _error(squares, float(torch.linalg.vector_norm(residual)))
        if basis.full or added == 0:  # the basis spans everything W can reach from here
            error = 0.0
        if error <= tolerance or count >= most:
            return Top(float(squares[0]), error, vectors, count)
        direction = residual


def _error(squares: Float[Tensor, "ritz"], residual: float) -> float:
    """λ₁ − θ₁ ≤ ‖r‖²/(θ₁ − λ₂) (Kato and Temple), with the Ritz value θ₂ in place of λ₂; never more than ‖r‖."""
    gap = float(squares[0] - squares[1]) if len(squares) > 1 else 0.0
    return min(residual, residual**2 / gap if gap > 0 else residual) / float(squares[0])


class _Basis:
    """Orthonormal rows Q, their images Q·Wᵀ, and Rayleigh-Ritz on their span."""

    def __init__(self, W: Tensor, known: Tensor | None, steps: int) -> None:
        m, n = W.shape
        self.W, self.size = W, 0 if known is None else len(known)
        room = min(n, self.size + steps)
        self.rounding = 8 * torch.finfo(W.dtype).eps
        self.rows, self.images = W.new_empty(room, n), W.new_empty(room, m)
        for index, row in enumerate([] if known is None else known):
            self.rows[index] = row
            torch.mv(W, row, out=self.images[index])  # one by one: for a few rows, faster than a product of matrices

    @property
    def full(self) -> bool:
        return self.size == self.rows.shape[1]

    def extend(self, direction: Tensor, steps: int) -> int:
        """Add up to `steps` vectors of the Krylov chain that begins with `direction`; the number that were new."""
        for done in range(steps):
            if self.full:
                return done
            if done > 0:
                direction = torch.mv(self.W.mT, self.images[self.size - 1])
            rows, length = self.rows[: self.size], torch.linalg.vector_norm(direction)
            for _ in range(2):  # once leaves an error that grows with the number of steps; twice does not
                direction = torch.addmv(direction, rows.mT, torch.mv(rows, direction), alpha=-1)
            left = torch.linalg.vector_norm(direction)
            if float(left) <= self.rounding * float(length):
                return done
            torch.div(direction, left, out=self.rows[self.size])
            torch.mv(self.W, self.rows[self.size], out=self.images[self.size])
            self.size += 1
        return steps

    def ritz(self, kept: int) -> tuple[Tensor, Tensor, Tensor]:
        """All Ritz values, largest first, the first `kept` Ritz vectors, and WᵀW·y − θ·y of the first one."""
        rows, images = self.rows[: self.size], self.images[: self.size]
        squares, rotation = torch.linalg.eigh((images @ images.mT).cpu().double())
        squares, rotation = squares.flip(0), rotation[:, -kept:].mT.flip(0).to(rows)
        vectors = rotation @ rows
        residual = torch.mv(self.W.mT, rotation[0] @ images).sub_(vectors[0], alpha=float(squares[0]))
        return squares, vectors, residual
