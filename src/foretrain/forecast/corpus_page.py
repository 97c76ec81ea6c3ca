"""The forecast of a corpus for people: as plain data for JSON, as a figure, and as one HTML page that opens offline."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import plotly.graph_objects as go

from foretrain.forecast.corpus import CorpusForecast
from foretrain.plotting import PALETTE, new_figure
from foretrain.report.files import CONFIG

SHOWN = 2000  # tokens in the figure: those of largest score


def summary(found: CorpusForecast, learned: dict[str, dict[str, float]] | None = None, top: int = 30) -> dict[str, Any]:
    """What `--json` writes."""
    return {
        "classes": {name: int(count) for name, count in zip(found.classes, found.class_counts, strict=True)},
        "tokens": {name: found.top(scores, found.tokens, top) for name, scores in found.scores.items()},
        "bigrams": {"matrix-vector": found.top(found.bigram_scores, found.bigrams, top)} if found.bigrams else {},
        "bias": {name: dict(zip(found.outputs, map(float, bias), strict=True)) for name, bias in found.bias.items()},
        "from_imbalance": [found.tokens[i] for i in np.flatnonzero(found.from_imbalance)],
        "spurious": found.spurious,
        "additive_cannot_learn": list(found.contradictions),
        "trained": learned or {},
        "notes": list(found.notes),
    }


def scatter(found: CorpusForecast, architecture: str = "MLP ReLU") -> go.Figure:
    """Predicted score against co-occurrence, a point per token, coloured by what is suspicious about it."""
    output = found.outputs[0]
    figure = new_figure(
        f"Predicted score of every token ({architecture})",
        x=f"co-occurrence with {output}, less that without (occurrences)",
        y="predicted score (logits)",
    )
    scores = found.scores[architecture][:, 0]
    omega = found.cooccurrence[:, 0]
    shown = np.argsort(-np.abs(scores), kind="stable")[:SHOWN]
    kinds = np.array(["content"] * len(found.tokens), dtype=object)
    kinds[[i for i, token in enumerate(found.tokens) if token in found.spurious]] = "likely spurious"
    kinds[found.from_imbalance] = "from class imbalance"
    for color, kind in enumerate(("content", "likely spurious", "from class imbalance")):
        rows = shown[kinds[shown] == kind]
        if len(rows):
            figure.add_scatter(
                x=omega[rows].tolist(),
                y=scores[rows].tolist(),
                text=[f"{html.escape(found.tokens[i])} ({found.occurrences[i]} times)" for i in rows],
                mode="markers",
                name=kind,
                marker={"color": PALETTE[color], "size": 6, "opacity": 0.7},
                hovertemplate="%{text}<br>co-occurrence %{x}<br>score %{y:.3f}<extra></extra>",
            )
    bias = float(found.bias[architecture][0])
    figure.add_hline(y=bias, line={"dash": "dot", "color": PALETTE[6]}, annotation_text=f"bias {bias:.3g}")
    return figure


def page(found: CorpusForecast, name: str, learned: dict[str, dict[str, float]] | None = None) -> str:
    """One self-contained HTML file."""
    drawn = scatter(found).to_html(full_html=False, include_plotlyjs=True, config=CONFIG)
    said = summary(found, learned, top=15)
    parts = [f"<h1>Forecast of {html.escape(name)}</h1>", _paragraph(found), drawn]
    for architecture, lists in {**said["tokens"], **said["bigrams"]}.items():
        parts.append(f"<h2>{html.escape(architecture)}</h2>{_lists(lists)}")
    parts.append("<h2>Predicted bias: the score of a token never seen (logits)</h2>")
    parts.append(_table(("architecture", *found.outputs), [(k, *v.values()) for k, v in said["bias"].items()]))
    if learned:
        parts.append("<h2>Predicted against learned scores</h2>")
        rows = [(k, v["spearman"], v["pearson"]) for k, v in learned.items()]
        parts.append(_table(("architecture", "rank correlation", "correlation"), rows))
    parts.append("<h2>Score from class imbalance, not from content</h2><p>")
    parts.append(html.escape(", ".join(said["from_imbalance"][:60]) or "none") + "</p>")
    parts.append("<h2>Likely spurious: high score, no content</h2>")
    parts.append(_table(("token", "kind"), list(found.spurious.items())[:60]))
    parts.append("<h2>What a network that adds up tokens cannot learn: bigrams that contradict their parts</h2>")
    against = [
        (c["bigram"], c["class"], c["occurrences"], c["log_odds"], c["log_odds_of_parts"])
        for c in found.contradictions[:40]
    ]
    parts.append(_table(("bigram", "class", "occurrences", "log-odds", "of its parts"), against))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    style = (
        "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem;color:#1b1f24}"
        "table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}"
        "th{border-bottom:1px solid #999}.lists{display:flex;flex-wrap:wrap;gap:2.5rem}</style>"
    )
    body = "\n".join(parts)
    title = f"<title>Forecast of {html.escape(name)}</title>"
    return f"<!doctype html><html lang=en><head>{head}{title}{style}</head><body>{body}</body></html>\n"


def _paragraph(found: CorpusForecast) -> str:
    sizes = ", ".join(f"{html.escape(c)}: {n:,}" for c, n in zip(found.classes, found.class_counts, strict=True))
    return f"<p>Texts by class: {sizes}. {len(found.tokens):,} tokens and {len(found.bigrams):,} bigrams counted.</p>"


def _lists(lists: dict[str, list[tuple[str, float]]]) -> str:
    return '<div class="lists">' + "".join(_table((f"for {c}", "score"), rows) for c, rows in lists.items()) + "</div>"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    if not rows:
        return "<p>none</p>"

    def cell(value: Any) -> str:
        return f"{value:.3g}" if isinstance(value, float) else html.escape(str(value))

    body = "".join("<tr>" + "".join(f"<td>{cell(v)}</td>" for v in row) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{html.escape(h)}</th>' for h in head)}</tr>{body}</table>"
