"""Figures for the forecast of a corpus."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from foretrain.forecast.corpora.result import CorpusResult
from foretrain.show.plotting import PALETTE, log_ticks, new_figure, new_panels, panel_place, plain_text

SHOWN = 1000  # most points in one view, those with the largest scores
NAMED = 6  # how many of these have their name beside them
KINDS = ("content", "part of a shortcut", "from class imbalance")


def learning_curves(forecast: CorpusResult) -> go.Figure:
    """Held-out accuracy and loss against the time of the flow; dots are where it stops, dotted lines are baselines."""
    figure = new_panels("", ("held-out accuracy", "held-out loss (nats)"))
    longest = max((curve.settings[-1] for curve in forecast.curves.values()), default=1.0)
    for color, (name, curve) in enumerate(forecast.curves.items()):
        for panel, values in enumerate((curve.right.mean(axis=1), curve.loss.mean(axis=1))):
            shown = plain_text(", ".join(forecast.rows_of(name)))
            size = [9 if k == curve.best else 0 for k in range(len(values))]
            figure.add_scatter(
                x=curve.settings.tolist(), y=values.tolist(), name=shown, mode="lines+markers", legendgroup=name,
                showlegend=panel == 0, line={"color": PALETTE[color % len(PALETTE)]}, marker={"size": size},
                hovertemplate=f"{shown}<br>time %{{x:.0f}}<br>%{{y:.3f}}<extra></extra>", **panel_place(panel),
            )  # fmt: skip
    for name in ("logistic regression", "log-odds"):
        if name in forecast.baselines:
            curve = forecast.baselines[name]
            for panel, value in enumerate((curve.accuracy, float(curve.chosen_loss.mean()))):
                figure.add_scatter(
                    x=[1, longest], y=[value, value], name=name, mode="lines", legendgroup=name, showlegend=panel == 0,
                    line={"dash": "dot" if name == "log-odds" else "dash", "color": "#57606a"},
                    hovertemplate=f"{name}<br>%{{y:.3f}}<extra></extra>", **panel_place(panel),
                )  # fmt: skip
    figure.update_xaxes(
        title="length of training (units of the fastest direction)", type="log", **log_ticks([1, longest])
    )
    figure.update_layout(
        height=520, margin={"l": 60, "r": 12, "t": 48, "b": 56},
        legend={"orientation": "h", "x": 0, "y": -0.22, "yanchor": "top"},
    )  # fmt: skip
    return figure


def scatter(forecast: CorpusResult) -> tuple[go.Figure, list[str]]:
    """Predicted score against co-occurrence, and the names of the figure's views: one per architecture and output. The
    first view is visible. A view is four traces: three kinds of points (tokens or n-grams) and the bias."""
    figure = new_figure("", x="co-occurrence ω (occurrences)", y="predicted score (logits)")
    views = []
    for name in dict.fromkeys(forecast.same_as.values()):
        for k, output in enumerate(forecast.outputs):
            views.append(f"{name}, score for {output}" if len(forecast.outputs) > 1 else name)
            _add_view(figure, forecast, name, k, first=len(views) == 1)
    figure.update_layout(
        margin={"l": 60, "r": 12, "t": 48, "b": 56}, height=520,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    )  # fmt: skip
    return figure, views


def _add_view(figure: go.Figure, forecast: CorpusResult, name: str, output: int, *, first: bool) -> None:
    items, scores = forecast.of(name), forecast.scores[name].scores[:, output]
    marked = {token for s in forecast.shortcuts if s.costs for phrase in s.phrases for token in phrase}
    omega, occurrences = items.difference[:, output], items.occurrences
    # With many classes each view has fewer points, so that the page stays small enough to open.
    points = max(SHOWN // 10, SHOWN // len(forecast.outputs))
    chosen = np.argsort(-np.abs(scores), kind="stable")[:points]
    kinds = np.array([_kind(forecast, marked, gram) for gram in items.tokens[chosen]])
    for color, kind in enumerate(KINDS):
        rows = chosen[kinds == color]
        figure.add_scatter(
            x=omega[rows].tolist(),
            y=[float(f"{v:.4g}") for v in scores[rows]],
            text=[plain_text(items.names[i]) if i in chosen[:NAMED] else "" for i in rows],
            textposition="top center",
            customdata=[f"{plain_text(items.names[i])} ({occurrences[i]} times)" for i in rows],
            mode="markers+text",
            name=kind,
            visible=first,
            showlegend=True,
            marker={"color": PALETTE[color], "size": 7, "opacity": 0.7},
            hovertemplate="%{customdata}<br>co-occurrence %{x}<br>score %{y:.3f}<extra></extra>",
        )
    bias = float(forecast.scores[name].bias[output])
    ends = [float(omega[chosen].min()), float(omega[chosen].max())]
    figure.add_scatter(
        x=ends, y=[bias, bias], mode="lines", name=f"bias {bias:.2g}", visible=first, showlegend=True,
        line={"dash": "dot", "color": PALETTE[6]}, hoverinfo="name",
    )  # fmt: skip


def _kind(forecast: CorpusResult, marked: set[int], gram: Any) -> int:
    """Index into `KINDS`. An n-gram is part of a shortcut, or from imbalance, if all of its tokens are."""
    if all(forecast.from_imbalance[k] for k in gram):
        return 2
    return int(all(int(k) in marked for k in gram))


def trained_scatter(forecast: CorpusResult) -> go.Figure:
    """Learned against predicted score of the first output, in one colour per architecture."""
    figure = new_figure("", x="predicted score (logits)", y="learned score (logits)")
    for color, (name, network) in enumerate((forecast.learned or {}).items()):
        predicted = network.predicted[:, 0]
        rows = np.argsort(-np.abs(predicted), kind="stable")[: SHOWN // 4]
        figure.add_scatter(
            x=[float(f"{v:.4g}") for v in predicted[rows]],
            y=[float(f"{v:.4g}") for v in network.scores[rows, 0]],
            text=[plain_text(forecast.of(name).names[i]) for i in rows],
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
