"""One Plotly figure per experiment."""

from __future__ import annotations

from collections.abc import Callable

import plotly.graph_objects as go
import xarray as xr

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
    for k, name in enumerate(names):
        marks = measurement_marks(run.cooccurrence, last.sel(network=name), name, k, showlegend=False)
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


def bias_share(run: xr.Dataset) -> go.Figure:
    """β/ρ over σ, a panel for each way of varying it."""
    names = [str(v) for v in run.varied.values]
    figure = new_panels("How strongly all tokens move together: β/ρ", [f"varied: {name}" for name in names])
    for column, varied in enumerate(names):
        for k, activation in enumerate(run.activation.values):
            share = run.share.sel(varied=varied, activation=activation)
            line = prediction_line(
                run.sigma, share, str(activation), k, showlegend=column == 0, legendgroup=str(activation)
            )
            figure.add_trace(line, **panel_place(column))
    figure.update_xaxes(type="log", title="σ of the initial weights")
    figure.update_yaxes(title="β/ρ")
    return figure


def depth(run: xr.Dataset) -> go.Figure:
    """Bias and bigram share over the number of layers."""
    figure = new_panels("Depth and LayerNorm (ReLU)", ["bias β/ρ", "share of bigrams in the kernel"])
    for column, name in enumerate(("bias", "bigram")):
        for k, label in enumerate(("without LayerNorm", "with LayerNorm")):
            marks = measurement_marks(
                run.layers, run[name].sel(normed=k), label, k, showlegend=column == 0, legendgroup=label
            )
            marks.mode = "lines+markers"
            figure.add_trace(marks, **panel_place(column))
    figure.update_xaxes(title="layers", dtick=1)
    figure.update_yaxes(rangemode="tozero")
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


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {
    "label_scores": label_scores,
    "lazy_scores": lazy_scores,
    "bias_share": bias_share,
    "movement": movement,
    "depth": depth,
}
