"""HTML pages that open offline, made from templates that escape every value; and images of figures.

A page loads nothing from the network: everything is inside it, and its content policy forbids the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from foretrain.core.errors import InputError, visible
from foretrain.core.files import write_bytes
from foretrain.show.finishing import HEIGHT, WIDTH, finished
from foretrain.show.formulas import typeset
from foretrain.show.prose import prose

# No button that uploads the data, and none that is useless for these figures.
CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
}
# Only what stands in the page itself: no requests, no forms that are sent, no other base for links.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
TEMPLATES = "show/templates"

# Runs after the figure is drawn; on a narrow screen, it draws the figure again so that it fits.
FIT = Markup("""
const drawn = document.getElementById("{plot_id}");
if (isNarrow()) {
  fitNarrow(drawn.layout, drawn.data);
  Plotly.react(drawn, drawn.data, drawn.layout, { responsive: true, displayModeBar: false });
}
""")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("foretrain", TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["typeset"] = typeset
    environment.filters["prose"] = prose
    environment.filters["visible"] = lambda value: visible(str(value))
    environment.filters["shown_number"] = lambda value: f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
    environment.globals.update(policy=POLICY, own_file=own_file, plotly=lambda: Markup(get_plotlyjs()))
    return environment


def render(template: str, **values: Any) -> str:
    """A page from a template in `show/templates`; every value that is not `Markup` is escaped."""
    return _environment().get_template(template).render(**values)


def own_file(name: str) -> Markup:
    """One of our own style sheets or scripts, inserted into a page without escaping."""
    return Markup((resources.files("foretrain") / TEMPLATES / name).read_text(encoding="utf-8"))


def figure_html(figure: go.Figure, *, with_plotly: bool = True, **options: Any) -> Markup:
    """A figure as part of a page. Plotly makes it safe to insert; text inside it needs `plotting.plain_text`."""
    return Markup(finished(figure).to_html(full_html=False, include_plotlyjs=with_plotly, config=CONFIG, **options))


def as_html(figure: go.Figure, title: str) -> str:
    """A page with one interactive figure."""
    drawn = figure_html(figure, post_script=own_file("narrow.js") + FIT)
    return render("figure.html", title=title, figure=drawn)


def fragment(paragraphs: Sequence[str], head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Sentences and a table for a notebook; every text is escaped."""
    lines = "".join(f"<tr>{''.join(f'<td>{escape(visible(cell))}</td>' for cell in row)}</tr>" for row in rows)
    words = "".join(f"<p>{escape(visible(each))}</p>" for each in paragraphs)
    return f"{words}<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>{lines}</table>"


def write_figure(file: Path, figure: go.Figure, title: str) -> None:
    """Write a figure as a page if the file ends in .html, else as an image."""
    kind = file.suffix.lower()
    write_bytes(file, as_html(figure, title).encode() if kind == ".html" else as_image(figure, kind))


def as_image(figure: go.Figure, ending: str) -> bytes:
    """The figure as PNG, SVG or PDF, drawn by a browser."""
    drawn = finished(figure)
    try:
        return drawn.to_image(
            format=ending.removeprefix("."), width=WIDTH, height=drawn.layout.height or HEIGHT, scale=2
        )
    except Exception as error:  # no browser, or one that does not start: many causes, one fix
        raise InputError(
            f"{ending} figures need Chrome or Chromium ({type(error).__name__}); install it, or write an .html file."
        ) from error
