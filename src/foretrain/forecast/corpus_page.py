"""The forecast of a corpus for people: as plain data for JSON, as figures, and as one HTML page that opens offline."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import plotly.graph_objects as go

from foretrain.forecast.corpus import CorpusForecast
from foretrain.forecast.corpus_training import Learned
from foretrain.plotting import PALETTE, new_figure
from foretrain.report.files import CONFIG

SHOWN, NAMED = 1000, 6  # points of one view: those of largest score; and how many of them are named in it
KINDS = ("content", "likely spurious", "from class imbalance")


def summary(found: CorpusForecast, learned: Mapping[str, Learned] | None = None, top: int = 30) -> dict[str, Any]:
    """What `--json` writes."""
    scores = {name: found.top(name, top) for name in found.scores}
    return {
        "classes": {name: int(count) for name, count in zip(found.classes, found.class_counts, strict=True)},
        "window": found.window,
        "tokens": {name: scores[name] for name, of in found.scores.items() if of.order == 1},
        "ngrams": {name: scores[name] for name, of in found.scores.items() if of.order > 1},
        "bias": {name: _by_output(found, of.bias) for name, of in found.scores.items()},
        "bias_plateau": {name: _by_output(found, plateau) for name, plateau in found.plateau.items()},
        "from_imbalance": [found.tokens[i] for i in np.flatnonzero(found.from_imbalance)],
        "spurious": found.spurious,
        "additive_cannot_learn": list(found.contradictions),
        "trained": {name: {"spearman": one.spearman, "pearson": one.pearson} for name, one in (learned or {}).items()},
        "notes": list(found.notes),
    }


def _by_output(found: CorpusForecast, values: Any) -> dict[str, float]:
    return dict(zip(found.outputs, map(float, values), strict=True))


def scatter(found: CorpusForecast) -> tuple[go.Figure, list[str]]:
    """Predicted score against co-occurrence, and the names of its views: one per architecture and output, of which the
    first is shown. A view is four traces: a point per token or n-gram in three kinds, and the bias."""
    figure = new_figure("", x="co-occurrence ω (occurrences)", y="predicted score (logits)")
    views = []
    for name in found.scores:
        for k, output in enumerate(found.outputs):
            views.append(f"{name}, score for {output}" if len(found.outputs) > 1 else name)
            _add_view(figure, found, name, k, shown=len(views) == 1)
    figure.update_layout(
        margin={"l": 60, "r": 12, "t": 48, "b": 56}, height=520,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    )  # fmt: skip
    return figure, views


def _add_view(figure: go.Figure, found: CorpusForecast, name: str, output: int, *, shown: bool) -> None:
    items, scores = found.of(name), found.scores[name].scores[:, output]
    omega, occurrences = items.lean.difference[:, output], items.lean.occurrences
    chosen = np.argsort(-np.abs(scores), kind="stable")[:SHOWN]
    kinds = np.array([_kind(found, gram) for gram in items.tokens[chosen]])
    for color, kind in enumerate(KINDS):
        rows = chosen[kinds == color]
        figure.add_scatter(
            x=omega[rows].tolist(),
            y=[float(f"{v:.4g}") for v in scores[rows]],
            text=[html.escape(items.names[i]) if i in chosen[:NAMED] else "" for i in rows],
            textposition="top center",
            customdata=[f"{html.escape(items.names[i])} ({occurrences[i]} times)" for i in rows],
            mode="markers+text",
            name=kind,
            visible=shown,
            showlegend=True,
            marker={"color": PALETTE[color], "size": 6, "opacity": 0.7},
            hovertemplate="%{customdata}<br>co-occurrence %{x}<br>score %{y:.3f}<extra></extra>",
        )
    bias = float(found.scores[name].bias[output])
    reach = [float(omega[chosen].min()), float(omega[chosen].max())]
    figure.add_scatter(
        x=reach, y=[bias, bias], mode="lines", name=f"bias {bias:.2g}", visible=shown, showlegend=True,
        line={"dash": "dot", "color": PALETTE[6]}, hoverinfo="name",
    )  # fmt: skip


def _kind(found: CorpusForecast, gram: Any) -> int:
    """0 content, 1 spurious, 2 from imbalance; an n-gram is what all of its tokens are."""
    if all(found.from_imbalance[k] for k in gram):
        return 2
    return int(all(found.tokens[k] in found.spurious for k in gram))


def trained_scatter(found: CorpusForecast, learned: Mapping[str, Learned]) -> go.Figure:
    """Learned against predicted score of the first output, a colour per architecture; click on one to hide it."""
    figure = new_figure("", x="predicted score (logits)", y="learned score (logits)")
    for color, (name, one) in enumerate(learned.items()):
        predicted = found.scores[name].scores[:, 0]
        rows = np.argsort(-np.abs(predicted), kind="stable")[: SHOWN // 4]
        figure.add_scatter(
            x=[float(f"{v:.4g}") for v in predicted[rows]],
            y=[float(f"{v:.4g}") for v in one.scores[rows, 0]],
            text=[html.escape(found.of(name).names[i]) for i in rows],
            mode="markers",
            name=name,
            visible=True if color in (0, 4) else "legendonly",
            marker={"color": PALETTE[color % len(PALETTE)], "size": 5, "opacity": 0.7},
            hovertemplate="%{text}<br>predicted %{x:.3f}<br>learned %{y:.3f}<extra></extra>",
        )
    figure.update_layout(
        margin={"l": 60, "r": 12, "t": 12, "b": 56}, height=560,
        legend={"orientation": "h", "x": 0, "y": -0.18, "yanchor": "top"},
    )  # fmt: skip
    return figure


def page(found: CorpusForecast, name: str, learned: Mapping[str, Learned] | None = None) -> str:
    """One self-contained HTML file."""
    said = summary(found, learned, top=12)
    figure, views = scatter(found)
    drawn = figure.to_html(full_html=False, include_plotlyjs=True, config=CONFIG, div_id="scatter")
    options = "".join(f"<option>{html.escape(view)}</option>" for view in views)
    parts = [
        _section("Predicted score against co-occurrence",
                 "Every point is a token, or an n-gram for networks that read windows; the dotted line is the bias.",
                 f'<p><label>Architecture <select id="view">{options}</select></label></p>{drawn}'),
        _section("What each architecture will key on", "Scores in logits.",
                 "".join(_lists(of, lists) for of, lists in {**said["tokens"], **said["ngrams"]}.items())),
        _section("Predicted bias", "The score (logits) of a token or n-gram never seen in training, and for MLPs the "
                 "score where it would settle if tokens said nothing of the class.", _bias(found, said)),
    ]  # fmt: skip
    if learned:
        rows = [(k, v.spearman, v.pearson) for k, v in learned.items()]
        table = _table(("architecture", "rank correlation", "correlation"), rows)
        drawn = trained_scatter(found, learned).to_html(full_html=False, include_plotlyjs=False, config=CONFIG)
        parts.append(_section("Predicted against learned", "Small networks trained on these texts.", table + drawn))
    imbalance = html.escape(", ".join(said["from_imbalance"][:60])) or "none"
    suspicious = _table(("token", "kind"), list(found.spurious.items())[:40])
    against = [
        (c["bigram"], c["class"], c["occurrences"], c["log_odds"], c["log_odds_of_parts"])
        for c in found.contradictions[:40]
    ]
    heads = ("bigram", "class", "occurrences", "log-odds", "of its parts")
    parts += [
        _section("Score from class imbalance", "These lean to no class; one class is larger.", f"<p>{imbalance}</p>"),
        _section("Likely spurious", "High score, no content: look at where they come from.", suspicious),
        _section("What a network that adds up tokens cannot learn", "Bigrams that contradict their parts.",
                 _table(heads, against)),
    ]  # fmt: skip
    if found.notes:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in found.notes[:50])
        parts.append(_section("Odd rows", f"{len(found.notes):,} rows, all kept.", f"<ul>{notes}</ul>"))
    template = files("foretrain.forecast").joinpath("corpus_page.html").read_text(encoding="utf-8")
    sizes = ", ".join(f"{c}: {n:,}" for c, n in zip(found.classes, found.class_counts, strict=True))
    counted = ", ".join(f"{len(of):,} {'tokens' if n == 1 else f'{n}-grams'}" for n, of in found.items.items())
    filled = {"title": html.escape(f"Forecast of {name}"), "facts": html.escape(f"Texts by class: {sizes}. "
              f"Counted: {counted}."), "views": json.dumps(len(views)), "body": "\n".join(parts)}  # fmt: skip
    return re.sub(r"%(\w+)%", lambda found: filled[found[1]], template)


def _section(title: str, says: str, body: str) -> str:
    return f'<section><h2>{html.escape(title)}</h2><p class="says">{html.escape(says)}</p>{body}</section>'


def _lists(architecture: str, lists: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    tables = "".join(_table((f"for {c}", "score"), list(rows)) for c, rows in lists.items())
    return f'<details><summary>{html.escape(architecture)}</summary><div class="lists">{tables}</div></details>'


def _bias(found: CorpusForecast, said: dict[str, Any]) -> str:
    heads = ("architecture", *(f"for {output}" for output in found.outputs))
    plateau = tuple(f"settles at, {output}" for output in found.outputs)
    rows = [
        (name, *bias.values(), *said["bias_plateau"].get(name, dict.fromkeys(found.outputs, "")).values())
        for name, bias in said["bias"].items()
    ]
    return _table((*heads, *plateau), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> str:
    if not rows:
        return "<p>none</p>"

    def cell(value: Any) -> str:
        number = isinstance(value, int | float)
        shown = f"{value:.3g}" if isinstance(value, float) else html.escape(str(value))
        return f'<td class="number">{shown}</td>' if number else f"<td>{shown}</td>"

    body = "".join("<tr>" + "".join(cell(v) for v in row) + "</tr>" for row in rows)
    heads = "".join(
        f'<th class="number">{html.escape(h)}</th>' if isinstance(v, int | float) else f"<th>{html.escape(h)}</th>"
        for h, v in zip(head, rows[0], strict=True)
    )
    return f'<div class="wide"><table><tr>{heads}</tr>{body}</table></div>'
