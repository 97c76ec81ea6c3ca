"""Largest singular values of many matrices at once, on any device and from shards, without waiting for a result.

`measures.SpectrumTracker` looks at an estimate after every few steps and stops when it is good enough. On an
accelerator each look makes the device wait, and with shards each product needs all processes. So here all matrices take
the same number of Lanczos steps together: a product of all of them is one collective operation. What came out is read
by the host with everything else, and decides how many steps the next refresh takes.

For each matrix W with a basis Q of orthonormal rows, the host gets the small matrices (QWᵀ)(QWᵀ)ᵀ, whose largest
eigenvalue is the estimate of σ_max², and (QWᵀW)(QWᵀW)ᵀ, from which the estimate's error follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from foretrain.core.streams import torch_stream
from foretrain.monitor.held import Held
from foretrain.monitor.tally import Arrays, Measures, Tally

KEPT = 2  # Ritz vectors from one refresh to the next, as in measures.spectra
COLD_STEPS, STEPS, MOST_STEPS = 40, 4, 32  # without known vectors, with them, and after poor estimates
TOLERANCE = 3e-4  # on the estimated relative error; above it, the next refresh takes twice as many steps
AddUp: TypeAlias = Callable[[Sequence[Tensor]], list[Tensor]]  # over all processes
Steps: TypeAlias = Generator[Tensor, Tensor, "Basis"]  # yields its part of a product, is sent the whole


@dataclass(frozen=True)
class Basis:
    """Orthonormal rows, and what W and then Wᵀ make of them."""

    rows: Tensor
    images: Tensor
    back: Tensor


class JointSpectra:
    """The stable rank of each named matrix, each refresh starting from the vectors that the previous one found."""

    def __init__(self) -> None:
        self.steps, self._more = STEPS, STEPS
        self._known: dict[str, Tensor] = {}
        self._generator = torch_stream("monitor/spectra")  # so that torch's own random state stays as it is

    def tallies(self, matrices: Mapping[str, Held], add_up: AddUp) -> dict[str, Tally]:
        """What the host needs for the stable rank of every matrix; `finish` also prepares the next refresh."""
        count, self.steps, self._more = self.steps, STEPS, min(2 * self.steps, MOST_STEPS)
        chains = {name: self._chain(name, held, count) for name, held in matrices.items()}
        bases = together(chains, add_up)
        return {name: self._tally(name, basis, matrices[name]) for name, basis in bases.items()}

    def _chain(self, name: str, held: Held, count: int) -> Steps:
        block, (row, column), (height, width) = held.block(), held.offset, held.shape
        if height < width:
            block, row, column, height, width = block.mT, column, row, width, height
        fresh = torch.randn(height, generator=self._generator).div_(math.sqrt(height)).to(block.device)
        part = _LocalProducts(block, row, column, height, width, held.copies)
        known = self._known.get(name)
        return krylov(part, known, fresh, COLD_STEPS if known is None else count)

    def _tally(self, name: str, basis: Basis, held: Held) -> Tally:
        def finish(arrays: Arrays) -> Measures:
            if not np.isfinite(arrays["image"]).all():
                return {"stable_rank": math.nan}
            squares, rotation = np.linalg.eigh(arrays["image"])
            square, top = squares[-1], rotation[:, -1]
            if square <= 0:
                return {"stable_rank": math.nan}
            residual = math.sqrt(max(0.0, float(top @ arrays["back"] @ top) - square**2))
            gap = square - squares[-2] if len(squares) > 1 else 0.0
            error = min(residual, residual**2 / gap if gap > 0 else residual) / square
            if error > TOLERANCE:
                self.steps = self._more
            kept = torch.tensor(rotation[:, ::-1][:, :KEPT].T.copy(), dtype=basis.rows.dtype, device=basis.rows.device)
            self._known[name] = kept @ basis.rows
            return {"stable_rank": float(arrays["square"] / square)}

        images, back = basis.images.double(), basis.back.double()
        local = {"image": images @ images.mT, "back": back @ back.mT}
        return Tally({"square": square_of(held)}, {}, finish, local, needs_all=not held.whole)


def square_of(held: Held) -> Tensor:
    """This process's share of ‖W‖²."""
    return norm_of(held.values()).square() / held.copies


