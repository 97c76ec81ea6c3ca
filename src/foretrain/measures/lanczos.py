"""The largest singular value of one matrix, by a Lanczos iteration on the smaller Gram matrix.

The iteration builds an orthonormal basis Q and keeps the images W·Q, so the largest Ritz value (the largest eigenvalue
of (WQ)ᵀ(WQ)) never exceeds σ_max². Each step multiplies by W and by Wᵀ once, and the basis is orthogonalised in full.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

TOLERANCE = 2e-4  # for the estimated relative error of σ²; the true error was at most 5 times the estimate
COLD_STEPS = 12  # before the first estimate; random matrices need 16 to 32, spiked ones fewer than 12
CHAIN = 4  # steps between two estimates
MOST_STEPS = 96  # a flat spectrum needs up to 72; after that the caller should compute the whole spectrum


@dataclass(frozen=True)
class Top:
    """The top of a spectrum. `vectors` are orthonormal rows, the first of which belongs to `square`."""

    square: float  # σ_max², never above the true value except for rounding
    error: float  # estimated relative error of `square`
    vectors: Float[Tensor, "kept n"]

    @property
    def converged(self) -> bool:
        return self.error <= TOLERANCE


def top(
    W: Float[Tensor, "m n"],
    start: Float[Tensor, "n"],
    known: Float[Tensor, "known n"] | None = None,
    *,
    first: int = COLD_STEPS,
    most: int = MOST_STEPS,
    kept: int = 1,
) -> Top:
    """The largest squared singular value of W, which must be finite and not zero.

    The basis begins with `known`, orthonormal rows that are expected to lie near the top singular vectors, and goes on
    with the Krylov chain of WᵀW·`start`. After `first` steps, and then after every few more, the error is estimated.
    The iteration ends when the estimate is at most TOLERANCE or after `most` steps, so check `converged`.
    """
    basis, count = _Basis(W, known, most), 0
    chain, direction = first, W.mT @ (W @ start)
    while True:
        added = basis.extend(direction, min(chain, most - count))
        count, chain = count + added, CHAIN
        squares, vectors, residual = basis.ritz(kept)
        error = _error(squares, float(torch.linalg.vector_norm(residual)))
        if basis.full or added == 0:  # the basis spans everything W can reach from here
            error = 0.0
        if error <= TOLERANCE or count >= most:
            return Top(float(squares[0]), error, vectors)
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
        self.rows, self.images = W.new_empty(room, n), W.new_empty(room, m)
        if known is not None:
            self.rows[: self.size], self.images[: self.size] = known, known @ W.mT

    @property
    def full(self) -> bool:
        return self.size == self.rows.shape[1]

    def extend(self, direction: Tensor, steps: int) -> int:
        """Add up to `steps` vectors of the Krylov chain that begins with `direction`; the number that were new."""
        tiny = 8 * torch.finfo(direction.dtype).eps
        for done in range(steps):
            if self.full:
                return done
            if done > 0:
                direction = self.W.mT @ self.images[self.size - 1]
            rows, length = self.rows[: self.size], float(torch.linalg.vector_norm(direction))
            for _ in range(2):  # once leaves an error that grows with the number of steps; twice does not
                direction = torch.addmv(direction, rows.mT, rows @ direction, alpha=-1)
            left = float(torch.linalg.vector_norm(direction))
            if left <= tiny * length:
                return done
            row = self.rows[self.size] = direction / left
            self.images[self.size] = self.W @ row
            self.size += 1
        return steps

    def ritz(self, kept: int) -> tuple[Tensor, Tensor, Tensor]:
        """All Ritz values, largest first, the first `kept` Ritz vectors, and WᵀW·y − θ·y of the first one."""
        rows, images = self.rows[: self.size], self.images[: self.size]
        squares, rotation = torch.linalg.eigh((images @ images.mT).cpu().double())
        squares, rotation = squares.flip(0), rotation.flip(1).mT[:kept].to(rows)
        vectors = rotation @ rows
        residual = self.W.mT @ (rotation[0] @ images) - squares[0].to(rows) * vectors[0]
        return squares, vectors, residual
