"""A figure as a file: HTML that opens offline, or a picture where there is a browser to draw it."""

from __future__ import annotations

import html

import plotly.graph_objects as go

from foretrain.errors import InputError

# No button that sends the data away, and none that these figures have no use for.
CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
}


def as_html(figure: go.Figure, title: str) -> str:
    """A whole page with one interactive figure; asks nothing of the network."""
    drawn = figure.to_html(full_html=False, include_plotlyjs=True, config=CONFIG)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    return f"<!doctype html><html><head>{head}<title>{html.escape(title)}</title></head><body>{drawn}</body></html>\n"


def as_image(figure: go.Figure, ending: str) -> bytes:
    """PNG or SVG."""
    try:
        return figure.to_image(format=ending.removeprefix("."), width=1000, height=figure.layout.height or 650, scale=2)
    except Exception as error:  # no browser, or one that does not start: the ways are many, the way out is one
        raise InputError(
            f"{ending} figures need Chrome or Chromium ({type(error).__name__}); install it, or write an .html file."
        ) from error
