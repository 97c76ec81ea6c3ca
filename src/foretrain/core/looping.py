"""Loops over a grid of arguments: a function that computes one point becomes a Dataset with an axis per argument."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import InputError, require
from foretrain.core.progress import Progress, tell

# attributes by which netCDF and Zarr files say that what they hold is not what is meant
PACKING = frozenset({"scale_factor", "add_offset", "missing_value", "_FillValue", "_Unsigned", "dtype", "coordinates"})

WAY_OUT = "a sweep needs the same axes for every setting, so give those that differ a run of their own"


def over(
    function: Callable[..., Any],
    axes: Mapping[str, Sequence[Any]],
    fixed: Mapping[str, Any],
    lists: Mapping[str, Sequence[Any]] | None = None,
) -> xr.Dataset:
    """`function(**fixed, **lists, **point)` at every point of the grid, as one Dataset with an axis for each of `axes`.

    `lists` vary too, but the function takes all their values at once. If it fails, the error says for which values.
    """
    for axis, values in axes.items():
        require(len(values) >= 1, f"{axis} must have at least one value; got none.")
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    parts = []
    for done, point in enumerate(points):
        if len(points) > 1:
            words = ", ".join(f"{axis} = {value}" for axis, value in point.items())
            tell(Progress(done, len(points), words, inner=True))
        varied = {**(lists or {}), **point}
        try:
            parts.append(as_dataset(function(**fixed, **varied)))
        except Exception as error:
            if varied:
                at = ", ".join(f"{name}={value!r}" for name, value in varied.items())
                error.add_note(f"The sweep stopped at {at}.")
            raise
    return _stacked(parts, axes) if axes else parts[0]


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
    """The same dataset. Refuses datasets whose attributes make readers rescale their numbers."""
    for name, variable in dataset.variables.items():
        for attribute in PACKING & set(variable.attrs):
            raise InputError(
                f"{name} has an attribute {attribute}, by which readers of files change numbers; remove it, or give it "
                "another name."
            )
    return dataset


def _stacked(parts: Sequence[xr.Dataset], axes: Mapping[str, Sequence[Any]]) -> xr.Dataset:
    """Stacks one result per setting into one dataset; the last axis varies fastest."""
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


def _same(parts: Sequence[xr.Dataset], key: str) -> bool:
    return all(key in part.attrs and bool(np.array_equal(part.attrs[key], parts[0].attrs[key])) for part in parts)


def require_alike(one: xr.Dataset, other: xr.Dataset) -> None:
    """Both have the same variables, and axes with the same coordinates."""
    different = sorted(map(str, set(one.variables) ^ set(other.variables)))
    require(not different, f"Settings of this grid give different variables ({', '.join(different)}); {WAY_OUT}.")
    for name, variable in one.variables.items():
        for axis in variable.dims:
            size, other_size = one.sizes[axis], other.sizes.get(axis)
            require(
                size == other_size,
                f"{axis} has {size} values for one setting and {other_size} for another; {WAY_OUT}.",
            )
        if name in one.coords:
            require(
                bool(np.array_equal(variable.values, other[name].values)),
                f"{name} has other values for one setting than for another; {WAY_OUT}.",
            )
