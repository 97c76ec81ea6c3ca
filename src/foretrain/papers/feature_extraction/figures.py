"""One Plotly figure per experiment."""

from __future__ import annotations

from collections.abc import Callable

import plotly.graph_objects as go
import xarray as xr

FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {}
