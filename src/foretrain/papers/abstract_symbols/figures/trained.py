"""Figures of trained networks: test loss against n, and against the learning rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from plotly.colors import sample_colorscale

from foretrain.dynamics.validated import best_rate
from foretrain.models.sequence_baselines import KINDS
from foretrain.papers.abstract_symbols.setting import TrainingSetting
from foretrain.papers.abstract_symbols.simulations.trained import ARCHITECTURES, TASKS, WITH_A, WITH_AB, WITH_B
from foretrain.show.plotting import (
    PALETTE,
    add_subtitle,
    band,
    log_ticks,
    measurement_marks,
    new_figure,
    new_panels,
    panel_place,
    power_ticks,
)

LOSS = "squared error on unseen symbols"
ERROR = "error rate on unseen symbols"
PANELS = {"test_loss": "test loss, on unseen symbols", "train_loss": "train loss, at the chosen epoch"}
COLORS = dict(zip(ARCHITECTURES, PALETTE, strict=True))  # an architecture has the same colour in every figure
FLOOR = 1e-6  # smaller train losses are drawn at this value: how well a few samples are memorised says nothing


def setting_words(run: xr.Dataset, seeds: str = "mean and standard error of") -> str:
    """The subtitle: what the networks have in common, whether they are smaller than the paper's, and how many seeds."""
    known = {key: value for key, value in run.attrs.items() if key not in run.dims}
    if "task" in known:
        known["task"] = task_name(known["task"])
    on = {"architecture": "{}", "task": "task {}", "n": "n = {}"}
    base, sizes = asdict(TrainingSetting()), {"depth": "depth {}", "heads": "{} heads", "embedding": "embedding {}"}
    narrower = {"head": "heads of width {}", "mlp": "MLP of width {}"}
    sizes |= {key: text for key, text in narrower.items() if known.get(key) != base[key]} | {"epochs": "{} epochs"}
    if known.get("batch", np.inf) < (run.n.max() if "n" in run.dims else known.get("n", 0)):
        sizes["batch"] = "batches of {}"
    if "rate" not in run.dims:
        sizes["rates"] = "best of rates {} by validation" if "," in str(known.get("rates")) else "rate {}"
    if known.get("scaling_multiplier", 1) != 1 and _scaled(run):
        sizes["scaling_multiplier"] = "a and b at {:g} times the rate"
    if known.get("attention_multiplier", 1) != 1 and not _only_baselines(run):
        sizes["attention_multiplier"] = "attention logits times {:g}"
    words = [", ".join(text.format(known[key]) for key, text in says.items() if key in known) for says in (on, sizes)]
    if any(known.get(key, np.inf) < base[key] for key in ("heads", "embedding", "head", "mlp", "epochs")):
        words[1] = f"smaller than in the paper: {words[1]}"
    count = run.sizes.get("seed", 1)
    words.append(f"{seeds} {count} seeds" if count > 1 else "1 seed")
    if "diverged_at" in run:
        lost = int((run.diverged_at.notnull() & run.test_loss.isnull()).sum())
        words += [f"diverged and left out: {lost}"] if lost else []
    text = "; ".join(filter(None, words))
    return text[0].upper() + text[1:]


def _scaled(run: xr.Dataset) -> bool:
    return not {WITH_A, WITH_B, WITH_AB}.isdisjoint(_architectures(run))


def _only_baselines(run: xr.Dataset) -> bool:
    return set(_architectures(run)) <= set(KINDS)


def _architectures(run: xr.Dataset) -> list[str]:
    return run.architecture.values.tolist() if "architecture" in run.dims else [run.attrs.get("architecture", "")]


def colors_of(axis: str, values: Sequence[Any]) -> list[str]:
    """A colour for every curve; for numbers they go from dark to light."""
    if axis == "architecture":
        return [COLORS[name] for name in values]
    if axis == "task":
        return [PALETTE[place % len(PALETTE)] for place in range(len(values))]
    return list(sample_colorscale("Viridis", np.linspace(0, 0.88, len(values)).tolist()))


