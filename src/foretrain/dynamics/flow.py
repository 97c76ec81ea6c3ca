"""Gradient flow: solves an ordinary differential equation of named arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from foretrain.core.errors import InputError, require, require_known
from foretrain.core.trajectory import trajectory

METHODS = ("DOP853", "LSODA", "RK45", "RK23", "Radau", "BDF")
State = dict[str, np.ndarray]
Field = Callable[[float, State], Mapping[str, Any]]


def integrate(
    field: Field,
    start: Mapping[str, Any] | xr.Dataset,
    *,
    until: float,
    save_at: Sequence[float] | np.ndarray | None = None,
    method: str = "DOP853",
    rtol: float = 1e-12,
    atol: float = 1e-14,
) -> xr.Dataset:
    """Solve d(state)/dt = field(t, state) from t = 0 to `until`; float64 throughout.

    `start` maps names to arrays or xarray.DataArrays (whose axes are kept), or is a Dataset. The result has the times
    `save_at`, by default 201 evenly spaced ones. Use method="LSODA" if the field is stiff.
    """
    require(np.isfinite(until) and until >= 0, f"until must be a finite time of at least 0; got {until}.")
    require_known("method", method, METHODS)
    require(len(start) > 0, "start must name at least one array; it is empty.")
    arrays = {str(name): _array(str(name), value) for name, value in start.items()}
    times = np.linspace(0, until, 201) if save_at is None else np.asarray(save_at, dtype=np.float64)
    inside = times.size and times.min() >= 0 and times.max() <= until and np.all(np.diff(times) > 0)
    require(bool(inside), f"save_at must rise and lie between 0 and {until}.")
    shapes = {name: a.shape for name, a in arrays.items()}
    cuts = np.cumsum([a.size for a in arrays.values()])[:-1]

    def unpack(flat: np.ndarray) -> State:
        parts = np.split(flat, cuts)
        return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def flat_field(t: float, flat: np.ndarray) -> np.ndarray:
        moved = field(t, unpack(flat))
        return np.concatenate([np.broadcast_to(moved[name], shape).ravel() for name, shape in shapes.items()])

    first = np.concatenate([a.values.ravel() for a in arrays.values()]).astype(np.float64)
    moved = field(0.0, unpack(first))
    absent = [name for name in shapes if name not in moved]
    require(not absent, f"The field must have every name of the start; it lacks {', '.join(absent)}.")
    finite = np.isfinite(first).all() and all(np.isfinite(moved[name]).all() for name in shapes)
    require(finite, "The start, and the field at the start, must be finite; one of them has nan or infinity.")
    solved = solve_ivp(flat_field, (0.0, float(until)), first, method, times, rtol=rtol, atol=atol)
    if not solved.success or solved.y.shape[1] != times.size:
        reached = solved.t[-1] if len(solved.t) else 0.0
        raise InputError(
            f"The flow cannot be followed to t = {until:g} (last time reached: {reached:g}): {solved.message}"
        )
    states = np.split(solved.y, cuts)
    variables = {
        name: (("time", *array.dims), part.T.reshape(times.size, *array.shape))
        for (name, array), part in zip(arrays.items(), states, strict=True)
    }
    coords = {str(k): v for array in arrays.values() for k, v in array.coords.items()}
    return trajectory(variables, {"time": times, **coords}, method=method, rtol=rtol, atol=atol)


def _array(name: str, value: Any) -> xr.DataArray:
    if isinstance(value, xr.DataArray):
        return value
    values = np.asarray(value, dtype=np.float64)
    return xr.DataArray(values, dims=[f"{name}_{i}" for i in range(values.ndim)])
