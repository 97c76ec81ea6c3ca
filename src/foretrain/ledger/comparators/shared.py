"""What all comparators use: points that two arrays share, the worst of them, and words."""

from __future__ import annotations

import numpy as np
import xarray as xr


def worst_place(badness: xr.DataArray) -> dict[str, int]:
    """The position of the largest entry."""
    index = np.unravel_index(int(np.argmax(badness.values)), badness.shape)
    return dict(zip(map(str, badness.dims), map(int, index), strict=True))


def same_points(predicted: xr.DataArray, observed: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Both at the same coordinates. The axes of one must be a subset of the other's."""
    ours, theirs = set(predicted.dims), set(observed.dims)
    if not (ours <= theirs or theirs <= ours):
        raise ValueError(f"{predicted.dims} and {observed.dims} have no axes to be compared along")
    return xr.align(predicted, observed, join="exact")


def value_at(array: xr.DataArray, at: dict[str, int]) -> float:
    """The value at a position of an array that may have more axes."""
    return float(array.isel({axis: index for axis, index in at.items() if axis in array.dims}))


def standard_error(values: xr.DataArray) -> xr.DataArray:
    """The standard error of the mean over `seed`."""
    return values.std("seed", ddof=1) / np.sqrt(values.sizes["seed"])


def in_units(values: xr.DataArray, errors: xr.DataArray) -> xr.DataArray:
    """Values in units of their errors; where an error is 0, a value that is not 0 is infinitely many away."""
    with np.errstate(divide="ignore", invalid="ignore"):
        units = values / errors
    return units.where(~((values == 0) & (errors == 0)), 0.0)


def signed(units: float) -> str:
    """A number of standard errors with one decimal, and a proper minus."""
    return f"{units:.1f}".replace("-", "−").replace("inf", "infinitely many")


def errors_from_zero(units: float) -> str:
    """ "4.9 standard errors above 0", "2.1 standard errors below 0"."""
    return f"{signed(abs(units))} standard errors {'below' if units < 0 else 'above'} 0"
