"""Figures of the exact kernel and of networks on unseen symbols."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.show.curve_panels import CurvePanels
from foretrain.show.plotting import (
    PALETTE,
    measurement_marks,
    new_figure,
    new_panels,
    panel_place,
    prediction_line,
    typeset,
)

NAMES = {"attention": typeset("K_attn"), "transformer": typeset("K_trans")}


def kernel_width(run: xr.Dataset) -> go.Figure:
    """Distance of random features from eq. 4, which falls, and from the kernel of independent scores, which stays."""
    figure = new_figure(
        typeset("Random features reach the kernel at rate width^(−1/2)"),
        x="width (heads, embedding, head, MLP)",
        y="relative distance (rms over seeds)",
        log_x=True,
        log_y=True,
    )
    says = {"same": "eq. 4", "independent": "independent ζ, ζ̃ (G.1)"}
    for color, layer in enumerate(run.layer.values.tolist()):
        for scores, words in says.items():
            distance = run.distance.sel(layer=layer, scores=scores)
            marks = measurement_marks(run.width, distance, f"{NAMES[layer]}, {words}", color)
            if scores == "independent":
                marks.update(
                    marker={"symbol": "x"}, line={"dash": "dot", "color": PALETTE[color]}, mode="lines+markers"
                )
            figure.add_trace(marks)
        first = float(run.distance.sel(layer=layer, scores="same")[-1])
        slope = first * np.sqrt(float(run.width[-1]) / run.width.values)
        figure.add_trace(prediction_line(run.width, slope, typeset("∝ width^(−1/2)"), color, showlegend=color == 0))
    figure.update_xaxes(tickvals=run.width.values.tolist())
    figure.update_yaxes(tickvals=[0.05, 0.1, 0.2, 0.5, 1, 2])
    return figure


def kernel_taylor(run: xr.Dataset) -> go.Figure:
    """The kernel and its Taylor polynomials, and how far apart they are."""
    config = config_of(run)
    name = NAMES["attention"]
    title = f"{name}({config['x']}, {config['y']}) at γ = {config['gamma']:g} and its Taylor polynomials at β = 0"
    figure = new_panels(title, ["value", "distance"], columns=2, horizontal_spacing=0.12)
    exact = run.exact.values
    figure.add_trace(measurement_marks(run.beta, exact, "exact", PALETTE[6]), **panel_place(0))
    for color, order in enumerate(run.order.values.tolist()):
        values = run.taylor.sel(order=order).values
        figure.add_trace(prediction_line(run.beta, values, f"order {order}", color), **panel_place(0))
        gap = prediction_line(run.beta, abs(values - exact), f"order {order}", color, showlegend=False)
        figure.add_trace(gap, **panel_place(1))
    low, high = float(exact.min()), float(exact.max())
    figure.update_yaxes(title=NAMES["attention"], range=[low - (high - low), high + (high - low)], **panel_place(0))
    figure.update_yaxes(
        title=f"|polynomial − {NAMES['attention']}|", type="log", dtick=2, exponentformat="power", **panel_place(1)
    )
    figure.update_xaxes(title="β", **panel_place(0))
    figure.update_xaxes(title="β", type="log", tickvals=[0.1, 0.2, 0.5, 1, 2], **panel_place(1))
    return figure


def copying_velocity(run: xr.Dataset) -> go.Figure:
    """How the loss on the unseen token moves: above 0 it rises."""
    figure = new_figure(
        "Copying an unseen token: how its loss moves at the start of training",
        x="embedding width",
        y="dL<sub>test</sub>/dt",
        log_x=True,
    )
    says = {"weights": "attention alone", "identity": "only b·I trained"}
    for color, kind in enumerate(run.trained.values.tolist()):
        cell = run.sel(trained=kind)
        error = cell.test.std("seed", ddof=1) / np.sqrt(cell.sizes["seed"])
        limit = prediction_line(run.embedding, cell.limit, f"{says[kind]}: limit", color)
        figure.add_trace(limit)
        figure.add_trace(
            measurement_marks(run.embedding, cell.test.mean("seed"), f"{says[kind]}: measured", color, error)
        )
    figure.add_hline(y=0, line={"color": PALETTE[7], "width": 1, "dash": "dot"})
    figure.update_xaxes(tickvals=run.embedding.values.tolist())
    return figure


def mlp_unseen(run: xr.Dataset) -> go.Figure:
    """Mean outputs over seeds with their standard errors; a model that generalises lies on the labels."""
    figure = new_figure(
        "Mean output on strings of unseen tokens, same/different", x="string of unseen tokens", y="output"
    )
    strings = run.string.values.tolist()
    labels = run.label.values
    figure.add_trace(
        go.Scatter(
            x=strings,
            y=labels.tolist(),
            name="label",
            mode="markers",
            marker={"symbol": "line-ew", "size": 22, "line": {"width": 2, "color": PALETTE[6]}},
        )
    )
    for color, way in enumerate(run.way.values.tolist()):
        cell = run.sel(way=way)
        error = cell["std"] / np.sqrt(float(cell.runs))
        figure.add_trace(measurement_marks(strings, cell["mean"], str(way), color, error))
    figure.update_xaxes(type="category")
    return figure


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure] | CurvePanels] = {
    "kernel_width": kernel_width,
    "kernel_taylor": kernel_taylor,
    "conditioning": CurvePanels("Same/different: larger β conditions the template matrix better", log_y=True),
    "copying_velocity": copying_velocity,
    "mlp_unseen": mlp_unseen,
}
