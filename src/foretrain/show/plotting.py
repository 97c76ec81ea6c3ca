"""The style of every figure: one template, one palette, predictions as lines and measurements as markers."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from foretrain.core.errors import visible

# Okabe and Ito's palette: colour-blind people can tell its colours apart, and so can readers of a printout.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
INK, GRID = "#1b1f24", "#e4e7eb"

TEMPLATE = go.layout.Template(
    layout=go.Layout(
        font={"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 14, "color": INK},
        title={"x": 0.0, "xanchor": "left", "xref": "paper", "font": {"size": 17}},
        colorway=PALETTE,
        paper_bgcolor="white",
        plot_bgcolor="white",
        margin={"l": 64, "r": 24, "t": 72, "b": 56},
        hovermode="closest",
        legend={"orientation": "v", "bgcolor": "rgba(255,255,255,.7)", "tracegroupgap": 2},
        xaxis={"gridcolor": GRID, "linecolor": INK, "ticks": "outside", "zeroline": False, "automargin": True},
        yaxis={
            "gridcolor": GRID,
            "linecolor": INK,
            "ticks": "outside",
            "zeroline": False,
            "automargin": True,
            "title": {"standoff": 10},
        },
    )
)


def new_figure(title: str, *, x: str, y: str, log_x: bool = False, log_y: bool = False) -> go.Figure:
    """An empty figure with axis titles."""
    axes = {
        axis: {"title": {"text": axis_title}, "type": "log" if log else "linear"}
        for axis, axis_title, log in (("xaxis", x, log_x), ("yaxis", y, log_y))
    }
    return go.Figure(layout={"template": TEMPLATE, "title": {"text": title}, **axes})


def new_panels(title: str, panels: Sequence[str], *, columns: int = 2, **kwargs: Any) -> go.Figure:
    """An empty figure with several titled panels, row by row; panel k is at `panel_place(k, columns)`."""
    rows = -(-len(panels) // columns)
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=list(panels), **kwargs)
    figure.update_layout(template=TEMPLATE, title=title, height=max(420, 340 * rows))
    return figure


def add_subtitle(figure: go.Figure, words: str) -> None:
    """Add smaller text below the title, and make room for it."""
    lines = textwrap.wrap(words, 120)
    title = {"subtitle": {"text": "<br>".join(lines), "font": {"size": 13}}, "yanchor": "top", "y": 1, "pad": {"t": 16}}
    figure.update_layout(title=title, margin={"t": 80 + 17 * len(lines)})


def plain_text(value: object) -> str:
    """Text that Plotly shows literally. Plotly interprets tags and entities, so <, > and & are escaped; quotation marks
    are not, because Plotly does not know their entity."""
    return html.escape(visible(str(value)), quote=False)


def panel_place(index: int, columns: int = 2) -> dict[str, int]:
    """Row and column of a panel, as arguments for `add_trace`."""
    return {"row": index // columns + 1, "col": index % columns + 1}


def log_ticks(values: Any) -> dict[str, Any]:
    """Ticks of a logarithmic axis: 1, 2 and 5 in every decade; over many decades, powers of ten; within one, a few."""
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    decades = np.log10(numbers.max() / numbers.min()) if numbers.size else 0.0
    if decades < 0.7:
        return {"nticks": 6}
    if decades > 3:
        return power_ticks(numbers)
    ticks = [float(f"{first}e{power}") for power in _powers(numbers) for first in (1, 2, 5)]
    return {"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def power_ticks(values: Any) -> dict[str, Any]:
    """A tick at every power of ten, in the same font size as other numbers (Plotly's own are larger)."""
    short = {0: "1", 1: "10"}
    texts = {power: short.get(power, f"10<sup>{power}</sup>".replace("-", "−")) for power in _powers(values)}
    return {"tickvals": [10.0**power for power in texts], "ticktext": list(texts.values())}


def _powers(values: Any) -> range:
    """The powers of ten around positive numbers, and one more below, because error bars reach further down."""
    return range(math.floor(np.log10(np.min(values))) - 1, math.ceil(np.log10(np.max(values))) + 1)


def prediction_line(x: Any, y: Any, name: str, color: int | str = 0, **kwargs: Any) -> go.Scatter:
    """A prediction, drawn as a line."""
    return go.Scatter(x=_list(x), y=_list(y), name=name, mode="lines", line={"color": _color(color)}, **kwargs)


def measurement_marks(x: Any, y: Any, name: str, color: int | str = 1, error: Any = None, **kwargs: Any) -> go.Scatter:
    """A measurement, drawn as markers, with error bars if `error` is given."""
    bars = {"type": "data", "array": _list(error), "thickness": 1} if error is not None else None
    marker = {"color": _color(color), "size": 6}
    return go.Scatter(x=_list(x), y=_list(y), name=name, mode="markers", marker=marker, error_y=bars, **kwargs)


def _color(color: int | str) -> str:
    return PALETTE[color % len(PALETTE)] if isinstance(color, int) else color


def _list(values: Any) -> list[Any]:
    """A plain list, which every version of Plotly writes to HTML and JSON in the same way."""
    return np.asarray(values).tolist()
