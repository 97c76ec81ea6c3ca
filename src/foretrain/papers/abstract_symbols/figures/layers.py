"""Figures of what single parts of a transformer can learn: its last layer, a skip connection, b·I."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.show.plotting import PALETTE, measurement_marks, new_figure, power_ticks


def last_layer(run: xr.Dataset) -> go.Figure:
    """How far the outputs are from eq. 5, over time."""
    figure = new_figure(
        "The last layer, trained by gradient descent, ends at kernel ridge regression",
        x="time of training, in units of 1/λ",
        y="distance from eq. 5 on unseen strings",
        log_y=True,
    )
    distance = abs(run.output - run.eq5).max("string").clip(min=1e-16)
    for color, seed in enumerate(run.seed.values.tolist()):
        marks = measurement_marks(run.time, distance.sel(seed=seed), f"network {seed}", color)
        figure.add_trace(marks.update(mode="lines+markers"))
    figure.update_yaxes(**power_ticks(distance))
    return figure


def skip_connections(run: xr.Dataset) -> go.Figure:
    """Loss on unseen symbols, by what is trained and where the answer is read."""
    figure = new_figure(
        "Copying a symbol that training never shows",
        x="the answer is read at",
        y="loss on unseen symbols, of a guess's",
    )
    seeds = run.sizes["seed"]
    for color, added in enumerate(run.added.values.tolist()):
        loss = run.test_loss.sel(added=added)
        error = loss.std("seed", ddof=1) / np.sqrt(seeds) if seeds > 1 else None
        marks = measurement_marks(run.read_at, loss.mean("seed"), f"{added} trained", color, error, offsetgroup=added)
        figure.add_trace(marks.update(marker={"size": 10}))
    figure.add_hline(y=1, line={"color": PALETTE[7], "width": 1, "dash": "dot"})
    figure.update_layout(scattermode="group", showlegend=True)
    figure.update_xaxes(type="category")
    figure.update_yaxes(rangemode="tozero")
    return figure


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {"last_layer": last_layer, "skip_connections": skip_connections}
