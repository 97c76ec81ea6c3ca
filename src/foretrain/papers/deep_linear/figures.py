"""One Plotly figure per experiment on deep linear networks."""

from __future__ import annotations

import plotly.graph_objects as go
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.show.plotting import (
    PALETTE,
    add_subtitle,
    label_ends,
    log_ticks,
    measurement_marks,
    new_figure,
    prediction_line,
)


def modes(run: xr.Dataset) -> go.Figure:
    """How much of each mode is learned: the exact solution as lines, training as marks."""
    start = config_of(run).get("start", "random")
    figure = new_figure(
        f"Strong modes are learned first ({start} start)", x="time (steps × rate)", y="learned of the mode"
    )
    shown = slice(None, None, max(1, run.sizes["time"] // 40))
    for index, mode in enumerate(run.mode.values):
        part = run.sel(mode=mode).isel(seed=0)
        name = f"s = {float(part.strength):g}"
        figure.add_trace(prediction_line(part.time, part.predicted, name, index))
        marks = measurement_marks(part.time[shown], part.learned[shown], f"{name}, trained", index, showlegend=False)
        figure.add_trace(marks)
    add_subtitle(figure, "Lines: the exact solution. Points: training. s: strength of the mode")
    return label_ends(figure)


def depth(run: xr.Dataset) -> go.Figure:
    """Steps by depth for every kind of start, means over seeds that got there."""
    figure = new_figure(
        "Depth costs time from random weights, not from orthogonal ones", x="layers", y="steps", log_y=True
    )
    for index, kind in enumerate(run.start.values):
        part = run.steps.sel(start=kind)
        error = part.std("seed", ddof=1) / part.sizes["seed"] ** 0.5 if part.sizes["seed"] > 1 else None
        marks = measurement_marks(run.layers, part.mean("seed"), str(kind), index, error=error)
        figure.add_trace(marks.update(mode="lines+markers", line={"color": PALETTE[index], "width": 1}))
    figure.update_xaxes(tickvals=run.layers.values.tolist())
    figure.update_yaxes(**log_ticks(run.steps.values[run.steps.notnull().values]))
    return figure


FIGURES = {"modes": modes, "depth": depth}
