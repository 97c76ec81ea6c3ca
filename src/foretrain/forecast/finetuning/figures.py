"""The forecast of a fine-tuning as a figure, a page, and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go
import xarray as xr

from foretrain.show.pages import figure_html, render
from foretrain.show.plotting import measurement_marks, new_panels, panel_place, prediction_line

PANELS = {"accuracy": "accuracy", "loss": "loss (nats)"}


def learning_curves(data: xr.Dataset) -> go.Figure:
    """Accuracy and loss along training, on training and test rows: lines are forecasts, marks a real training."""
    figure = new_panels("", list(PANELS.values()), columns=2)
    for panel, name in enumerate(PANELS):
        for color, part in enumerate(data["part"].values.tolist()):
            own = data[name].sel(part=part)
            first = panel == 0
            low, high, steps = own.min("order").values, own.max("order").values, data["step"].values
            figure.add_scatter(
                x=[*steps, *steps[::-1]], y=[*high, *low[::-1]], fill="toself", mode="lines", line={"width": 0},
                fillcolor=f"rgba({'0,114,178' if color == 0 else '213,94,0'},.15)", hoverinfo="skip",
                showlegend=False, **panel_place(panel),
            )  # fmt: skip
            line = prediction_line(steps, own.mean("order"), f"{part}, forecast", color, showlegend=first)
            figure.add_trace(line, **panel_place(panel))
            if f"real_{name}" in data:
                real = data[f"real_{name}"].sel(part=part).isel(order=0)
                marks = measurement_marks(steps, real, f"{part}, real training", color, showlegend=first)
                figure.add_trace(marks, **panel_place(panel))
    return figure.update_xaxes(title="step")


def page(
    summary: str, trust: str, table: Sequence[tuple[str, str, str]], setting: Mapping[str, Any], data: xr.Dataset
) -> str:
    """A page of its own."""
    return render(
        "finetune.html",
        title="Forecast of fine-tuning",
        summary=summary,
        trust=trust,
        table=table,
        setting=setting,
        figure=figure_html(learning_curves(data)),
    )


def fragment(summary: str, trust: str, table: Sequence[tuple[str, str, str]]) -> str:
    """For a notebook: the answer and the table."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{accuracy}</td><td>{loss}</td></tr>" for name, accuracy, loss in table
    )
    head = "<tr><th></th><th>accuracy</th><th>test loss</th></tr>"
    return f"<p>{escape(summary)}</p><p>Trust: {escape(trust)}</p><table>{head}{rows}</table>"
