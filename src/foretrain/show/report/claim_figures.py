"""Draws prediction against measurement, from the two trajectories of a claim: one small figure per quantity.

A quantity that is predicted and measured is drawn over its main axis: a line (dashes if the axis has names) and
markers. If there is no such axis, or there are too many curves, measured is drawn against predicted, with the
diagonal. A quantity that is only measured gets markers, with its predicted bounds as lines. Single values share one
figure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.ledger.claim import Comparator, Drawn
from foretrain.ledger.quantities import BASE, Quantities
from foretrain.ledger.tolerances import Tolerance
from foretrain.show.axes import (
    curves,
    growing_from_zero,
    has_names,
    label_of,
    main_axis,
    places,
    replicates,
    wants_log,
    words,
)
from foretrain.show.plotting import (
    CONTROL,
    MEASUREMENT,
    PALETTE,
    PREDICTION,
    band,
    measurement_marks,
    new_figure,
    prediction_line,
)
from foretrain.show.report.compact import POINTS, keep

MOST_FIGURES = 4
MOST_CURVES = 8
POINTS_OF_A_BAND = 8
MOST_TICKS = 8

Arrays = dict[str, xr.DataArray]


def claim_figures(
    prediction: xr.Dataset,
    observation: xr.Dataset,
    compare: Comparator | None = None,
    quantities: Quantities = BASE,
) -> list[go.Figure]:
    """At most four figures of prediction and measurement, beginning with the quantities that `compare` compares."""
    measured, predicted = _numbers(observation), _numbers(prediction)
    compared: dict[str, list[Drawn]] = {}
    for drawn in compare.draws if compare else ():
        compared.setdefault(drawn.measured, []).append(drawn)
    single: dict[str, tuple[float, float]] = {}  # label -> predicted, measured
    limits: dict[str, dict[str, float]] = {}  # bound -> label of what it bounds -> its value
    figures: list[go.Figure] = []
    for name in sorted(measured, key=lambda name: (name not in compared, name not in predicted)):
        value = _mean_over_replicates(measured[name], predicted.get(name), quantities)
        spread = _spread(measured[name], value)
        bounds = _bounds(compared.get(name, ()), value, predicted, quantities)
        if value.size == 1 and predicted.get(name, value).size == 1:
            label = label_of(name, value, quantities)
            single[label] = (_only(predicted[name]) if name in predicted else np.nan, _only(value))
            for bound, array in bounds.items():
                limits.setdefault(bound, {})[label] = _only(array)
        elif len(figures) == MOST_FIGURES:
            continue
        elif name in predicted:
            figures.append(_both(name, predicted[name].astype(float), value, spread, quantities))
        else:
            figures.append(_measured(name, value, bounds, spread, quantities))
    if single:
        figures.insert(0, _single_values(single, limits))
    return figures[:MOST_FIGURES]


def _numbers(dataset: xr.Dataset) -> Arrays:
    return {str(name): v for name, v in dataset.data_vars.items() if v.dtype.kind in "fiub" and v.size > 0}


def _only(array: xr.DataArray) -> float:
    return float(array.values.ravel()[0])


def _mean_over_replicates(
    measured: xr.DataArray, predicted: xr.DataArray | None, quantities: Quantities
) -> xr.DataArray:
    """The mean over repetitions that the prediction does not have, unless no other axis is left to draw over."""
    value = measured.astype(float)
    known = predicted.dims if predicted is not None else ()
    over = [axis for axis in replicates(value, quantities) if axis not in known]
    others = [axis for axis in value.dims if axis not in over and value.sizes[axis] > 1]
    if others or predicted is not None or measured.dtype.kind == "b":
        return value.mean(over, keep_attrs=True)
    return value


def _spread(measured: xr.DataArray, mean: xr.DataArray) -> xr.DataArray | None:
    """Standard deviation over what was averaged."""
    over = [axis for axis in measured.dims if axis not in mean.dims]
    return measured.astype(float).std(over) if over and measured.dtype.kind != "b" else None


def _bounds(drawn: Iterable[Drawn], value: xr.DataArray, predicted: Arrays, quantities: Quantities) -> Arrays:
    """Bounds that can be drawn in the same panel, by name."""
    bounds = {}
    for each in drawn:
        for side, bound in (("lower bound", each.low), ("upper bound", each.high)):
            if isinstance(bound, str) and bound in predicted and set(predicted[bound].dims) <= set(value.dims):
                bounds[words(quantities[bound].title) if bound in quantities else side] = predicted[bound].astype(float)
            elif isinstance(bound, Tolerance):
                bounds[side] = xr.DataArray(bound.value)
    return bounds


def _single_values(single: dict[str, tuple[float, float]], limits: dict[str, dict[str, float]]) -> go.Figure:
    """Names side by side; a bound is a dash beside what it bounds."""
    predicted, measured = np.array(list(single.values())).T
    bounds = [value for bounded in limits.values() for value in bounded.values()]
    names = list(single)
    figure = new_figure("", x="", y="value", log_y=wants_log(np.concatenate([predicted, measured, bounds])))
    figure.update_xaxes(type="category")
    if np.isfinite(predicted).any():
        figure.add_trace(_prediction_dashes(names, predicted, "predicted", PREDICTION))
    figure.add_trace(measurement_marks(names, measured, "measured"))
    for color, (bound, bounded) in zip(itertools.cycle((CONTROL, *PALETTE[2:])), limits.items(), strict=False):
        dashes = _prediction_dashes(list(bounded), list(bounded.values()), bound, color)
        figure.add_trace(dashes)
    return _finish(figure)


def _theory(value: xr.DataArray, axis: str, quantities: Quantities) -> Callable[..., go.Scatter]:
    """How predictions are drawn: a line, or dashes if nothing lies between two positions (names, repetitions)."""
    return _prediction_dashes if has_names(value, axis) or quantities[axis].role == "replicate" else prediction_line


def _prediction_dashes(x: Any, y: Any, name: str, color: int | str, **kwargs: Any) -> go.Scatter:
    line = prediction_line(x, y, name, color, **kwargs)
    mark = {"symbol": "line-ew", "size": 24 if len(line.x) < 30 else 6, "line": {"width": 3, "color": line.line.color}}
    return line.update(mode="markers", marker=mark)


def _both(
    name: str, predicted: xr.DataArray, measured: xr.DataArray, spread: xr.DataArray | None, quantities: Quantities
) -> go.Figure:
    predicted, measured = xr.broadcast(predicted, measured)
    axis = main_axis(measured, quantities)
    if axis is None or measured.size > MOST_CURVES * measured.sizes[axis]:
        return _scatter(name, predicted, measured, quantities)
    drawn = curves(measured, axis, quantities)
    figure, x, chosen = _over(axis, name, measured, [predicted, measured], quantities)
    prediction = _theory(measured, axis, quantities)
    spread = None if spread is None else _on_the_axes_of(measured, spread)
    traces = []
    for color, curve in enumerate(drawn):
        y, yhat = (_points(array, curve.where, chosen) for array in (measured, predicted))
        bars = None if spread is None else _points(spread, curve.where, chosen)
        if len(drawn) == 1:
            traces.append(prediction(x, yhat, "predicted", PREDICTION))
            traces += _measurement(x, y, "measured", MEASUREMENT, bars)
        else:
            group = {"legendgroup": curve.label}
            traces.append(prediction(x, yhat, curve.label, color, showlegend=False, **group))
            traces += _measurement(x, y, curve.label, color, bars, **group)
    figure.add_traces(traces)
    return _finish(figure, note="lines: predicted, points: measured" if len(drawn) > 1 else "")


def _measurement(x: np.ndarray, y: np.ndarray, label: str, color: int | str, spread: Any, **kwargs: Any) -> list[Any]:
    """Markers. Their spread is a band if there are enough of them for a curve, else bars."""
    if spread is None or x.dtype.kind not in "fiu" or len(x) < POINTS_OF_A_BAND:
        return [measurement_marks(x, y, label, color, spread, **kwargs)]
    positive = np.nanmin(y, initial=np.inf) > 0  # then the axis may be logarithmic, which has no place for 0
    low = np.where((y > spread) | (not positive), y - spread, y / 10)
    return [band(x, low, y + spread, color, **kwargs), measurement_marks(x, y, label, color, **kwargs)]


def _measured(
    name: str, value: xr.DataArray, bounds: Arrays, spread: xr.DataArray | None, quantities: Quantities
) -> go.Figure:
    axis = main_axis(value, quantities) or str(max(value.dims, key=lambda d: value.sizes[d]))
    everything = curves(value, axis, quantities)
    drawn = [everything[i] for i in keep(everything, MOST_CURVES)]
    figure, x, chosen = _over(axis, name, value, [value, *bounds.values()], quantities)
    spread = None if spread is None else _on_the_axes_of(value, spread)
    traces = []
    for color, curve in enumerate(drawn):
        bars = None if spread is None else _points(spread, curve.where, chosen)
        y = _points(value, curve.where, chosen)
        traces += _measurement(x, y, curve.label or "measured", color + 1, bars)
    for dash, (bound, array) in zip(itertools.cycle(("solid", "dash", "dot")), bounds.items(), strict=False):
        same_for_all, whole = set(array.dims) <= {axis}, _on_the_axes_of(value, array)
        for number, curve in enumerate(drawn[:1] if same_for_all else drawn):
            line = _theory(value, axis, quantities)(
                x, _points(whole, curve.where, chosen), bound, CONTROL, showlegend=number == 0
            )
            traces.append(line.update(line_dash=dash))
    figure.add_traces(traces)
    return _finish(figure, note=f"{len(drawn)} of {len(everything)} curves" if len(drawn) < len(everything) else "")


def _scatter(name: str, predicted: xr.DataArray, measured: xr.DataArray, quantities: Quantities) -> go.Figure:
    pairs = np.column_stack([predicted.values.ravel(), measured.values.ravel()])
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    log, label = wants_log(pairs), label_of(name, measured, quantities)
    figure = new_figure("", x=f"predicted {label}", y=f"measured {label}", log_x=log, log_y=log)
    if len(pairs):
        ends = [float(pairs.min()), float(pairs.max())]
        figure.add_scatter(x=ends, y=ends, mode="lines", line={"color": CONTROL, "dash": "dash"}, name="equal")
    kept = pairs[keep(pairs, POINTS)]
    figure.add_trace(measurement_marks(kept[:, 0], kept[:, 1], "one cell each", MEASUREMENT, opacity=0.7))
    return _finish(figure)


def _over(
    axis: str, name: str, value: xr.DataArray, drawn: list[xr.DataArray], quantities: Quantities
) -> tuple[go.Figure, np.ndarray, np.ndarray]:
    """An empty figure over this axis, the coordinates to draw, and their indices."""
    x = places(value, axis)
    drawable = x > 0 if growing_from_zero(x) else np.full(x.shape, True)  # 0 itself cannot be drawn on a log axis
    log_x = x.dtype.kind in "fiu" and wants_log(x[drawable])
    log_y = wants_log(np.concatenate([array.values.ravel() for array in drawn]))
    titles = {"x": label_of(axis, value[axis], quantities), "y": label_of(name, value, quantities)}
    figure = new_figure("", **titles, log_x=log_x, log_y=log_y)
    if x.dtype.kind in "iu" and x.size <= MOST_TICKS and not log_x:
        figure.update_xaxes(tickvals=x.tolist())  # there is nothing between 1 layer and 2
    if has_names(value, axis):
        figure.update_xaxes(type="category")
        x = np.array([words(place) for place in x])
    chosen = np.flatnonzero(drawable)
    chosen = chosen[keep(x[chosen], POINTS, log=log_x)]
    return figure, x[chosen], chosen


def _on_the_axes_of(like: xr.DataArray, array: xr.DataArray) -> xr.DataArray:
    """`array` with all axes of `like`, repeated along those it does not have."""
    return xr.broadcast(array, like)[0].transpose(*like.dims)


def _points(array: xr.DataArray, where: dict[str, int], chosen: np.ndarray) -> np.ndarray:
    """The values of one curve."""
    return array.variable.isel(where).values[chosen]


def _finish(figure: go.Figure, note: str = "") -> go.Figure:
    """Make the figure small and without a title, because its card has one. A long legend makes it taller."""
    names = [str(trace.name) for trace in figure.data if trace.showlegend is not False]
    per_line = max(1, 40 // max(map(len, names), default=1))
    lines = -(-len(names) // per_line) + bool(note)
    legend: dict[str, Any] = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}}
    if note:
        legend["title"] = {"text": f"{note} ", "side": "top", "font": {"size": 12}}
    margin = {"l": 56, "r": 16, "t": 44, "b": 68}
    figure.update_xaxes(title_standoff=12)  # distance from the tick labels, which may be tilted
    return figure.update_layout(height=320 + 20 * lines, margin=margin, legend=legend, showlegend=True)