def _curve(x: Any, y: xr.DataArray, name: str, color: str, **kwargs: Any) -> list[go.Scatter]:
    """Mean over seeds, on a band of its standard error."""
    seeds = y.sizes.get("seed", 1)
    mean = y.mean("seed") if "seed" in y.dims else y
    marks = measurement_marks(x, mean, name, color, legendgroup=name, **kwargs)
    marks.update(mode="lines+markers", line={"color": color})
    if seeds == 1:
        return [marks]
    error = y.std("seed", ddof=1) / np.sqrt(seeds)
    low = xr.where(mean > error, mean - error, mean / 10)  # a logarithmic axis has no place for 0
    return [band(x, low, mean + error, color, legendgroup=name), marks]


def _curves(run: xr.Dataset, y: xr.DataArray, x: str, lines: str, **kwargs: Any) -> list[go.Scatter]:
    """One curve over x per value of the axis `lines`."""
    values = run[lines].values.tolist()
    names = [task_name(value) if isinstance(value, str) else f"{value:g}" for value in values]
    return [
        trace
        for value, name, color in zip(values, names, colors_of(lines, values), strict=True)
        for trace in _curve(run[x], y.sel({lines: value}), name, color, **kwargs)
    ]


def task_name(key: str) -> str:
    """A task in words, or the name of its file; any other text stays as it is."""
    if key.endswith(".toml"):
        return Path(key).name
    return TASKS[key]().name if key in TASKS else key


