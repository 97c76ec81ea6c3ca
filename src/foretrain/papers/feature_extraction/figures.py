"""One Plotly figure per experiment."""

from __future__ import annotations

from collections.abc import Callable

import plotly.graph_objects as go
import xarray as xr

from foretrain.show.curve_panels import CurvePanels
from foretrain.show.plotting import (
    CONTROL,
    measurement_marks,
    new_figure,
    new_panels,
    panel_place,
    prediction_line,
    typeset,
)


def label_scores(run: xr.Dataset) -> go.Figure:
    """Scores after the last epoch against ω, a panel per network."""
    names = [str(n) for n in run.network.values]
    figure = new_panels("Label scores follow co-occurrence", names)
    last = run.score.isel(epoch=-1).mean("seed")
    omega = run.cooccurrence.isel(network=0, seed=0)  # the same for all of them
    for k, name in enumerate(names):
        marks = measurement_marks(omega, last.sel(network=name), name, k, showlegend=False)
        marks.marker.size = 4
        figure.add_trace(marks, **panel_place(k))
    figure.update_xaxes(title="ω(e), occurrences")
    figure.update_yaxes(title="score, logits")
    return figure


def lazy_scores(run: xr.Dataset) -> go.Figure:
    """Learned against predicted scores, with the line of slope 1."""
    figure = new_figure(
        "Scores in the lazy regime: learned against predicted", x="predicted score, logits", y="learned score, logits"
    )
    ends = [float(run.predicted.min()), float(run.predicted.max())]
    figure.add_trace(prediction_line(ends, ends, "equal", CONTROL))
    for k, name in enumerate(run.network.values):
        of = run.sel(network=name)
        figure.add_trace(measurement_marks(of.predicted, of.learned, str(name), k))
    return figure


def movement(run: xr.Dataset) -> go.Figure:
    """Movement over width, a panel for the signs of the readout; lines are powers of width from the largest mean."""
    panels = [f"readout weights of {readout}" for readout in run.readout.values]
    figure = new_panels("The kernel stands still as width grows", panels, shared_yaxes=True)
    mean = run.movement.mean("seed")
    error = run.movement.std("seed") / run.sizes["seed"] ** 0.5
    for column, readout in enumerate(run.readout.values):
        for k, name in enumerate(run.network.values):
            of = {"readout": readout, "network": name}
            marks = measurement_marks(
                run.width, mean.sel(of), str(name), k, error.sel(of), showlegend=column == 0, legendgroup=str(name)
            )
            figure.add_trace(marks, **panel_place(column))
        for color, power in (("#999999", -0.5), ("#000000", -1.0)):
            line = float(mean.sel(readout=readout).max()) * (run.width / run.width[0]) ** power
            figure.add_trace(
                prediction_line(run.width, line, typeset(f"width^({power:g})"), color, showlegend=column == 0),
                **panel_place(column),
            )
    figure.update_xaxes(type="log", title="width", tickvals=run.width.values.tolist())
    figure.update_yaxes(type="log", dtick=1)
    figure.update_yaxes(title="relative movement of the kernel", col=1)
    return figure


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure] | CurvePanels] = {
    "label_scores": label_scores,
    "lazy_scores": lazy_scores,
    "bias_share": CurvePanels(
        "How strongly all tokens move together, β/ρ, by the size σ of the initial weights",
        over="sigma",
        panels="varied",
        same_y=True,
        log_x=True,
    ),
    "movement": movement,
    "depth": CurvePanels("Depth and LayerNorm (ReLU)", over="layers"),
}
