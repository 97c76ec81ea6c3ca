"""How a grid of settings is cut into pieces, and how one piece is computed.

A piece is a block of the grid: neighbouring values on every axis. An experiment computes the values of a piece that it
takes as lists in one call; values that it takes one at a time are looped over. How the grid is cut cannot change a
number, only how often something is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_distinct
from foretrain.core.looping import over

Piece = tuple[int, ...]  # the number of the block on every axis
MOST_PIECES = 2000  # of a grid; above, pieces hold more cells, because every piece is a file per variable


@dataclass(frozen=True)
class Grid:
    """All values of every argument that varies, the axis of the result it becomes, and how many a piece takes.

    `lists` names the arguments that the function takes as lists, all values of a piece at once. Others are looped over,
    and their axis has the argument's name.
    """

    values: Mapping[str, Sequence[Any]]
    axes: Mapping[str, str]
    lists: frozenset[str]
    block: tuple[int, ...]

    @classmethod
    def cut(
        cls,
        values: Mapping[str, Sequence[Any]],
        axes: Mapping[str, str],
        *,
        together: int = 1,
        piece: int | None = None,
        one_at_a_time: Sequence[str] = (),
    ) -> Grid:
        """A grid whose pieces hold about `together` cells, more of them if there would be too many pieces.

        `piece` is a number of cells that someone asked for: never more than that, however many pieces there will be.
        """
        for argument, given in values.items():
            require(len(given) > 0, f"{argument} has no values; give at least one.")
            require_distinct(argument, given)
        require(piece is None or piece >= 1, f"A piece must hold at least 1 cell; got {piece}.")
        sizes = [len(given) for given in values.values()]
        cells = piece if piece is not None else max(together, math.ceil(math.prod(sizes) / MOST_PIECES))
        lists = frozenset(values) - frozenset(one_at_a_time)
        return cls(values, {name: axes.get(name, name) for name in values}, lists, _block(sizes, cells))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each argument has."""
        return tuple(len(given) for given in self.values.values())

    @property
    def dims(self) -> tuple[str, ...]:
        """The axes of the result, in the order of the arguments."""
        return tuple(self.axes[argument] for argument in self.values)

    def argument(self, axis: str) -> str:
        """The argument that becomes this axis."""
        return next(argument for argument in self.values if self.axes[argument] == axis)

    @property
    def cells(self) -> int:
        """How many combinations of values there are."""
        return math.prod(self.shape)

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many blocks there are on every axis."""
        return tuple(math.ceil(size / step) for size, step in zip(self.shape, self.block, strict=True))

    def pieces(self) -> Iterator[Piece]:
        """Every piece, by its number along each argument."""
        return iter(np.ndindex(self.blocks))

    def region(self, piece: Piece) -> dict[str, slice]:
        """Where a piece lies on every axis."""
        return {
            axis: slice(index * step, min((index + 1) * step, size))
            for axis, index, step, size in zip(self.dims, piece, self.block, self.shape, strict=True)
        }

    def arguments(self, piece: Piece) -> dict[str, list[Any]]:
        """The values of each argument in a piece."""
        region = self.region(piece)
        return {name: list(given[region[self.axes[name]]]) for name, given in self.values.items()}

    def size(self, piece: Piece) -> int:
        """How many cells a piece has."""
        return math.prod(part.stop - part.start for part in self.region(piece).values())

    def compute(self, function: Callable[..., Any], fixed: Mapping[str, Any], piece: Piece) -> xr.Dataset:
        """One piece of the result."""
        single = self.arguments(piece)
        lists = {name: single.pop(name) for name in list(single) if name in self.lists}
        return over(function, single, fixed, lists)


def _block(sizes: Sequence[int], cells: int) -> tuple[int, ...]:
    """How many values of every axis a piece takes: as many as fit, the last axis first."""
    block: list[int] = []
    for size in reversed(sizes):
        step = min(size, max(cells, 1))
        block.append(step)
        cells //= step
    return tuple(reversed(block))


def has_axis(dataset: xr.Dataset, argument: str, values: Sequence[Any]) -> bool:
    """Whether a result has an axis for an argument: one of its name (`rate` for `rates`), or with its values."""
    return any(
        size == len(values)
        and (axis in (argument, argument.removesuffix("s")) or dataset[axis].values.tolist() == list(values))
        for axis, size in dataset.sizes.items()
    )
