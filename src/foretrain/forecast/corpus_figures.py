"""Figures of the forecast of a corpus."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from foretrain.core.errors import visible
from foretrain.forecast.corpus import CorpusForecast, Learned
from foretrain.show.plotting import PALETTE, new_figure

SHOWN, NAMED = 1000, 6  # points of one view: those of largest score; and how many of them are named in it
KINDS = ("content", "likely spurious", "from class imbalance")


def shown(text: object) -> str:
    """Whatever a user wrote, as a page may hold it."""
    return html.escape(visible(str(text)))


def scatter(forecast: CorpusForecast) -> tuple[go.Figure, list[str]]:
    """Predicted score against co-occurrence, and the names of its views: one per architecture and output, of which the
    first is shown. A view is four traces: a point per token or n-gram in three kinds, and the bias."""
    figure = new_figure("", x="co-occurrence ω (occurrences)", y="predicted score (logits)")
    views = []
    for name in forecast.scores:
        for k, output in enumerate(forecast.outputs):
            views.append(f"{name}, score for {output}" if len(forecast.outputs) > 1 else name)
            _add_view(figure, forecast, name, k, first=len(views) == 1)
    figure.update_layout(
        margin={"l": 60, "r": 12, "t": 48, "b": 56}, height=520,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    )  # fmt: skip
    return figure, views


def _add_view(figure: go.Figure, forecast: CorpusForecast, name: str, output: int, *, first: bool) -> None:
    items, scores = forecast.of(name), forecast.scores[name].scores[:, output]
    omega, occurrences = items.difference[:, output], items.occurrences
    few = max(
        SHOWN // 10, SHOWN // len(forecast.outputs)
    )  # so that many classes do not make the page too large to open
    chosen = np.argsort(-np.abs(scores), kind="stable")[:few]
    kinds = np.array([_kind(forecast, gram) for gram in items.tokens[chosen]])
    for color, kind in enumerate(KINDS):
        rows = chosen[kinds == color]
        figure.add_scatter(
            x=omega[rows].tolist(),
            y=[float(f"{v:.4g}") for v in scores[rows]],
            text=[shown(items.names[i]) if i in chosen[:NAMED] else "" for i in rows],
            textposition="top center",
            customdata=[f"{shown(items.names[i])} ({occurrences[i]} times)" for i in rows],
            mode="markers+text",
            name=kind,
            visible=first,
            showlegend=True,
            marker={"color": PALETTE[color], "size": 7, "opacity": 0.7},
            hovertemplate="%{customdata}<br>co-occurrence %{x}<br>score %{y:.3f}<extra></extra>",
        )
    bias = float(forecast.scores[name].bias[output])
    reach = [float(omega[chosen].min()), float(omega[chosen].max())]
    figure.add_scatter(
        x=reach, y=[bias, bias], mode="lines", name=f"bias {bias:.2g}", visible=first, showlegend=True,
        line={"dash": "dot", "color": PALETTE[6]}, hoverinfo="name",
    )  # fmt: skip


def _kind(forecast: CorpusForecast, gram: Any) -> int:
    """0 content, 1 spurious, 2 from imbalance; an n-gram is what all of its tokens are."""
    if all(forecast.from_imbalance[k] for k in gram):
        return 2
    return int(all(forecast.tokens[k] in forecast.spurious for k in gram))


def trained_scatter(forecast: CorpusForecast, learned: Mapping[str, Learned]) -> go.Figure:
    """Learned against predicted score of the first output, a colour per architecture; click on one to hide it."""
    figure = new_figure("", x="predicted score (logits)", y="learned score (logits)")
    for color, (name, one) in enumerate(learned.items()):
        predicted = one.predicted[:, 0]
        rows = np.argsort(-np.abs(predicted), kind="stable")[: SHOWN // 4]
        figure.add_scatter(
            x=[float(f"{v:.4g}") for v in predicted[rows]],
            y=[float(f"{v:.4g}") for v in one.scores[rows, 0]],
            text=[shown(forecast.of(name).names[i]) for i in rows],
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
