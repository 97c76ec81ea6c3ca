"""A figure as a file: HTML that opens offline, or a picture where there is a browser to draw it."""

from __future__ import annotations

import html
from importlib import resources

import plotly.graph_objects as go

from foretrain.core.errors import InputError

# No button that sends the data away, and none that these figures have no use for.
CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
}


# Once it is drawn: on a narrow screen it is drawn again, to fit.
FIT = """
const drawn = document.getElementById("{plot_id}");
if (isNarrow()) {
  fitNarrow(drawn.layout, drawn.data);
  Plotly.react(drawn, drawn.data, drawn.layout, { responsive: true, displayModeBar: false });
}
"""


def report_file(name: str) -> str:
    """A file of the page that stands beside this one."""
    return (resources.files("foretrain.show.report") / name).read_text(encoding="utf-8")


def as_html(figure: go.Figure, title: str) -> str:
    """A whole page with one interactive figure; asks nothing of the network."""
    script = report_file("narrow.js") + FIT
    drawn = figure.to_html(full_html=False, include_plotlyjs=True, config=CONFIG, post_script=script)
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