def norm_of(values: Tensor) -> Tensor:
    """On the device, in float32 along the last axis and in float64 from there on."""
    values = torch.view_as_real(values) if values.is_complex() else values
    wide = torch.promote_types(values.dtype, torch.float32)
    lines = torch.linalg.vector_norm(values, dim=-1, dtype=wide) if values.ndim > 1 else values.to(wide)
    return torch.linalg.vector_norm(lines.double() if values.device.type != "mps" else lines)


@dataclass(frozen=True)
class _LocalProducts:
    """What this process holds of a matrix at least as tall as wide; its products are parts of the whole ones."""

    block: Tensor
    row: int
    column: int
    height: int
    width: int
    copies: int

    def images(self, rows: Tensor) -> Tensor:
        """This process's part of rows·Wᵀ."""
        whole = rows.new_zeros(len(rows), self.height)
        lines, columns = self.block.shape
        whole[:, self.row : self.row + lines] = rows[:, self.column : self.column + columns] @ self._wide.mT
        return whole / self.copies

    def back(self, images: Tensor) -> Tensor:
        """This process's part of images·W."""
        whole = images.new_zeros(len(images), self.width)
        lines, columns = self.block.shape
        whole[:, self.column : self.column + columns] = images[:, self.row : self.row + lines] @ self._wide
        return whole / self.copies

    @property
    def _wide(self) -> Tensor:
        return self.block.to(torch.promote_types(self.block.dtype, torch.float32))


def krylov(part: _LocalProducts, known: Tensor | None, fresh: Tensor, count: int) -> Steps:
    """A basis of the known vectors, of Wᵀ·fresh, and of the Krylov chain of WᵀW from where the first of these leads.

    The image of the first known vector, less what is known, is how that vector has to change. The random direction is
    there so that a singular vector which is perpendicular to everything known is seen as well.
    """
    fresh = fresh.to(torch.promote_types(part.block.dtype, torch.float32))
    rows = fresh.new_empty(0, part.width) if known is None else known
    images = yield part.images(rows)
    back = yield part.back(torch.cat([images, fresh[None]]))
    direction, back = back[-1], back[:-1]
    for number in range(min(count, part.width - len(rows))):
        row = _orthogonal(direction, rows)
        image = yield part.images(row[None])
        line = yield part.back(image)
        rows, images, back = torch.cat([rows, row[None]]), torch.cat([images, image]), torch.cat([back, line])
        direction = back[0] if number == 0 and known is not None else line[0]
    return Basis(rows, images, back)


def _orthogonal(direction: Tensor, rows: Tensor) -> Tensor:
    """A unit vector perpendicular to all rows; zero if the direction lies within their span, up to rounding."""
    length = torch.linalg.vector_norm(direction)
    for _ in range(2):  # once leaves an error that grows with the number of steps
        direction = direction - (rows @ direction) @ rows
    left = torch.linalg.vector_norm(direction)
    least = 8 * torch.finfo(direction.dtype).eps * length
    return torch.where(left > least, direction / left, torch.zeros_like(direction))


def together(chains: Mapping[str, Steps], add_up: AddUp) -> dict[str, Basis]:
    """Let all chains take their steps side by side: what they yield at the same time is added up at once."""
    bases: dict[str, Basis] = {}
    waiting = {name: next(chain) for name, chain in chains.items()}
    while waiting:
        whole = add_up(list(waiting.values()))
        arrived = dict(zip(waiting, whole, strict=True))
        waiting = {}
        for name, product in arrived.items():
            try:
                waiting[name] = chains[name].send(product)
            except StopIteration as end:
                bases[name] = end.value
    return bases
