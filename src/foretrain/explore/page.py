"""Pictures as parts of a page. Every text goes through Dash, which escapes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import plotly.graph_objects as go
from dash import dcc, html

from foretrain.core.errors import visible
from foretrain.explore.components import CopyPart, SliderPart, formula
from foretrain.explore.figure_theme import CONFIG, caption, fitted
from foretrain.explore.sliders import Slider, State
from foretrain.explore.view import Cell, Light, Passage, Picture, TextTable, View
from foretrain.show.prose import prose


def frame(views: Mapping[str, View]) -> html.Div:
    """What stays while views come and go."""
    hidden = [dcc.Location(id="place", refresh=False)]
    hidden += [dcc.Store(id=name) for name in ("screen", "worked", "computed", "address")]
    hidden += [html.Div(id=name, hidden=True) for name in ("title-note", "computed-note")]
    links = [dcc.Link(view.title, href=f"/{path}") for path, view in views.items()]
    header = [
        html.A("Skip to the view", href="#view", className="skip"),
        html.Span("foretrain explorer", className="brand"),
        html.Nav(links, **_aria(label="Views")),
        html.Button("Light or dark", id="theme", type="button", title="Light, dark, or as the system says"),
    ]
    said = [html.Div(id="said"), html.P("Loading …", id="waiting", className="waiting")]
    figures = [html.Div(id=name, className="figures") for name in ("figures", "slow-figures")]
    view = [
        html.Div(said, id="answer", className="answer", **_aria(live="polite")),
        html.Form(id="controls", className="controls", **_aria(label="Controls")),
        html.Div([*figures, html.Div(id="details")], id="picture"),
    ]
    main = [html.H1(id="question"), html.Div(id="refused"), html.Div(view, className="view")]
    return html.Div([*hidden, html.Header(header), html.Main(main, id="view")])


def _aria(**given: str) -> dict[str, Any]:
    """What only screen readers notice."""
    return {f"aria-{name}": value for name, value in given.items()}


def question_parts(view: View) -> list[Any]:
    return [html.Span(view.title, className="name"), view.question]


def refused_parts(sentences: Sequence[str]) -> list[Any]:
    return [html.P(visible(sentence), className="notice", role="alert") for sentence in sentences]


def control_parts(view: View, controls: Sequence[Slider], state: State) -> list[Any]:
    return [
        SliderPart(id={"type": "control", "view": view.path, "name": control.name}, spec=control.spec(),
                    value=list(value) if isinstance(value := state[control.name], tuple) else value)
        for control in controls
    ]  # fmt: skip


def answer_parts(picture: Picture) -> list[Any]:
    """The first lines of a view: the answer."""
    return [
        html.P(worded(picture.answer), className="notice" if picture.problem else "says"),
        *(html.P(worded(sentence), className="soft") for sentence in picture.sentences),
    ]


def figure_parts(figures: Mapping[str, go.Figure], *, dark: bool, narrow: bool) -> list[Any]:
    """Each figure below its title. Its height is known before it is drawn, so that nothing jumps."""
    parts = []
    for name, figure in figures.items():
        drawn = fitted(figure, dark=dark, narrow=narrow)
        style = {"height": f"{drawn['layout'].get('height', 450)}px"}
        graph = dcc.Graph(id={"type": "figure", "name": name}, figure=drawn, config=CONFIG, style=style)
        parts.append(html.Figure([html.Figcaption(worded(caption(figure))), graph]))
    return parts


def detail_parts(picture: Picture) -> list[Any]:
    """Everything below the figures."""
    return [
        *([_lights(picture.lights_title, picture.lights)] if picture.lights else []),
        *(_passage(passage) for passage in picture.passages),
        *(_table(table) for table in picture.tables),
        *([_formulas(picture)] if picture.formulas else []),
        *([_python(picture.python)] if picture.python else []),
    ]


def _passage(passage: Passage) -> html.Section:
    head = [html.H2(worded(passage.title))] if passage.title else []
    return html.Section([*head, *(html.P(worded(line)) for line in passage.paragraphs)])


def worded(text: str) -> list[Any]:
    """A sentence with real indices and powers: η_Y, e^{Mh}."""
    return _inner(ElementTree.fromstring(f"<p>{prose(visible(text))}</p>"))


def _inner(element: ElementTree.Element) -> list[Any]:
    kinds = {"sub": html.Sub, "sup": html.Sup}
    parts: list[Any] = [element.text or ""]
    for child in element:
        parts += [kinds[child.tag](_inner(child)), child.tail or ""]
    return [part for part in parts if part != ""]


def _lights(title: str, lights: Sequence[Light]) -> html.Section:
    items = []
    for light in lights:
        word = html.Span(light.word, className=f"light {light.shade}")
        items.append(html.Li([word, html.Span([html.Strong(worded(light.name)), " ", *worded(light.reason)])]))
    return html.Section([html.H2(title), html.Ul(items, className="lights")])


def _table(table: TextTable) -> html.Section:
    def cell(place: int, value: str | Cell) -> html.Td:
        kind: dict[str, Any] = {"className": "number"} if place in table.numbers else {}
        kind["data-head"] = table.head[place] if table.head else ""
        if isinstance(value, str):
            return html.Td(worded(value), **kind)
        inner: Any = dcc.Link(visible(value.text), href=value.link) if value.link else visible(value.text)
        return html.Td(html.Span(inner, className=f"light {value.shade}") if value.shade else inner, **kind)

    heads = [html.Th(head, scope="col") for head in table.head]
    parts = [html.Thead(html.Tr(heads))] if heads else []
    parts.append(html.Tbody([html.Tr([cell(k, value) for k, value in enumerate(row)]) for row in table.rows]))
    drawn = html.Table(parts, className="cards" if len(heads) > 2 else "")
    return html.Section([html.H2(visible(table.title)), html.Div(drawn, className="wide", tabIndex=0)])


def _formulas(picture: Picture) -> html.Section:
    parts: list[Any] = [html.H2("What is drawn")]
    for each in picture.formulas:
        link = dcc.Link(each.claim, href=f"/ledger?paper=all&claim={each.claim}")
        parts.append(html.Div([formula(each.latex), html.P([*worded(each.says), " ", link])], className="formula"))
    return html.Section(parts)


def _python(code: str) -> html.Section:
    lines = html.Details([html.Summary("Show the lines"), html.Pre(code, id="python")])
    copy = CopyPart(id="copy", text=code, label="Copy as Python")
    return html.Section([html.H2("The same in Python"), copy, lines])
