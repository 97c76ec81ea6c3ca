"""The figures of a watched training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from plotly.colors import sample_colorscale

from foretrain.monitor.page.curves import LayerCurve
from foretrain.monitor.page.story import short_names
from foretrain.monitor.short_names import without_shared
from foretrain.show.plotting import GRID, PALETTE, log_ticks, new_figure, new_panels, panel_place, plain_text

MOST_STEPS = 400  # drawn per curve
MOST_POINTS = 2000  # of the loss, of which every step is known
MOST_PANELS = 48
COLUMNS = 4
HEIGHT, SMALL_HEIGHT = 360, 190


def thinned(dataset: xr.Dataset, most: int = MOST_STEPS) -> xr.Dataset:
    """At most so many of the steps, evenly chosen, the last one included."""
    count = dataset.sizes.get("step", 0)
    if count <= most:
        return dataset
    return dataset.isel(step=np.unique(np.linspace(0, count - 1, most).round().astype(int)))


def entropy_figure(dataset: xr.Dataset, curves: Sequence[LayerCurve]) -> go.Figure:
    """Relative entropy of every layer, with a mark where it was lowest before it rose again."""
    figure = new_figure("How sparse attention is (mean over the heads of a layer)", x="step", y="entropy / its maximum")
    figure.update_layout(height=HEIGHT)
    entropy, short = dataset.attention_relative_entropy.mean("head"), short_names(dataset)
    for curve, color in zip(curves, _shades(len(curves)), strict=True):
        values = entropy.sel(layer=curve.layer)
        name = f"layer {plain_text(short[curve.layer])}"
        figure.add_trace(_line(dataset.step, values, name, color))
        if curve.shape == "sparse, then dense":
            lowest = float(values.sel(step=curve.lowest_step, method="nearest"))
            figure.add_trace(_mark(curve.lowest_step, lowest, color, f"{name}: sparsest"))
    return figure


def heads_figure(dataset: xr.Dataset, name: str, title: str, unit: str) -> go.Figure:
    """One small panel per layer with a line for every head, all on the same axes."""
    layers = dataset.layer.values[:MOST_PANELS]
    short = short_names(dataset)
    figure = _small_panels(title, [f"layer {plain_text(short[str(layer)])}" for layer in layers])
    for index, layer in enumerate(layers):
        values = dataset[name].sel(layer=layer).dropna("head", how="all")
        for head, color in zip(values["head"].values, _shades(values.sizes["head"]), strict=True):
            line = _line(dataset.step, values.sel(head=head), f"head {head}", color, width=1.3)
            figure.add_trace(line.update(showlegend=False), **panel_place(index, COLUMNS))
    figure.update_yaxes(title=unit, col=1)
    return figure


def by_layer_figure(dataset: xr.Dataset, panels: dict[str, tuple[str, str]]) -> go.Figure:
    """Several measures over (step, layer), each in a panel: {variable: (title, "max" or "mean" over heads)}."""
    figure = new_panels("", [title for title, _ in panels.values()], columns=len(panels), horizontal_spacing=0.08)
    figure.update_layout(height=HEIGHT, margin={"t": 48})
    short = short_names(dataset)
    for index, (variable, (_, over_heads)) in enumerate(panels.items()):
        values = getattr(dataset[variable], over_heads)("head")
        for layer, color in zip(dataset.layer.values, _shades(dataset.sizes["layer"]), strict=True):
            line = _line(dataset.step, values.sel(layer=layer), f"layer {plain_text(short[str(layer)])}", color)
            figure.add_trace(line.update(showlegend=index == 0, legendgroup=str(layer)), row=1, col=index + 1)
        _log_if_wide(figure, values.values, row=1, col=index + 1)
    figure.update_xaxes(title="step")
    return figure


def matrices_figure(dataset: xr.Dataset, name: str, title: str, *, log: bool = False) -> go.Figure:
    """One small panel per kind of matrix, with a line for every layer."""
    kinds: dict[str, list[str]] = {}
    for matrix in dataset.matrix.values:
        kinds.setdefault(kind_of(str(matrix)), []).append(str(matrix))
    shown = list(kinds)[:MOST_PANELS]
    short = without_shared(list(kinds))
    figure = _small_panels(title, [plain_text(short[kind]) for kind in shown], shared_yaxes=False)
    for index, kind in enumerate(shown):
        for matrix, color in zip(kinds[kind], _shades(len(kinds[kind])), strict=True):
            values = dataset[name].sel(matrix=matrix).dropna("step")
            line = _line(values.step, values, plain_text(matrix), color, width=1.3)
            figure.add_trace(line.update(showlegend=False), **panel_place(index, COLUMNS))
        if log:
            everything = dataset[name].sel(matrix=kinds[kind]).values
            figure.update_yaxes(type="log", **log_ticks(everything), **panel_place(index, COLUMNS))
    return figure


ACTIVATIONS = {
    "activation_residual_norm": "size of the residual stream",
    "activation_massive": "largest activation / median",
    "activation_dead_units": "share of dead units",
}
EXPERTS = {
    "experts_router_entropy": "entropy of the router / its maximum",
    "experts_busiest": "busiest expert / its even share",
    "experts_dropped": "share of dropped tokens",
}
LOG_ABOVE = 30  # times what nine tenths of the values exceed, from which on an axis is logarithmic


def by_name_figure(dataset: xr.Dataset, axis: str, titles: dict[str, str]) -> go.Figure:
    """Measures over (step, axis), each in a panel with a line for every block or router."""
    shown = {name: title for name, title in titles.items() if name in dataset and dataset[name].notnull().any()}
    figure = new_panels("", list(shown.values()), columns=len(shown), horizontal_spacing=0.08)
    figure.update_layout(height=HEIGHT, margin={"t": 48})
    names = [str(name) for name in dataset[axis].values]
    short = without_shared(names)
    for index, variable in enumerate(shown):
        values = dataset[variable]
        for name, color in zip(names, _shades(len(names)), strict=True):
            line = _line(dataset.step, values.sel({axis: name}), f"{axis} {plain_text(short[name])}", color)
            figure.add_trace(line.update(showlegend=index == 0, legendgroup=name), row=1, col=index + 1)
        _log_if_wide(figure, values.values, row=1, col=index + 1)
    figure.update_xaxes(title="step")
    return figure


def every_step_figure(steps: xr.Dataset) -> go.Figure:
    """The loss and the norm of the whole gradient at every step, as far as they were kept."""
    titles = {"loss": "loss", "total_gradient_norm": "norm of the whole gradient, before clipping"}
    shown = [name for name in titles if steps[name].notnull().any()]
    figure = new_panels("", [titles[name] for name in shown], columns=len(shown), horizontal_spacing=0.08)
    figure.update_layout(height=280, margin={"t": 48}, showlegend=False)
    for index, name in enumerate(shown):
        kept = thinned(steps[[name]].dropna("step"), MOST_POINTS)
        figure.add_trace(_line(kept.step, kept[name], name, PALETTE[0], width=1.5), row=1, col=index + 1)
        _log_if_wide(figure, kept[name].values, row=1, col=index + 1)
    figure.update_xaxes(title="step")
    return figure


def _log_if_wide(figure: go.Figure, values: np.ndarray, **place: int) -> None:
    """A logarithmic axis where one number is many times another; zeros and what is negative are then not drawn."""
    numbers = values[np.isfinite(values) & (values > 0)]
    if len(numbers) and numbers.max() > LOG_ABOVE * np.quantile(numbers, 0.1):
        figure.update_yaxes(type="log", **log_ticks(numbers), **place)


def kind_of(matrix: str) -> str:
    """The name of a matrix with its numbers replaced, so that the same matrix of every layer has the same kind."""
    return re.sub(r"(?<=[.])\d+(?=[.])", "·", matrix.removesuffix(".weight"))


def _small_panels(title: str, titles: list[str], *, shared_yaxes: bool | str = "all") -> go.Figure:
    rows = -(-len(titles) // COLUMNS)
    height = SMALL_HEIGHT * rows + 110
    figure = new_panels(
        title, titles, columns=COLUMNS, shared_xaxes="all", shared_yaxes=shared_yaxes,
        horizontal_spacing=0.045, vertical_spacing=min(0.3, 62 / height),
    )  # fmt: skip
    figure.update_layout(height=height)
    figure.update_annotations(font_size=12)
    figure.update_xaxes(title="step", row=rows)
    return figure


def _shades(count: int) -> list[str]:
    """Dark for the first layer or head, light for the last: an order that is seen without a legend."""
    return sample_colorscale("Viridis", [0.9 * k / max(1, count - 1) for k in range(count)])


def _line(x: Any, y: Any, name: str, color: str, *, width: float = 2) -> go.Scatter:
    points = {"x": np.asarray(x).tolist(), "y": [float(f"{value:.5g}") for value in np.asarray(y)]}
    return go.Scatter(**points, name=name, mode="lines", line={"color": color, "width": width})


def _mark(x: float, y: float, color: str, name: str) -> go.Scatter:
    marker = {"color": color, "size": 9, "symbol": "diamond", "line": {"color": GRID, "width": 1}}
    return go.Scatter(x=[x], y=[y], name=name, mode="markers", marker=marker, showlegend=False)
