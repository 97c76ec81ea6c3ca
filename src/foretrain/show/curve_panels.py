"""Draws an experiment: one panel per variable or per value of an axis, curves over the main axis, bands over seeds."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.errors import require
from foretrain.core.trajectory import config_of
from foretrain.ledger.quantities import BASE, Quantities
from foretrain.show.axes import (
    curves,
    has_names,
    label_of,
    main_axis,
    place_words,
    places,
    replicates,
    wants_log,
    words,
)
from foretrain.show.plotting import add_subtitle, band, measurement_marks, new_panels, panel_place, prediction_line

MOST_PANELS, MOST_CURVES = 9, 8
LINES_FROM = 12  # points: a curve with fewer has markers, too


@dataclass(frozen=True)
class CurvePanels:
    """The figure of an experiment that has no drawing of its own; what is not given is inferred from the numbers.

    title      may name settings of the run, as in "Growth at η = {eta:g}"
    variables  what is drawn, one panel each; by default all that have an axis to be drawn over
    over       the axis that runs to the right
    panels     with one variable: the axis with a panel for each of its values
    same_y     whether all panels have the same vertical axis
    log_x, log_y   by default whatever spans more than 2.5 decades
    """

    title: str = ""
    variables: tuple[str, ...] = ()
    over: str = ""
    panels: str = ""
    same_y: bool = False
    log_x: bool | None = None
    log_y: bool | None = None

    def draw(self, run: xr.Dataset, quantities: Quantities = BASE) -> go.Figure:
        """The figure of a run."""
        drawn = self._drawn(run, quantities) or _single_values(run, quantities)
        shown = list(drawn)[:MOST_PANELS]
        columns = 1 if len(shown) == 1 else 3 if len(shown) in (3, 5, 6, 9) else 2
        rows = -(-len(shown) // columns)
        single = {str(name): value.values.item() for name, value in run.variables.items() if value.size == 1}
        figure = new_panels(
            words(self.title.format_map({**single, **config_of(run)})),
            shown if len(shown) > 1 else [""],
            columns=columns,
            shared_yaxes="all" if self.same_y else False,
            horizontal_spacing=0.22 / columns,
            vertical_spacing=0.3 / rows,
        )
        colors: dict[str, int] = {}  # a curve has the same colour in every panel
        for number, panel in enumerate(shown):
            name, value = drawn[panel]
            place = panel_place(number, columns)
            self._draw_panel(figure, place, value, quantities, colors)
            if place["col"] == 1 and all(other == name for other, _ in drawn.values()):
                figure.update_yaxes(title=label_of(name, value, quantities), **place)
        if any(trace.fill for trace in figure.data):
            add_subtitle(figure, "Bands: one standard deviation over repetitions")
        return figure.update_layout(showlegend=list(colors) != [""])

    def _drawn(self, run: xr.Dataset, quantities: Quantities) -> dict[str, tuple[str, xr.DataArray]]:
        """What each panel shows, by the panel's title: the name of a variable, and its values."""
        names = self.variables or tuple(map(str, run.data_vars))
        numbers = {name: run[name] for name in names if run[name].dtype.kind in "fiub"}
        drawable = {
            name: value
            for name, value in numbers.items()
            if self._axis(value, quantities) and bool(value.notnull().any())
        }
        first = next(iter(drawable), "")
        if len(drawable) == 1 or (first and not self.variables and self._crowded(drawable[first], quantities)):
            value = drawable[first]
            split = self.panels or self._crowded(value, quantities)
            if value.sizes.get(split, 1) > 1:
                return {
                    place_words(value, split, index, quantities): (first, value.isel({split: index}))
                    for index in range(value.sizes[split])
                }
        return {label_of(name, value, quantities): (name, value) for name, value in drawable.items()}

    def _axis(self, value: xr.DataArray, quantities: Quantities) -> str | None:
        if self.over in value.dims:
            return self.over
        longest = max(map(str, value.dims), key=lambda axis: value.sizes[axis], default=None)
        return main_axis(value, quantities) or (longest if value.size > 1 else None)

    def _crowded(self, value: xr.DataArray, quantities: Quantities) -> str:
        """The axis to split into panels when one panel would be crowded."""
        axis, repeated = self._axis(value, quantities), replicates(value, quantities)
        others = {str(dim): value.sizes[dim] for dim in value.dims if dim != axis and dim not in repeated}
        many = int(np.prod(list(others.values()), initial=1)) > MOST_CURVES
        fitting = [dim for dim, size in others.items() if 1 < size <= MOST_PANELS]
        named = [dim for dim in fitting if has_names(value, dim)]
        return max(named or fitting, key=others.__getitem__) if many and fitting else ""

    def _draw_panel(
        self,
        figure: go.Figure,
        place: Mapping[str, int],
        value: xr.DataArray,
        quantities: Quantities,
        colors: dict[str, int],
    ) -> None:
        axis = self._axis(value, quantities)
        assert axis is not None
        mean, spread = _over_replicates(value.astype(float), [r for r in replicates(value, quantities) if r != axis])
        x, named = places(mean, axis), has_names(mean, axis)
        x = np.array([words(str(place)) for place in x]) if named else x
        log_x = self.log_x if self.log_x is not None else x.dtype.kind in "fiu" and wants_log(x)
        log_y = self.log_y if self.log_y is not None else wants_log(mean.values)
        for curve in itertools.islice(curves(mean, axis, quantities), MOST_CURVES):
            y = mean.isel(curve.where).values
            group: dict[str, Any] = {"legendgroup": curve.label, "showlegend": curve.label not in colors}
            color = colors.setdefault(curve.label, len(colors))
            if spread is not None and not named:
                width = spread.isel(curve.where).values
                low = np.where(y > width, y - width, np.nan) if log_y else y - width
                figure.add_trace(band(x, low, y + width, color, legendgroup=curve.label), **place)
            line = prediction_line(x, y, curve.label, color, **group)
            if len(x) < LINES_FROM or named:
                bars = spread.isel(curve.where).values if spread is not None and named else None
                marks = measurement_marks(x, y, curve.label, color, bars, **group)
                line = marks if named else marks.update(mode="lines+markers", line=line.line)
            figure.add_trace(line, **place)
        if x.dtype.kind in "iu" and len(x) <= MOST_CURVES and not log_x:
            figure.update_xaxes(tickvals=x.tolist(), **place)  # there is nothing between 1 layer and 2
        figure.update_xaxes(title=label_of(axis, mean[axis], quantities), type=_scale(log_x, named), **place)
        figure.update_yaxes(type=_scale(log_y), **place)


def _single_values(run: xr.Dataset, quantities: Quantities) -> dict[str, tuple[str, xr.DataArray]]:
    """Single values side by side, if a run has nothing else."""
    values = {
        label_of(str(name), value, quantities): float(value.values.item())
        for name, value in run.data_vars.items()
        if value.dtype.kind in "fiub" and value.size == 1
    }
    require(bool(values), "This run has no numbers to draw; write it as a table with --to csv.")
    return {"value": ("value", xr.DataArray(list(values.values()), {"quantity": list(values)}, "quantity"))}


def _over_replicates(value: xr.DataArray, repeated: list[str]) -> tuple[xr.DataArray, xr.DataArray | None]:
    """Mean and standard deviation over repetitions; no deviation if nothing was repeated."""
    over: list[Hashable] = [axis for axis in repeated if axis in value.dims]
    spread = value.std(over) if any(value.sizes[axis] > 1 for axis in over) else None
    return value.mean(over, keep_attrs=True), spread


def _scale(log: bool, named: bool = False) -> str:
    return "category" if named else "log" if log else "linear"
