"""Figures of trained networks: test loss against n, and against the learning rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.dynamics.validated import best_rate
from foretrain.plotting import PALETTE, log_ticks, measurement_marks, new_figure, new_panels, panel_place

LOSS = "test loss on unseen symbols"
ERROR = "error on unseen symbols"


def _curve(x: Any, y: xr.DataArray, name: str, color: int, **kwargs: Any) -> go.Scatter:
    """Mean over seeds with its standard error."""
    seeds = y.sizes.get("seed", 1)
    mean = y.mean("seed") if "seed" in y.dims else y
    error = y.std("seed", ddof=1) / np.sqrt(seeds) if seeds > 1 else None
    marks = measurement_marks(x, mean, name, color, error, **kwargs)
    marks.update(mode="lines+markers", line={"color": PALETTE[color % len(PALETTE)]})
    return marks


def _measured(found: xr.Dataset, quantity: str) -> xr.DataArray:
    return 1 - found.test_accuracy if quantity == ERROR else found.test_loss


def against_n(found: xr.Dataset, *, title: str, lines: str, label: str = "{}", quantity: str = LOSS) -> go.Figure:
    """One curve over n per value of an axis."""
    figure = new_figure(title, x="training samples n", y=quantity, log_x=True, log_y=quantity == LOSS)
    for color, value in enumerate(found[lines].values.tolist()):
        figure.add_trace(_curve(found.n, _measured(found.sel({lines: value}), quantity), label.format(value), color))
    figure.update_xaxes(tickvals=found.n.values.tolist())
    figure.update_yaxes(**_scale(found, quantity))
    figure.update_layout(showlegend=True)
    return figure


def _scale(found: xr.Dataset, quantity: str) -> dict[str, Any]:
    """How the measured quantity is shown: errors from 0 to 1, losses on a logarithmic axis."""
    if quantity == ERROR:
        return {"type": "linear", "range": [-0.02, 1.05]}
    return {"type": "log", **log_ticks(found.test_loss)}


def panels_against_n(
    found: xr.Dataset, *, title: str, panels: str, lines: str, label: str = "{}", quantity: str = LOSS
) -> go.Figure:
    """The same, one panel per value of a second axis."""
    names = found[panels].values.tolist()
    figure = new_panels(title, [str(name) for name in names], columns=len(names), shared_yaxes=True)
    for index, name in enumerate(names):
        place = panel_place(index, len(names))
        for color, value in enumerate(found[lines].values.tolist()):
            curve = _measured(found.sel({panels: name, lines: value}), quantity)
            figure.add_trace(_curve(found.n, curve, label.format(value), color, showlegend=index == 0), **place)
        ticks = found.n.values.tolist()
        figure.update_xaxes(title="training samples n", type="log", tickvals=ticks[:: -(-len(ticks) // 6)], **place)
        figure.update_yaxes(**_scale(found, quantity), **place)
    figure.update_yaxes(title=quantity, row=1, col=1)
    figure.update_layout(height=480)
    return figure


def against_rate(found: xr.Dataset, *, title: str, lines: str, label: str) -> go.Figure:
    """Test loss, and train loss beside it, over the learning rate: one curve per value of an axis."""
    figure = new_panels(title, [LOSS, "train loss at the chosen epoch"], columns=2)
    for index, name in enumerate(("test_loss", "train_loss")):
        place = panel_place(index, 2)
        for color, value in enumerate(found[lines].values.tolist()):
            curve = found[name].sel({lines: value}).clip(min=1e-6)
            figure.add_trace(_curve(found["rate"], curve, label.format(value), color, showlegend=index == 0), **place)
        figure.update_xaxes(title="learning rate", type="log", dtick=1, exponentformat="power", **place)
        figure.update_yaxes(type="log", **log_ticks(found[name].clip(min=1e-6)), **place)
    figure.update_yaxes(title="squared error", row=1, col=1)
    figure.update_layout(height=480)
    return figure


def fig17(found: xr.Dataset) -> go.Figure:
    """Test loss and train loss against n, one curve per task."""
    figure = new_panels("Fig 17: tasks of different difficulty", [LOSS, "train loss at the chosen epoch"], columns=2)
    for index, name in enumerate(("test_loss", "train_loss")):
        place = panel_place(index, 2)
        for color, task in enumerate(found.task.values.tolist()):
            curve = found[name].sel(task=task).clip(min=1e-6)
            figure.add_trace(_curve(found.n, curve, task, color, showlegend=index == 0), **place)
        figure.update_xaxes(title="training samples n", type="log", tickvals=found.n.values.tolist(), **place)
        figure.update_yaxes(type="log", **log_ticks(found[name].clip(min=1e-6)), **place)
    figure.update_yaxes(title="squared error", row=1, col=1)
    figure.update_layout(height=480)
    return figure


def train(found: xr.Dataset) -> go.Figure:
    """Loss over epochs, in training and on unseen symbols: one panel per rate, one colour per seed."""
    rates = found["rate"].values.tolist()
    best = float(best_rate(found)["rate"])
    names = [f"rate {rate:g}" + (" (chosen)" if rate == best and len(rates) > 1 else "") for rate in rates]
    title = f"{found.attrs.get('architecture', 'Training')}: loss over epochs"
    columns = min(2, len(rates))
    figure = new_panels(title, names, columns=columns, vertical_spacing=0.12)
    curves = xr.concat([found.train_curve, found.validation_curve], "which").clip(min=1e-8)
    for index, rate in enumerate(rates):
        place = panel_place(index, columns)
        for name, color, label in (("train_curve", 0, "training"), ("validation_curve", 1, "unseen symbols")):
            for seed in found.seed.values.tolist():
                first = index == 0 and seed == found.seed.values[0]
                line = found[name].sel(rate=rate, seed=seed).clip(min=1e-8)
                trace = go.Scatter(
                    x=found.epoch_done.values.tolist(),
                    y=line.values.tolist(),
                    connectgaps=True,  # validation is not looked at after every epoch
                    name=label,
                    legendgroup=label,
                    showlegend=bool(first),
                    mode="lines",
                    line={"color": PALETTE[color], "width": 1.2},
                )
                figure.add_trace(trace, **place)
        figure.update_yaxes(type="log", title="loss", **log_ticks(curves.sel(rate=rate)), **place)
        if index + columns >= len(rates):  # nothing below
            figure.update_xaxes(title="epoch", **place)
    return figure


def data_need(found: xr.Dataset) -> go.Figure:
    """Samples needed per task, one bar per architecture; a hatched bar where the largest n did not suffice."""
    most = int(found.n.max())
    figure = new_figure("Samples needed on unseen symbols", x="task", y="samples n", log_y=True)
    for color, name in enumerate(found.architecture.values.tolist()):
        needed = found.n_needed.sel(architecture=name).values
        enough = np.isfinite(needed)
        bars = go.Bar(
            x=found.task.values.tolist(),
            y=np.where(enough, needed, most).tolist(),
            textposition="outside",
            text=[f"{value:.0f}" if ok else f"> {most}" for value, ok in zip(needed, enough, strict=True)],
            name=name,
            marker={
                "color": PALETTE[color % len(PALETTE)],
                "pattern": {"shape": ["" if ok else "/" for ok in enough]},
            },
        )
        figure.add_trace(bars)
    figure.update_xaxes(type="category")
    bottom = float(min(found.n.min(), found.n_needed.min())) / 2
    figure.update_yaxes(range=np.log10([bottom, 2 * most]).tolist(), **log_ticks([bottom, most]))
    return figure


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {
    "train": train,
    "data_need": data_need,
    "fig2": partial(against_n, title="Fig 2: print programs, a number as label", lines="architecture"),
    "fig3": partial(against_n, title="Fig 3: print programs, a symbol as label", lines="architecture", quantity=ERROR),
    "fig5": partial(
        panels_against_n,
        title="Fig 5: copying an unseen symbol",
        panels="architecture",
        lines="embedding",
        label="d = {}",
        quantity=ERROR,
    ),
    "fig8": partial(against_rate, title="Fig 8: learning rate and n", lines="n", label="n = {}"),
    "fig9": partial(against_rate, title="Fig 9: learning rate and depth", lines="depth", label="depth {}"),
    "fig10": partial(
        against_rate, title="Fig 10: learning rate and depth, more samples", lines="depth", label="depth {}"
    ),
    "fig11": partial(against_rate, title="Fig 11: learning rate and heads", lines="heads", label="{} heads"),
    "fig12": partial(
        against_rate, title="Fig 12: learning rate and heads, more samples", lines="heads", label="{} heads"
    ),
    "fig13": partial(
        against_rate, title="Fig 13: learning rate and embedding dimension", lines="embedding", label="d = {}"
    ),
    "fig14": partial(
        against_rate, title="Fig 14: learning rate and batch size", lines="batch_size", label="batches of {}"
    ),
    "fig15": partial(
        against_n, title="Fig 15: the last layer trained alone", lines="multiplier", label="logits × {:g}"
    ),
    "fig16": partial(against_n, title="Fig 16: batch size and n", lines="batch_size", label="batches of {}"),
    "fig17": fig17,
    "fig18": partial(
        against_n, title="Fig 18: two random templates of growing length", lines="length", label="length {}"
    ),
    "fig19": partial(
        against_n, title="Fig 19: two random templates of more wildcards", lines="wildcard", label="{} wildcards"
    ),
    "fig20": partial(
        against_n, title="Fig 20: two random templates with regular tokens", lines="token", label="{} tokens"
    ),
    "fig21": partial(against_n, title="Fig 21: more random templates", lines="template", label="{} templates"),
    "fig22": partial(against_n, title="Fig 22: architectures on αβα against αββ", lines="architecture"),
    "fig23": partial(
        panels_against_n,
        title="Fig 23: majority of k symbols",
        panels="architecture",
        lines="length",
        label="k = {}",
    ),
    "fig25": partial(against_n, title="Fig 25: an MLP given vec(XXᵀ)", lines="architecture"),
}
