"""A Plotly figure as JSON, small enough for a hundred figures in one page."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
from markupsafe import Markup

from foretrain.show.finishing import decoded, fit_titles, mark_log_axes

POINTS = 1500  # per trace; more than a figure has columns of pixels
DIGITS = 6  # significant digits; a figure shows four


def keep(x: Any, count: int, *, log: bool = False) -> np.ndarray:
    """Indices of the points to keep: first and last, and evenly spaced ones in between (in decades if `log`)."""
    size = len(x)
    if size <= count:
        return np.arange(size)
    if not log:
        return np.unique(np.linspace(0, size - 1, count).round().astype(int))
    x = np.asarray(x, dtype=float)
    wanted = np.geomspace(x.min(), x.max(), count)
    rising = np.argsort(x, kind="stable")
    places = np.minimum(np.searchsorted(x[rising], wanted), size - 1)
    return np.sort(np.unique(np.concatenate([rising[places], [0, size - 1]])))


def compact(figure: go.Figure, points: int = POINTS) -> Markup:
    """The figure's traces and layout as JSON for a <script> of a page."""
    parts = decoded(figure.to_plotly_json())
    mark_log_axes(parts)
    fit_titles(parts["layout"])
    layout = {
        key: value for key, value in parts["layout"].items() if key != "template"
    }  # the page has the template once
    log = (layout.get("xaxis") or {}).get("type") == "log"
    traces = [_thin(trace, points, log) for trace in parts["data"]]
    return for_script({"data": traces, "layout": layout})


def for_script(value: Any) -> Markup:
    """JSON that is safe inside a <script>: it contains no < that could begin a tag."""
    text = json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _thin(trace: dict[str, Any], points: int, log: bool) -> dict[str, Any]:
    """The trace with at most about `points` points."""
    x = trace.get("x") if trace.get("x") is not None else trace.get("y")
    if trace.get("type", "scatter") not in ("scatter", "scattergl", "bar") or x is None or len(x) <= points:
        return trace
    numbers = np.asarray(x)
    positive = log and numbers.dtype.kind in "fiu" and bool((numbers > 0).all())
    chosen = keep(x, points, log=positive)

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cut(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple | np.ndarray) and len(value) == len(x):
            return [value[i] for i in chosen]
        return value

    return {key: cut(value) for key, value in trace.items()}


def _plain(value: Any) -> Any:
    """The same value with plain lists and rounded numbers; numbers that are not finite become null, a gap."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str) or value is None else str(value)
