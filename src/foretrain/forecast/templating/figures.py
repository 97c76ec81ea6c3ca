"""The forecast of a template task as a figure, as a page, and in a notebook."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.forecast.templating.words import samples_words
from foretrain.show import pages
from foretrain.show.pages import FIT, figure_html, own_file, render
from foretrain.show.plotting import (
    PALETTE,
    band,
    measurement_marks,
    new_figure,
    plain_text,
    power_ticks,
    prediction_line,
)


@runtime_checkable
class ShownTask(Protocol):
    """What a page and a notebook show of a forecast."""

    @property
    def dataset(self) -> xr.Dataset: ...
    @property
    def summary(self) -> str: ...
    @property
    def trust(self) -> str: ...
    @property
    def table(self) -> pd.DataFrame: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    def rows(self) -> list[tuple[str, ...]]: ...
    def figure(self) -> go.Figure: ...


def forecast_figure(forecast: xr.Dataset) -> go.Figure:
    """Error on unseen symbols against training samples: a line and a band per architecture.

    Marks are kernel regression on samples ("simulated"), or networks that were trained (medians over seeds).
    """
    config = config_of(forecast)
    copying = (forecast.tells_apart & ~forecast.learnable).any()
    figure = new_figure(
        f"Forecast on unseen symbols: {plain_text(config['task'])}",
        x="training samples",
        y=f"squared error{' of telling answers apart' * bool(copying)}, share of a constant guess",
        log_x=True,
        log_y=True,
    )
    n = forecast.n.values.tolist()
    for color, name in enumerate(forecast.architecture.values.tolist()):
        one = forecast.sel(architecture=name)
        figure.add_trace(band(n, one.error_low, one.error_high, color))
        words = samples_words(one)
        words = words if words == "never" else f"{words} samples" if words[-1].isdigit() else words
        figure.add_trace(prediction_line(n, one.error, f"{name}: {words}", color))
        if "simulated" in forecast:
            mean, spread = one.simulated.mean("seed"), one.simulated.std("seed")
            figure.add_trace(measurement_marks(n, mean, f"{name}, simulated", color, spread, showlegend=False))
        if "trained" in forecast:
            median = one.trained.median("trained_seed")
            ran = median.notnull() & np.isfinite(median)
            marks = measurement_marks(
                median.trained_n.values[ran], median.values[ran], f"{name}, trained", color, showlegend=False
            )
            figure.add_trace(marks.update(marker={"symbol": "diamond", "size": 9}))
    wanted = prediction_line([n[0], n[-1]], [config["error"]] * 2, f"wanted: {config['error']:g}", PALETTE[7])
    wanted.update(line={"dash": "dash"})
    figure.add_trace(wanted)
    figure.update_xaxes(**power_ticks(n))
    errors = forecast.error.values[forecast.error.values > 0]
    figure.update_yaxes(**power_ticks([config["error"], *errors]))
    return figure


def page(forecast: ShownTask) -> str:
    """A page of its own: the answer, how far to trust it, the table, the curves, the reasons."""
    config = config_of(forecast.dataset)
    return render(
        "templates.html",
        title=f"Forecast: {config['task']}",
        forecast=forecast,
        templates=list(zip(config["templates"], config["labels"], strict=True)),
        error=config["error"],
        reasons=[(name, row["why"]) for name, row in forecast.table.iterrows()],
        notes=config["notes"],
        figure=figure_html(forecast.figure(), post_script=own_file("narrow.js") + FIT),
    )


def fragment(forecast: ShownTask) -> str:
    """For a notebook: the answer, how far to trust it, and the table."""
    return pages.fragment((forecast.summary, f"Trust: {forecast.trust}"), forecast.columns, forecast.rows())
