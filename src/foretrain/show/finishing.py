"""What every figure gets before it is shown: log axes that say so, with readable ticks, and titles that fit.

Works on plain data, as Plotly writes them: a `go.Figure` checks every property that is set, which takes longer than
drawing.
"""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go

from foretrain.show.plotting import log_ticks, log_title, power_ticks

WIDTH, HEIGHT = 1000, 650  # pixels of a figure that has no size of its own
LETTER = 7.6  # pixels of an average letter in 14 px type
TITLE_LETTER, TITLE_LINE = 8.6, 22  # the same in the title's 17 px, and the height of its lines
PANEL_LINE = 18
AXIS = re.compile(r"([xy])axis(\d*)")
OWN_TICKS = ("tickvals", "dtick", "nticks", "ticktext")


def finished(figure: go.Figure, *, width: float = WIDTH) -> go.Figure:
    """A copy of the figure, ready to be shown at this width."""
    drawn: dict[str, Any] = decoded(figure.to_plotly_json())
    mark_log_axes(drawn)
    fit_titles(drawn["layout"], width=width)
    return go.Figure(drawn)


def decoded(value: Any) -> Any:
    """A copy of a figure's plain data, with numpy arrays instead of Plotly's base64."""
    if isinstance(value, dict):
        if "bdata" in value and "dtype" in value:
            flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
            shape = [int(size) for size in str(value.get("shape", flat.size)).split(",")]
            return flat.reshape(shape)
        return {key: decoded(inner) for key, inner in value.items()}
    return [decoded(inner) for inner in value] if isinstance(value, list | tuple) else value


def mark_log_axes(drawn: dict[str, Any]) -> None:
    """Say in the title of each logarithmic axis that it is one, and give it readable ticks unless it has its own."""
    layout = drawn["layout"]
    for key, axis in layout.items():
        match = AXIS.fullmatch(key)
        if match is None or axis.get("type") != "log":
            continue
        title = axis.get("title") or {}
        if title.get("text"):
            axis["title"] = {**title, "text": log_title(title["text"])}
        ticks = {name: axis[name] for name in OWN_TICKS if axis.get(name) is not None}
        if ticks in ({}, {"dtick": 1}):  # Plotly writes powers of ten larger than other numbers
            axis.update(_ticks(drawn["data"], match[1], match[2], powers=bool(ticks)))


def _ticks(traces: list[dict[str, Any]], letter: str, number: str, *, powers: bool) -> dict[str, Any]:
    values_drawn = [trace.get(letter) for trace in traces if trace.get(f"{letter}axis", letter) == letter + number]
    numbers = [np.ravel(values) for values in values_drawn if isinstance(values, list | tuple | np.ndarray)]
    kept = [values[values > 0] for values in numbers if values.dtype.kind in "fiu"]
    positive = np.concatenate([values[np.isfinite(values)] for values in kept]) if kept else np.zeros(0)
    if powers:
        return power_ticks(positive) if positive.size else {}
    return log_ticks(positive)


def fit_titles(layout: dict[str, Any], *, width: float = WIDTH) -> None:
    """Break titles of the figure, of its panels and of its axes into lines that fit, and make room for them."""
    margin = layout.get("margin") or {}
    inner = width - (margin.get("l") or 64) - (margin.get("r") or 24)
    height = (layout.get("height") or HEIGHT) - (margin.get("t") or 72) - (margin.get("b") or 56)
    title = layout.get("title") or {}
    more = 0.0
    if title.get("text"):
        title["text"], lines = broken(title["text"], inner / TITLE_LETTER)
        more += TITLE_LINE * (lines - 1 - str(title["text"]).count("<br><sup>"))
    domains = {"x": [0, 1], "y": [0, 1]}
    panels = []
    for key, axis in layout.items():
        if match := AXIS.fullmatch(key):
            first, last = axis.get("domain") or domains[match[1]]
            room = (last - first) * (inner if match[1] == "x" else height)
            axis_title = axis.get("title") or {}
            if axis_title.get("text"):
                axis["title"] = {**axis_title, "text": broken(axis_title["text"], room / LETTER)[0]}
            if match[1] == "x":
                panels.append((first, last))
    lines = 1
    for note in layout.get("annotations") or ():
        if (note.get("xref"), note.get("yref"), note.get("yanchor")) != ("paper", "paper", "bottom"):
            continue
        room = [last - first for first, last in panels if abs((first + last) / 2 - (note.get("x") or 0)) < 0.01]
        if room and note.get("text"):
            note["text"], own_lines = broken(note["text"], max(room) * inner / LETTER)
            lines = max(lines, own_lines)
    more += PANEL_LINE * (lines - 1)
    if more > 0:
        layout["margin"] = {**margin, "t": (margin.get("t") or 72) + more}
        if layout.get("height"):
            layout["height"] += more


def broken(text: str, letters: float) -> tuple[str, int]:
    """The text in lines of at most so many letters, and their number. Tags count as nothing and are not broken."""
    lines = [line for part in text.split("<br>") for line in _lines(part, letters)]
    return "<br>".join(lines), len(lines)


def _lines(text: str, letters: float) -> list[str]:
    if _seen(text) <= letters or re.search(r"<\w+ ", text):
        return [text]
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and _seen(longer) > letters:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _seen(text: str) -> int:
    return len(re.sub(r"<[^<>]*>", "", text))
