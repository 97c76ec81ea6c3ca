"""The style of every figure: one template and palette; predictions are lines, measurements markers, intervals bands.

Where a figure has one prediction and one measurement, colour says which is which: PREDICTION, MEASUREMENT, CONTROL.
Where it has several pairs, each pair has a colour of the palette, and line or marker says which is which.
"""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.colors import hex_to_rgb, unlabel_rgb
from plotly.subplots import make_subplots

from foretrain.core.errors import visible

# Okabe and Ito's palette: colour-blind people can tell its colours apart, and so can readers of a printout.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
INK, GRID = "#1b1f24", "#e4e7eb"
PREDICTION, MEASUREMENT = PALETTE[0], PALETTE[1]
CONTROL = "#666b73"  # controls, bounds and "equal": what the eye compares with
LOG = "log scale"  # what a logarithmic axis is marked with
GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eta": "η", "theta": "θ", "lambda": "λ", "mu": "μ",
    "xi": "ξ", "rho": "ρ", "sigma": "σ", "tau": "τ", "omega": "ω",
}  # fmt: skip
_GREEK_NAME = re.compile(rf"\b({'|'.join(GREEK)})(?:_([a-z0-9]))?\b")
_POWER = re.compile(r"\^(?:[({]([^(){}]+)[)}]|([−-]?[\w.]+))")
_SUBSCRIPT = re.compile(r"(?<![A-Za-z])([A-Za-zΑ-Ωα-ω])_(?:\{([^{}]+)\}|([A-Za-z0-9]+))")

NUMBERS = {"exponentformat": "power", "minexponent": 4, "separatethousands": True}  # not 20k or 50µ
TEMPLATE = go.layout.Template(
    layout=go.Layout(
        font={"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 14, "color": INK},
        title={"x": 0.0, "xanchor": "left", "xref": "paper", "font": {"size": 17}},
        colorway=PALETTE,
        paper_bgcolor="white",
        plot_bgcolor="white",
        margin={"l": 64, "r": 24, "t": 72, "b": 56},
        hovermode="closest",
        legend={
            "orientation": "v",
            "bgcolor": "rgba(255,255,255,.7)",
            "tracegroupgap": 2,
            "title": {"font": {"size": 14}},
        },
        xaxis={
            "gridcolor": GRID,
            "linecolor": INK,
            "ticks": "outside",
            "zeroline": False,
            "automargin": True,
            "title": {"font": {"size": 14}},
            **NUMBERS,
        },
        yaxis={
            "gridcolor": GRID,
            "linecolor": INK,
            "ticks": "outside",
            "zeroline": False,
            "automargin": True,
            "title": {"standoff": 10, "font": {"size": 14}},
            **NUMBERS,
        },
    )
)


def new_figure(title: str, *, x: str, y: str, log_x: bool = False, log_y: bool = False) -> go.Figure:
    """An empty figure with axis titles."""
    axes = {
        axis: {"title": {"text": log_title(axis_title) if log else axis_title}, "type": "log" if log else "linear"}
        for axis, axis_title, log in (("xaxis", x, log_x), ("yaxis", y, log_y))
    }
    return go.Figure(layout={"template": TEMPLATE, "title": {"text": title}, **axes})


def new_panels(title: str, panels: Sequence[str], *, columns: int = 2, **kwargs: Any) -> go.Figure:
    """An empty figure with several titled panels, row by row; panel k is at `panel_place(k, columns)`."""
    rows = -(-len(panels) // columns)
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=list(panels), **kwargs)
    figure.update_layout(template=TEMPLATE, title=title, height=max(420, 340 * rows))
    return figure.update_annotations(font_size=14)


def log_title(words: str) -> str:
    """An axis title that says that the axis is logarithmic."""
    if not words or re.search(r"\blog\b", words):
        return words
    return f"{words[:-1]}, {LOG})" if words.endswith(")") else f"{words} ({LOG})"


def typeset(words: str) -> str:
    """Names of Greek letters, subscripts and powers as Plotly draws them: eta_z and η_Z become η<sub>Z</sub>."""
    words = _GREEK_NAME.sub(lambda m: GREEK[m[1]] + (f"_{m[2].upper()}" if m[2] else ""), words)
    words = _POWER.sub(lambda m: f"<sup>{(m[1] or m[2]).replace('-', '−')}</sup>", words)
    return _SUBSCRIPT.sub(lambda m: f"{m[1]}<sub>{m[2] or m[3]}</sub>", words)


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


def band(x: Any, low: Any, high: Any, color: int | str = 0, **kwargs: Any) -> go.Scatter:
    """An interval around a curve, drawn as a pale band below it."""
    points = [point for point in zip(_list(x), _list(low), _list(high), strict=True) if np.isfinite(point[1:]).all()]
    along, bottom, top = [list(values) for values in zip(*points, strict=True)] or [[], [], []]
    return go.Scatter(
        x=along + along[::-1],
        y=top + bottom[::-1],
        mode="lines",
        fill="toself",
        fillcolor=_pale(_color(color)),
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
        **kwargs,
    )


def label_ends(figure: go.Figure, *, apart: float = 0.07) -> go.Figure:
    """Name lines where they end, in their colour, instead of in a legend. If two ends are too near, the legend stays.

    `apart` is the least distance of two ends as a share of the height. Only for one panel with a linear y axis, and for
    lines that all end at the right.
    """
    lines = [trace for trace in figure.data if trace.mode == "lines" and trace.name and trace.showlegend is not False]
    values = np.concatenate([np.asarray(trace.y, dtype=float) for trace in lines]) if lines else np.zeros(1)
    ends = sorted(float(trace.y[-1]) for trace in lines)
    height = np.nanmax(values) - np.nanmin(values)
    at_the_right = len({float(trace.x[-1]) for trace in lines}) == 1
    if not at_the_right or not np.isfinite(ends).all() or (np.diff(ends) < apart * height).any():
        return figure
    for trace in lines:
        words = {"text": trace.name, "font": {"color": trace.line.color, "size": 13}}
        place = {"x": 1, "xref": "paper", "y": trace.y[-1], "xanchor": "left", "xshift": 4}
        figure.add_annotation(showarrow=False, align="left", **place, **words)
        trace.showlegend = False
    longest = max(len(re.sub(r"<[^<>]*>", "", trace.name)) for trace in lines)
    return figure.update_layout(margin_r=24 + 7 * longest)


def _pale(color: str) -> str:
    """A colour of three numbers, almost transparent."""
    numbers = hex_to_rgb(color) if color.startswith("#") else unlabel_rgb(color)
    return f"rgba({','.join(f'{number:g}' for number in numbers)},.15)"


def _color(color: int | str) -> str:
    return PALETTE[color % len(PALETTE)] if isinstance(color, int) else color


def _list(values: Any) -> list[Any]:
    """A plain list, which every version of Plotly writes to HTML and JSON in the same way."""
    return np.asarray(values).tolist()
