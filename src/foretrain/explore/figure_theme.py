"""How figures look on the page: in light or dark, on a wide screen or a phone."""

from __future__ import annotations

import copy
import html
import re
import textwrap
from typing import Any

import plotly.graph_objects as go

from foretrain.show.finishing import mark_log_axes
from foretrain.show.plotting import CONTROL, GRID, INK

# On a dark ground, the palette's black turns white and its darkest colours are raised; all stay apart for colour-blind
# people, because lightness differs as well as hue.
DARK = {
    "#0072B2": "#4aa3df", "#D55E00": "#f08a4b", "#009E73": "#3cc79b", "#000000": "#f0f3f6", "#999999": "#a9b1ba",
    CONTROL: "#a9b1ba",
    INK: "#e3e7eb", GRID: "#333b44", "white": "#15191e", "rgba(255,255,255,.7)": "rgba(21,25,30,.7)",
}  # fmt: skip
BELOW: dict[str, Any] = {  # a legend below the figure, with room for two rows
    "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yanchor": "bottom", "yref": "container"},
    "margin": {"b": 104},
}
CONFIG: Any = {"displaylogo": False, "displayModeBar": False, "responsive": True, "scrollZoom": False}
AXIS = re.compile(r"[xy]axis\d*")
PANEL = 330  # pixels of height that each of several panels has on a phone


def caption(figure: go.Figure) -> str:
    """The title of a figure as plain text: the page shows it above, where it wraps."""
    text = str(figure.layout.title.text or "").replace("<br>", " ")
    text = re.sub(r"<sub>(.*?)</sub>", r"_{\1}", re.sub(r"<sup>(.*?)</sup>", r"^{\1}", text))
    return html.unescape(re.sub(r"<[^<>]*>", "", text))


def fitted(figure: go.Figure, *, dark: bool = False, narrow: bool = False) -> dict[str, Any]:
    """The figure for the page, as plain data, without its title.

    Plain data are changed, not figures: those check every property that is set, which takes longer than drawing.
    """
    drawn: dict[str, Any] = copy.deepcopy(figure.to_plotly_json())
    layout, panels = drawn["layout"], _panels(drawn["layout"])
    layout["title"] = {"text": ""}
    mark_log_axes(drawn)
    _put(layout, "margin", t=44 if layout.get("sliders") else 40 if len(panels) > 1 else 20)
    if narrow:
        _stack(drawn, panels)
    columns = 1 if narrow else max(1, len({tuple(x["domain"]) for x, _ in panels}))
    _wrap_axis_titles(layout, (34 if narrow else 90) // columns)
    return _recoloured(drawn) if dark else drawn


def _put(layout: dict[str, Any], name: str, **values: Any) -> None:
    layout[name] = {**layout.get(name, {}), **values}


def _wrap_axis_titles(layout: dict[str, Any], width: int) -> None:
    for axis in (value for key, value in layout.items() if AXIS.fullmatch(key)):
        text = (axis.get("title") or {}).get("text") or ""
        if len(text) > width and "<" not in text:
            axis["title"] = {**axis["title"], "text": "<br>".join(textwrap.wrap(text, width))}


def _stack(drawn: dict[str, Any], panels: list[tuple[Any, Any]]) -> None:
    """Put panels below each other, and legends below everything."""
    layout = drawn["layout"]
    notes = [
        note for note in layout.get("annotations", ()) if (note.get("xref"), note.get("yref")) == ("paper", "paper")
    ]
    _put(layout, "font", size=12)
    _put(layout, "margin", l=52, r=10, b=48)
    names = sum(trace.get("showlegend") is not False and bool(trace.get("name")) for trace in drawn["data"])
    height = layout.get("height", 400)
    if layout.get("sliders"):
        _put(layout, "margin", t=20 + 20 * names, b=110)
        layout["height"] = height + 20 * names
    elif names and layout.get("showlegend") is not False:
        _put(layout, "margin", b=64 + 19 * names)
        for legend in [key for key in layout if key.startswith("legend")] or ["legend"]:
            _put(layout, legend, **BELOW["legend"])
    if len(panels) > 1:
        gap = 0.4 / len(panels)  # for ticks and title of one panel, and the name of the next
        size = (1 - gap * (len(panels) - 1)) / len(panels)
        for number, (x, y) in enumerate(panels):
            top = 1 - number * (size + gap)
            for note in notes:
                if abs(note["x"] - sum(x["domain"]) / 2) < 0.02 and abs(note["y"] - y["domain"][1]) < 0.02:
                    note.update(x=0.5, y=top, font={"size": 12})
                    notes.remove(note)
                    break
            x.update(domain=[0, 1], showticklabels=True)
            y.update(domain=[max(top - size, 0), top], showticklabels=True)
        layout["height"] = PANEL * len(panels) + 60 + 19 * names
    elif names and not layout.get("sliders"):
        layout["height"] = height + 12 * names


def _panels(layout: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Pairs of axes, from the top left on; none if an axis has no place of its own."""
    axes = [value for key, value in layout.items() if key.startswith("xaxis") and value.get("domain")]
    pairs = [(axis, layout.get(f"yaxis{axis.get('anchor', 'y')[1:]}", {})) for axis in axes]
    pairs = [(x, y) for x, y in pairs if y.get("domain")]
    return sorted(pairs, key=lambda pair: (-pair[1]["domain"][1], pair[0]["domain"][0]))


def _recoloured(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _recoloured(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_recoloured(item) for item in value]
    return DARK.get(value, value) if isinstance(value, str) else value
