"""Figures of encoders trained on WikiText-2: Fig 7 and 10."""

from __future__ import annotations

import plotly.graph_objects as go
import xarray as xr

from foretrain.show.plotting import (
    CONTROL,
    log_ticks,
    measurement_marks,
    new_figure,
    new_panels,
    panel_place,
    prediction_line,
)


def fig7(data: xr.Dataset) -> go.Figure:
    """Entropy of the first layer's attention, and how far it moves per 100 steps."""
    panels = ["entropy", "movement per 100 steps (total variation)"]
    figure = new_panels(
        "Fig 7: the first layer's attention while encoders are trained with SGD", panels, horizontal_spacing=0.1
    )
    cells = [(d, r) for d in data["depth"].values.tolist() for r in data["rate"].values.tolist()]
    for color, (depth, rate) in enumerate(cells):
        for panel, name in enumerate(("entropy", "movement")):
            mean = data[name].sel(depth=depth, rate=rate).mean("seed")
            words = f"{depth} layer{'s' * (depth > 1)}, rate {rate:g}"
            line = prediction_line(data["step"], mean, words, color, showlegend=panel == 0)
            figure.add_trace(line, **panel_place(panel))
    figure.update_xaxes(title="step")
    figure.update_yaxes(title="nats", rangemode="tozero", **panel_place(0))
    figure.update_yaxes(rangemode="tozero", **panel_place(1))
    return figure.update_layout(height=460, legend={"orientation": "h", "y": -0.25, "yanchor": "top"})


def fig10(data: xr.Dataset) -> go.Figure:
    """Entropy after training against the rate, with the spread over seeds."""
    figure = new_figure("Fig 10: entropy of attention after training with SGD", x="learning rate", y="nats", log_x=True)
    for color, text in enumerate(data["text"].values.tolist()):
        end = data["entropy"].sel(text=text).isel(step=-1)
        marks = measurement_marks(data["rate"], end.mean("seed"), f"{text} text", color, error=end.std("seed"))
        figure.add_trace(marks)
    start = data["entropy"].isel(step=0).mean(["seed", "text"])
    figure.add_trace(prediction_line(data["rate"], start, "before training", CONTROL))
    return figure.update_xaxes(**log_ticks(data["rate"].values)).update_yaxes(rangemode="tozero")


FIGURES = {"fig7": fig7, "fig10": fig10}