def x_axis(run: xr.Dataset, x: str) -> dict[str, Any]:
    """The axis of the learning rate, or of n with a tick at every size and a number at six of them at most."""
    if x == "rate":
        return {"title": "learning rate", "type": "log", **power_ticks(run["rate"])}
    sizes = run.n.values.tolist()
    return {
        "title": "training samples n",
        "type": "log",
        "tickvals": sizes[:: -(-len(sizes) // 6)],
        "minor": {"tickvals": sizes, "ticks": "outside"},
    }


def _measured(run: xr.Dataset, quantity: str) -> tuple[xr.DataArray, dict[str, Any]]:
    """The quantity and its axis: from 0 to 1 for errors, logarithmic for losses."""
    if quantity == ERROR:
        return 1 - run.test_accuracy, {"range": [-0.02, 1.05]}
    return run.test_loss, {"type": "log", **log_ticks(run.test_loss)}


def against_n(run: xr.Dataset, *, title: str, lines: str, legend: str = "", quantity: str = LOSS) -> go.Figure:
    """One curve over n per value of an axis."""
    figure = new_figure(title, x="", y=quantity)
    y, scale = _measured(run, quantity)
    figure.add_traces(_curves(run, y, "n", lines))
    figure.update_xaxes(**x_axis(run, "n"))
    figure.update_yaxes(**scale)
    figure.update_layout(height=560, showlegend=True, legend_title_text=legend)
    add_subtitle(figure, setting_words(run))
    return figure


def by_architecture(run: xr.Dataset, *, title: str, lines: str, legend: str, quantity: str = LOSS) -> go.Figure:
    """One panel per architecture, each with one curve over n per value of an axis."""
    names = run.architecture.values.tolist()
    figure = new_panels(title, names, columns=len(names), shared_yaxes=True)
    y, scale = _measured(run, quantity)
    for index, name in enumerate(names):
        place = panel_place(index, len(names))
        curves = _curves(run, y.sel(architecture=name), "n", lines, showlegend=index == 0)
        for curve in curves:
            figure.add_trace(curve, **place)
        figure.update_xaxes(**x_axis(run, "n"), **place)
        figure.update_yaxes(**scale, **place)
    figure.update_yaxes(title=quantity, row=1, col=1)
    figure.update_layout(height=500, showlegend=True, legend_title_text=legend)
    add_subtitle(figure, setting_words(run))
    return figure


def beside_train_loss(run: xr.Dataset, *, title: str, x: str, lines: str, legend: str = "") -> go.Figure:
    """Test loss and, beside it, train loss over the learning rate or n: one curve per value of an axis."""
    figure = new_panels(title, list(PANELS.values()), columns=2)
    for index, name in enumerate(PANELS):
        place, y = panel_place(index, 2), run[name].clip(min=FLOOR)
        for curve in _curves(run, y, x, lines, showlegend=index == 0):
            figure.add_trace(curve, **place)
        figure.update_xaxes(**x_axis(run, x), **place)
        figure.update_yaxes(type="log", **log_ticks(y), **place)
    figure.update_yaxes(title="squared error", row=1, col=1)
    figure.update_layout(height=500, showlegend=True, legend_title_text=legend)
    add_subtitle(figure, setting_words(run))
    return figure


def train(run: xr.Dataset) -> go.Figure:
    """Loss over epochs, in training and on unseen symbols: a panel per rate, a line per seed, its best epoch."""
    rates = run["rate"].values.tolist()
    best = float(best_rate(run)["rate"])
    names = [f"rate {rate:g}" + (" (chosen)" if rate == best and len(rates) > 1 else "") for rate in rates]
    columns = len(rates) if len(rates) <= 3 else 2
    figure = new_panels("Loss over epochs", names, columns=columns, vertical_spacing=0.14, shared_yaxes="all")
    curves = xr.concat([run.train_curve, run.validation_curve], "which").clip(min=1e-8)
    for index, rate in enumerate(rates):
        place = panel_place(index, columns)
        for name, color, label in (
            ("train_curve", 0, "training"),
            ("validation_curve", 1, "validation, unseen symbols"),
        ):
            for seed in run.seed.values.tolist():
                first = index == 0 and seed == run.seed.values[0]
                line = run[name].sel(rate=rate, seed=seed).clip(min=1e-8)
                trace = go.Scatter(
                    x=run.epoch_done.values.tolist(),
                    y=line.values.tolist(),
                    connectgaps=True,  # there is no validation pass after every epoch
                    name=label,
                    legendgroup=label,
                    showlegend=bool(first),
                    mode="lines",
                    line={"color": PALETTE[color], "width": 1.2},
                )
                figure.add_trace(trace, **place)
        at_rate = run.sel(rate=rate)
        chosen = go.Scatter(
            x=at_rate.epoch.values.tolist(),
            y=at_rate.validation_loss.clip(min=1e-8).values.tolist(),
            name="chosen epoch",
            legendgroup="chosen epoch",
            showlegend=index == 0,
            mode="markers",
            marker={"color": PALETTE[1], "size": 7, "line": {"color": "white", "width": 1}},
        )
        figure.add_trace(chosen, **place)
        figure.update_yaxes(type="log", title="loss" if index % columns == 0 else None, **log_ticks(curves), **place)
        if index + columns >= len(rates):  # nothing below
            figure.update_xaxes(title="epoch", **place)
    add_subtitle(figure, setting_words(run, "one line for each of"))
    return figure


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {
    "train": train,
    "fig2": partial(against_n, title="Fig 2: print programs, a number as label", lines="architecture"),
    "fig3": partial(against_n, title="Fig 3: print programs, a symbol as label", lines="architecture", quantity=ERROR),
    "fig5": partial(
        by_architecture, title="Fig 5: copying an unseen symbol", lines="embedding", legend="embedding", quantity=ERROR
    ),
    **{
        f"fig{number}": partial(
            beside_train_loss, title=f"Fig {number}: learning rate and {legend}", x="rate", lines=lines, legend=legend
        )
        for number, lines, legend in (
            (8, "n", "samples n"),
            (9, "depth", "depth"),
            (10, "depth", "depth"),
            (11, "heads", "heads per layer"),
            (12, "heads", "heads per layer"),
            (13, "embedding", "embedding"),
            (14, "batch", "batch size"),
        )
    },
    "fig15": partial(
        against_n, title="Fig 15: the last layer trained alone", lines="multiplier", legend="attention logits ×"
    ),
    "fig16": partial(against_n, title="Fig 16: batch size and n", lines="batch", legend="batch size"),
    "fig17": partial(beside_train_loss, title="Fig 17: tasks of different difficulty", x="n", lines="task"),
    "fig18": partial(against_n, title="Fig 18: two random templates, by length", lines="length", legend="length"),
    "fig19": partial(
        against_n, title="Fig 19: two random templates, by wildcards", lines="wildcards", legend="wildcards"
    ),
    "fig20": partial(
        against_n, title="Fig 20: two random templates, by regular tokens", lines="tokens", legend="regular tokens"
    ),
    "fig21": partial(
        against_n, title="Fig 21: random templates, by their number", lines="templates", legend="templates"
    ),
    "fig22": partial(against_n, title="Fig 22: different architectures", lines="architecture"),
    "fig23": partial(by_architecture, title="Fig 23: majority of k symbols", lines="length", legend="k"),
    "fig25": partial(against_n, title="Fig 25: an MLP given vec(XXᵀ)", lines="architecture"),
}
