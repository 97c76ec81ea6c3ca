"""Figures of single claims: drawn from what a claim predicted and measured."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.papers.joma.quantities import QUANTITIES
from foretrain.papers.joma.setting import OrderModel
from foretrain.show.curve_panels import CurvePanels
from foretrain.show.plotting import (
    CONTROL,
    INK,
    log_ticks,
    measurement_marks,
    new_figure,
    new_panels,
    panel_place,
    prediction_line,
)

BELOW = {"orientation": "h", "y": -0.22, "yanchor": "top"}


def speeds(prediction: xr.Dataset, observation: xr.Dataset) -> go.Figure:
    """Theorem 4: ln(1/δ) of every component, by formula and by integration, and |λ| of every pair below its bound."""
    figure = new_panels(
        "Salient components converge first", ["what is left, δ = 1 − v/μ", "|λ| of every pair, and its bound"]
    )
    for color, mu in enumerate(keep(prediction["fast"].values)):
        curve, points = (data["log_inverse"].sel(fast=mu) for data in (prediction, observation))
        group = {"legendgroup": f"{mu}"}
        words = f"μ = {mu:g}"
        figure.add_trace(prediction_line(curve["time"], curve, words, color, **group), **panel_place(0))
        marks = measurement_marks(points["time"], points, words, color, showlegend=False, **group)
        figure.add_trace(marks, **panel_place(0))
    pairs = observation["lambda"].stack(pair=("fast", "slow")).transpose("pair", "time")
    for pair in pairs.values[:: max(1, len(pairs) // 60)]:
        figure.add_trace(prediction_line(pairs["time"], pair, "a pair", CONTROL, showlegend=False), **panel_place(1))
    bound = float(prediction["bound_on_|λ|"])
    figure.add_hline(y=bound, line={"dash": "dash", "color": INK}, annotation_text="√(2π) + 2", **panel_place(1))
    time = observation["time"].values
    figure.update_xaxes(title="time t", type="log", **log_ticks(time))
    figure.update_yaxes(title="ln(1/δ)", type="log", **log_ticks(prediction["log_inverse"].values), **panel_place(0))
    figure.update_yaxes(title="|λ|", range=[0, 1.1 * bound], **panel_place(1))
    return figure.update_layout(height=460, legend=BELOW)


def smallness(prediction: xr.Dataset, observation: xr.Dataset) -> go.Figure:
    """Theorem 4, last sentence: |Λ| of every pair against R, how many times ln(1/δ) is what the condition asks for."""
    asked, sizes = xr.broadcast(1 / prediction["bound_on_|Λ|"], observation["Lambda"])
    R, size = asked.values.ravel(), sizes.values.ravel()
    drawn = (R > 1e-3) & (size > 1e-6)
    R, size = R[drawn], size[drawn]
    chosen = np.argsort(R)[:: max(1, R.size // 800)]
    figure = new_figure(
        "Is |Λ| small once the condition is met R times over?",
        x="R: ln(1/δ) over what the condition asks for",
        y="|Λ|",
        log_x=True,
        log_y=True,
    )
    figure.add_trace(measurement_marks(R[chosen], size[chosen], "one pair at one time", 1, opacity=0.5))
    ends = np.array([R.min(), R.max()])
    figure.add_trace(prediction_line(ends, 1 / ends, "|Λ| = 1/R: points must lie below", 0))
    figure.update_xaxes(**log_ticks(R))
    figure.update_yaxes(**log_ticks(size))
    return figure.update_layout(height=440, legend=BELOW)


def correlation_by_angle(_: xr.Dataset, observation: xr.Dataset) -> go.Figure:
    """Multi-layer Theorem 1: C4 against the sum of the three angles."""
    angle, c4 = observation["angle"].values, observation["C4"].values
    chosen = slice(None, None, max(1, angle.size // 1500))
    figure = new_figure(
        "A gradient is sure to correlate with the latent only if the angles sum to less than 90°",
        x="A + B + C, the angles of the three correlations (degrees)",
        y="C<sub>4</sub>",
    )
    figure.add_trace(measurement_marks(angle[chosen], c4[chosen], "measured", 1, opacity=0.4, showlegend=False))
    figure.add_hline(y=0, line={"color": INK, "width": 1})
    figure.add_vline(x=90, line={"dash": "dash", "color": INK}, annotation_text="90°")
    return figure.update_layout(height=420)


def attended(_: xr.Dataset, observation: xr.Dataset) -> go.Figure:
    """Section 5 in training: the attention logits to other tokens by common ancestor, and the level they must pass."""
    title = "Attention to tokens by the layer of their common ancestor with the query"
    figure = CurvePanels(title, ("logits",)).draw(observation, QUANTITIES)
    level = {"dash": "dash", "color": INK}
    return figure.add_hline(y=OrderModel().level, line=level, annotation_text="counts as attended")


def layers(_: xr.Dataset, observation: xr.Dataset) -> go.Figure:
    """Section 5 in training: how well the two MLP layers align with their latents."""
    return CurvePanels("Which layer learns its latents first?", ("ncorr",)).draw(observation, QUANTITIES)


def stable_rank(_: xr.Dataset, observation: xr.Dataset) -> go.Figure:
    """Stable rank along one training; in a transformer that of every layer."""
    return CurvePanels("Stable rank of the lower MLP matrix along training", ("stable_rank",)).draw(
        observation, QUANTITIES
    )


def table(prediction: xr.Dataset, observation: xr.Dataset) -> go.Figure:
    """Table 1: NCorr as printed and as measured, with the standard deviation over seeds."""
    names = observation["configuration"].values.tolist()
    figure = new_panels("Table 1: NCorr as printed and here", ["s = 0", "s = 1"])
    place = np.arange(len(names))
    for panel, s in enumerate((0, 1)):
        printed, spread = (prediction[name].sel(s=s) for name in ("ncorr", "ncorr_std"))
        here = observation["ncorr"].sel(s=s)
        marks = measurement_marks(place - 0.08, printed, "as printed", 0, spread, showlegend=panel == 0)
        marks.marker.symbol = "diamond-open"
        figure.add_trace(marks, **panel_place(panel))
        mean, error = here.mean("seed"), here.std("seed", ddof=1)
        marks = measurement_marks(place + 0.08, mean, "here", 1, error, showlegend=panel == 0)
        figure.add_trace(marks, **panel_place(panel))
    figure.update_xaxes(tickvals=place.tolist(), ticktext=names, range=[-0.6, len(names) - 0.4])
    figure.update_yaxes(title="NCorr", range=[0.4, 1.05], **panel_place(0))
    figure.update_yaxes(range=[0.4, 1.05], **panel_place(1))
    return figure.update_layout(height=480, legend={**BELOW, "y": -0.3})


def before_and_after(_: xr.Dataset, observation: xr.Dataset) -> go.Figure:
    """Table 1: NCorr of nodes of noise, of the untrained and of the trained network."""
    names = observation["configuration"].values.tolist()
    figure = new_figure("What training adds to the alignment", x="", y="NCorr, mean over seeds")
    rows = (("chance", "nodes of noise"), ("untrained", "untrained"), ("trained", "trained"))
    for color, (name, words) in enumerate(rows):
        place = np.arange(len(names)) + 0.12 * (color - 1)
        figure.add_trace(measurement_marks(place, observation[name], words, (6, 5, 1)[color]))
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=names, range=[-0.6, len(names) - 0.4])
    return figure.update_layout(height=440, legend={**BELOW, "y": -0.25})


def keep(values: np.ndarray, most: int = 8) -> np.ndarray:
    """At most this many of the values, evenly spaced."""
    return values[np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int))]
