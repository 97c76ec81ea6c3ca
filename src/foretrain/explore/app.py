"""The Dash application: from addresses and controls to views, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, no_update

from foretrain.core.errors import InputError, visible
from foretrain.explore.page import (
    answer_parts,
    control_parts,
    detail_parts,
    figure_parts,
    frame,
    question_parts,
    refused_parts,
)
from foretrain.explore.registry import VIEWS
from foretrain.explore.result_cache import ResultCache
from foretrain.explore.safety import protect
from foretrain.explore.sliders import Slider, read_state, write_state
from foretrain.explore.view import Picture, Places, View

FIRST = next(iter(VIEWS))
INDEX = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{%title%}</title>
{%favicon%}
{%css%}
</head>
<body>
{%app_entry%}
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>
"""
CONTROLS = {"type": "control", "view": ALL, "name": ALL}


def make_app(places: Places, hosts: frozenset[str]) -> Dash:
    """The application. It answers requests for these hosts only, such as 127.0.0.1:8050."""
    app = Dash(
        __name__, title="foretrain explorer", update_title=None, index_string=INDEX, suppress_callback_exceptions=True
    )
    app.layout = frame(VIEWS)
    keeper = ResultCache()

    @app.callback(
        Output("question", "children"),
        Output("refused", "children"),
        Output("controls", "children"),
        Input("place", "pathname"),
        Input("place", "search"),
    )
    def show_view(pathname: str | None, search: str | None) -> Any:
        view = VIEWS.get((pathname or "").strip("/"), VIEWS[FIRST])
        controls = view.controls(places)
        state, refused = read_state(controls, dict(parse_qsl((search or "").lstrip("?"), keep_blank_values=True)))
        return question_parts(view), refused_parts(refused), control_parts(view, controls, state)

    @app.callback(
        Output("said", "children"),
        Output("waiting", "children"),
        Output("waiting", "hidden"),
        Output("figures", "children"),
        Output("slow-figures", "children"),
        Output("details", "children"),
        Output("address", "data"),
        Input(CONTROLS, "value"),
        Input("worked", "data"),
        Input("screen", "data"),
        State("address", "data"),
        prevent_initial_call=True,
    )
    def draw(_: Any, worked: Any, screen: Mapping[str, Any] | None, before: Mapping[str, Any] | None) -> Any:
        view, controls, state = _asked(places, ctx.inputs_list[0])
        if view is None or screen is None:
            return (no_update,) * 7
        picture = _drawn(view, controls, state, keeper, places)
        address = {"path": f"/{view.path}", "query": urlencode(write_state(controls, _complete(controls, state))),
                   "title": view.title}  # fmt: skip
        stays = bool(before) and before["path"] == address["path"] and bool(picture.waiting)  # type: ignore[index]
        if stays and picture.empty:
            return no_update, picture.waiting, False, no_update, no_update, no_update, address
        look = {"dark": bool(screen.get("dark")), "narrow": bool(screen.get("narrow"))}
        return (
            answer_parts(picture),
            picture.waiting,
            not picture.waiting,
            figure_parts(picture.figures, **look),
            no_update if stays else figure_parts(picture.slow_figures, **look),
            detail_parts(picture),
            address,
        )

    @app.callback(
        Output("computed", "data"),
        Input("address", "data"),  # which `draw` writes: what can be drawn at once is on the page before work begins
        State(CONTROLS, "value"),
        State("screen", "data"),
        prevent_initial_call=True,
    )
    def work(address: Any, _: Any, screen: Mapping[str, Any] | None) -> Any:
        view, controls, state = _asked(places, ctx.states_list[0])
        if view is None or view.work is None or screen is None:
            return no_update
        try:
            accepted = _accepted(controls, state)
        except InputError:
            return no_update  # the picture says what is wrong
        key = _key(view, accepted, places)
        if keeper.has(key):
            return no_update
        heavy = view.work
        computed = keeper.compute(str(screen.get("tab", "")), key, lambda: heavy(accepted, places))
        return key if computed else no_update

    # By way of the browser: if `draw` took the result of `work` as its input, Dash would let it wait for that.
    app.clientside_callback(
        ClientsideFunction("explore", "computed"), Output("computed-note", "children"), Input("computed", "data")
    )
    app.clientside_callback(
        ClientsideFunction("explore", "remember"), Output("title-note", "children"), Input("address", "data")
    )
    app.clientside_callback(
        ClientsideFunction("explore", "screen"),
        Output("screen", "data"),
        Input("theme", "n_clicks"),
        State("screen", "data"),
    )
    protect(app, hosts)
    return app


def _asked(places: Places, sent: Sequence[Any]) -> tuple[View | None, list[Slider], dict[str, Any]]:
    """The view on the page, its controls, and the values that the page sent."""
    if not sent:
        return None, [], {}
    view = VIEWS[sent[0]["id"]["view"]]
    return view, list(view.controls(places)), {item["id"]["name"]: item.get("value") for item in sent}


def _complete(controls: list[Slider], state: Mapping[str, Any]) -> dict[str, Any]:
    """The values that can be used; where one cannot, the value at the start."""
    complete = {}
    for control in controls:
        try:
            complete[control.name] = control.accept(state[control.name])
        except (InputError, KeyError):
            complete[control.name] = control.default
    return complete


def _accepted(controls: list[Slider], state: Mapping[str, Any]) -> dict[str, Any]:
    return {control.name: control.accept(state.get(control.name)) for control in controls}


def _key(view: View, state: dict[str, Any], places: Places) -> str:
    return json.dumps([view.path, state, view.stamp(state, places) if view.stamp else None], sort_keys=True)


def _drawn(
    view: View, controls: list[Slider], state: Mapping[str, Any], keeper: ResultCache, places: Places
) -> Picture:
    """The picture, or one that says what is wrong in a sentence."""
    try:
        accepted = _accepted(controls, state)
        return view.draw(accepted, keeper.get(_key(view, accepted, places)) if view.work else None, places)
    except InputError as error:
        return Picture(str(error), problem=True)
    except Exception as error:  # a page that says what happened is better than one that stands still
        return Picture(f"This could not be drawn ({type(error).__name__}: {visible(str(error))}).", problem=True)
