"""The forecast of a fine-tuning as a figure, a page, and in a notebook."""

from __future__ import annotations

import plotly.graph_objects as go
import xarray as xr

from foretrain.forecast.finetuning.words import ShownForecast, score_words, setting_words, table_rows, trust_words
from foretrain.show import pages
from foretrain.show.pages import FIT, figure_html, own_file, render
from foretrain.show.plotting import band, measurement_marks, new_panels, panel_place, prediction_line

PANELS = {"accuracy": "accuracy", "loss": "loss (nats)"}


def learning_curves(data: xr.Dataset) -> go.Figure:
    """Accuracy and loss along training, on training and test rows: lines are forecasts, marks a real training."""
    figure = new_panels("", list(PANELS.values()), columns=2)
    steps = data["step"].values
    for panel, name in enumerate(PANELS):
        for color, part in enumerate(data["part"].values.tolist()):
            curve = data[name].sel(part=part)
            first = panel == 0
            low, high = curve.min("order").values, curve.max("order").values
            figure.add_trace(band(steps, low, high, color), **panel_place(panel))
            line = prediction_line(steps, curve.mean("order"), f"{part}, forecast", color, showlegend=first)
            figure.add_trace(line, **panel_place(panel))
            if f"real_{name}" in data:
                real = data[f"real_{name}"].sel(part=part)
                marks = measurement_marks(steps, real, f"{part}, real training", color, showlegend=first)
                figure.add_trace(marks, **panel_place(panel))
    return figure.update_xaxes(title="step")


def page(forecast: ShownForecast) -> str:
    """A page of its own."""
    return render(
        "finetune.html",
        title="Forecast of fine-tuning",
        summary=forecast.summary,
        trust=trust_words(forecast),
        score=score_words(forecast),
        table=table_rows(forecast.table),
        setting=setting_words(forecast),
        figure=figure_html(learning_curves(forecast.dataset), post_script=own_file("narrow.js") + FIT),
    )


def fragment(forecast: ShownForecast) -> str:
    """For a notebook: the answer, how far to trust it, and the table."""
    words = (forecast.summary, trust_words(forecast))
    return pages.fragment(words, ("", "accuracy", "test loss"), table_rows(forecast.table))
