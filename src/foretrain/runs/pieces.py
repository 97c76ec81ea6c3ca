"""How a grid of settings is cut into pieces, and how one piece is computed.

A piece is a block of the grid: neighbouring values on every axis. An experiment computes the values of a piece that it
takes as lists in one call; values that it takes one at a time are looped over. How the grid is cut cannot change a
number, only how often something is written.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import InputError, require, require_distinct

Piece = tuple[int, ...]  # the number of the block on every axis
MOST_PIECES = 2000  # of a grid; above, pieces hold more cells, because every piece is a file per variable
# attributes by which netCDF and Zarr files say that what they hold is not what is meant
PACKING = frozenset({"scale_factor", "add_offset", "missing_value", "_FillValue", "_Unsigned", "dtype", "coordinates"})

WAY_OUT = "a sweep needs the same axes for every setting, so give those that differ a run of their own"


@dataclass(frozen=True)
class Grid:
    """All values of every argument that varies, the axis of the result it becomes, and how many a piece takes.

    `lists` names the arguments that the function takes as lists, all values of a piece at once.
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
        given = self.arguments(piece)
        lists = {name: values for name, values in given.items() if name in self.lists}
        single = {name: values for name, values in given.items() if name not in self.lists}
        if not single:
            return as_dataset(_called(function, fixed, lists))
        parts = [
            as_dataset(_called(function, fixed, {**lists, **dict(zip(single, values, strict=True))}))
            for values in itertools.product(*single.values())
        ]
        return _stacked(parts, {self.axes[name]: values for name, values in single.items()})


def _called(function: Callable[..., Any], fixed: Mapping[str, Any], varied: Mapping[str, Any]) -> Any:
    """What a function gives; if it fails, the error says for which values."""
    try:
        return function(**fixed, **varied)
    except Exception as error:
        if varied:
            error.add_note(f"The sweep stopped at {', '.join(f'{name}={value!r}' for name, value in varied.items())}.")
        raise


def _block(sizes: Sequence[int], cells: int) -> tuple[int, ...]:
    """How many values of every axis a piece takes: as many as fit, the last axis first."""
    block: list[int] = []
    for size in reversed(sizes):
        step = min(size, max(cells, 1))
        block.append(step)
        cells //= step
    return tuple(reversed(block))


def as_dataset(result: Any) -> xr.Dataset:
    """What a function gave: a Dataset, a mapping from names to numbers or (axes, values), or one number."""
    if isinstance(result, xr.Dataset):
        return _unpacked(result)
    try:
        if isinstance(result, Mapping):
            return _unpacked(xr.Dataset(result))
        if np.asarray(result).dtype.kind in "fiubc":
            return xr.Dataset({"value": result})
    except InputError:
        raise
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"A sweep takes functions that give a Dataset, a number, or numbers by name; got {type(result).__name__}."
    )


def _unpacked(dataset: xr.Dataset) -> xr.Dataset:
    """The same, if no attribute says that its numbers are not what is meant."""
    for name, variable in dataset.variables.items():
        for attribute in PACKING & set(variable.attrs):
            raise InputError(
                f"{name} has an attribute {attribute}, by which readers of files change numbers; remove it, or give it "
                "another name."
            )
    return dataset


def _stacked(parts: Sequence[xr.Dataset], axes: Mapping[str, Sequence[Any]]) -> xr.Dataset:
    """Results for one setting each, as one with the axes that they were computed along, the last varying fastest."""
    first, sizes = parts[0], tuple(len(values) for values in axes.values())
    for part in parts[1:]:
        require_alike(first, part)
    taken = [axis for axis in axes if axis in first.variables]
    require(
        not taken, f"The result has a variable {taken[0] if taken else ''!r}, which is the name of a grid argument."
    )
    stacked = {
        name: (
            (*axes, *variable.dims),
            np.stack([part[name].values for part in parts]).reshape(*sizes, *variable.shape),
            variable.attrs,
        )
        for name, variable in first.data_vars.items()
    }
    coords = {axis: (axis, np.asarray(values)) for axis, values in axes.items()}
    return xr.Dataset(stacked, {**first.coords, **coords}, {k: v for k, v in first.attrs.items() if _same(parts, k)})


def has_axis(dataset: xr.Dataset, argument: str, values: Sequence[Any]) -> bool:
    """Whether a result has an axis for an argument: one of its name (`rate` for `rates`), or with its values."""
    return any(
        size == len(values)
        and (axis in (argument, argument.removesuffix("s")) or dataset[axis].values.tolist() == list(values))
        for axis, size in dataset.sizes.items()
    )


def _same(parts: Sequence[xr.Dataset], key: str) -> bool:
    return all(key in part.attrs and bool(np.array_equal(part.attrs[key], parts[0].attrs[key])) for part in parts)


def require_alike(one: xr.Dataset, other: xr.Dataset, cut: Sequence[str] = ()) -> None:
    """Both have the same variables, and on axes that are not cut the same coordinates."""
    different = sorted(map(str, set(one.variables) ^ set(other.variables)))
    require(not different, f"Settings of this grid give different variables ({', '.join(different)}); {WAY_OUT}.")
    for name, variable in one.variables.items():
        dims = variable.dims
        sizes = {axis: (one.sizes[axis], other.sizes.get(axis)) for axis in dims if axis not in cut}
        for axis, (here, there) in sizes.items():
            require(here == there, f"{axis} has {here} values for one setting and {there} for another; {WAY_OUT}.")
        if name in one.coords and not set(dims) & set(cut):
            require(
                bool(np.array_equal(variable.values, other[name].values)),
                f"{name} has other values for one setting than for another; {WAY_OUT}.",
            )
