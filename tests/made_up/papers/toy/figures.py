"""Figures of the made-up paper."""

from __future__ import annotations

from collections.abc import Callable

import plotly.graph_objects as go
import xarray as xr

from foretrain.show.plotting import measurement_marks, new_figure


def noise(dataset: xr.Dataset) -> go.Figure:
    figure = new_figure("Noise", x="step", y="level")
    figure.add_trace(measurement_marks(dataset.time, dataset.level.mean(("eta_z", "seed")), "mean"))
    return figure


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {"noise": noise, "diverges": lambda dataset: go.Figure()}
