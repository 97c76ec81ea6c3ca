"""Sweep axes: one-dimensional arrays whose values are their own coordinates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_positive


def rate_axis(name: str, values: Sequence[float] | np.ndarray) -> xr.DataArray:
    """A sweep axis of learning rates, or of their ratios: finite numbers above 0."""
    axis = sweep_axis(name, values)
    for value in axis.values:
        require_positive(name, float(value))
    return axis


def sweep_axis(name: str, values: Sequence[float] | np.ndarray) -> xr.DataArray:
    """A sweep axis of these values, each of which may occur once."""
    array = np.asarray(values, dtype=np.float64)
    require(array.ndim == 1 and array.size >= 1, f"{name} must be a list of numbers; got {values!r}.")
    require(len(set(array.tolist())) == array.size, f"{name} must not name a value twice; got {array.tolist()}.")
    return xr.DataArray(array, dims=name, coords={name: array}, name=name)
