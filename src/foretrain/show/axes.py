"""Chooses the axis to draw a quantity over, splits it into curves, and names both."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import numpy as np
import xarray as xr

from foretrain.ledger.quantities import Quantities
from foretrain.show.plotting import plain_text, typeset

LOG_DECADES = 2.5  # an axis that spans more decades is logarithmic
MOST_NAMES = 24  # more names than this cannot be read below a figure

SYMBOL = re.compile(r"[α-ωA-Z](?:<sub>.*</sub>)?(?:/.*)?")  # such as λ, η<sub>Z</sub> or n/M, rather than a word


@dataclass(frozen=True)
class Curve:
    """One curve of a quantity."""

    where: dict[str, int]  # its indices on all axes except the main one, for `isel`
    label: str  # the same in words


def main_axis(array: xr.DataArray, quantities: Quantities) -> str | None:
    """The axis to draw over: time, or else the longest axis with ordered numbers, or else the longest with names."""
    long = [str(axis) for axis in array.dims if array.sizes[axis] > 1]
    ordered = [axis for axis in long if _in_order(array, axis, quantities)]
    if "time" in ordered:
        return "time"
    names = [axis for axis in long if has_names(array, axis) and array.sizes[axis] <= MOST_NAMES]
    return max(ordered or names, key=lambda axis: array.sizes[axis], default=None)


def has_names(array: xr.DataArray, axis: str) -> bool:
    return axis in array.coords and array[axis].dtype.kind in "OUST"


def _in_order(array: xr.DataArray, axis: str, quantities: Quantities) -> bool:
    unordered = quantities[axis].role in ("replicate", "index")
    if unordered or axis not in array.coords or array[axis].dtype.kind not in "fiu":
        return False
    steps = np.diff(array[axis].values.astype(float))
    return bool((steps > 0).all() or (steps < 0).all())


def places(array: xr.DataArray, axis: str) -> np.ndarray:
    """The coordinates of an axis; 0, 1, 2, … if it has none."""
    return array[axis].values if axis in array.coords else np.arange(array.sizes[axis])


def replicates(array: xr.DataArray, quantities: Quantities) -> list[str]:
    """The axes along which a measurement is only repeated."""
    return [str(axis) for axis in array.dims if quantities[str(axis)].role == "replicate"]


def curves(array: xr.DataArray, axis: str, quantities: Quantities) -> list[Curve]:
    others = [str(other) for other in array.dims if other != axis]
    named = [other for other in others if array.sizes[other] > 1]
    return [
        Curve(where, ", ".join(place_words(array, other, where[other], quantities) for other in named))
        for index in itertools.product(*(range(array.sizes[other]) for other in others))
        for where in [dict(zip(others, index, strict=True))]
    ]


def place_words(array: xr.DataArray, axis: str, index: int, quantities: Quantities) -> str:
    """A place on an axis, such as "seed 2" or "η<sub>Z</sub> = 0.5"; of "mode, the strongest first" only the noun."""
    value = places(array, axis)[index]
    quantity = quantities[axis]
    name = words(quantity.symbol or _called(axis, array[axis], quantities)).partition(",")[0]
    shown = f"{value:.4g}" if isinstance(value, np.floating) else typeset(plain_text(value))
    return f"{name} = {shown}" if SYMBOL.fullmatch(name) else f"{name} {shown}"


def wants_log(values: np.ndarray) -> bool:
    """Whether all values are above 0 and span more than 2.5 decades."""
    values = values[np.isfinite(values)]
    return bool(values.size and values.min() > 0 and np.log10(values.max() / values.min()) > LOG_DECADES)


def growing_from_zero(x: np.ndarray) -> bool:
    """Whether an axis begins at 0 and its steps grow over decades, like times for watching slow training."""
    if x.dtype.kind not in "fiu" or x.size < 4 or x.min() != 0 or (steps := np.diff(x)).min() <= 0:
        return False
    return bool(steps.max() > 100 * steps.min()) and wants_log(x[x > 0])


def _called(name: str, array: xr.DataArray, quantities: Quantities) -> str:
    """What a quantity is called in the table, or else by its own `long_name`."""
    return quantities[name].title if name in quantities else str(array.attrs.get("long_name", name))


def label_of(name: str, array: xr.DataArray, quantities: Quantities) -> str:
    """The name of a variable with its unit."""
    unit = quantities[name].unit or array.attrs.get("units")
    return words(_called(name, array, quantities)) + (f" ({typeset(plain_text(unit))})" if unit else "")


def words(name: str) -> str:
    """A name in words: symbols typeset, no underscores, everything else as Plotly shows it literally."""
    return typeset(plain_text(name)).replace("_", " ")
