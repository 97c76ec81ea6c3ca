"""The figure of a claim that compares trained networks: the loss of every seed on each side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.papers.abstract_symbols.figures.trained import task_name
from foretrain.papers.abstract_symbols.quantities import QUANTITIES
from foretrain.show.plotting import PALETTE, add_subtitle, measurement_marks, new_figure

AXES = {
    "architecture": "network",
    "embedding": "embedding dimension",
    "rates": "learning rate",
    "depth": "layers",
    "heads": "heads per layer",
    "batch": "batch size",
    "multiplier": "attention logits at the start, times",
    "parts": "trained",
    "task": "task",
    "length": "length of the templates",
    "wildcards": "wildcards",
    "tokens": "regular tokens",
    "templates": "number of templates",
}


def sides(run: xr.Dataset, published: Mapping[str, float]) -> go.Figure:
    """One column per side: a small mark for every seed, a large one for their mean, and the published value if any."""
    quantity = next(str(name) for name in run.data_vars if run[name].dims == ("side", "seed"))
    config = config_of(run)
    names = [task_name(str(name)) for name in run.side.values]
    axis = AXES.get(str(config.get("argument")), "")
    figure = new_figure("", x=axis, y=QUANTITIES[quantity].title)
    figure.update_xaxes(type="category")
    values = run[quantity].transpose("seed", "side").values
    every = measurement_marks(names * len(values), values.ravel(), "one seed each", PALETTE[7], opacity=0.7)
    figure.add_trace(every)
    seeds = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else None
    mean = measurement_marks(names, values.mean(axis=0), "mean and standard error", 1, error)
    figure.add_trace(mean.update(marker={"size": 11}))
    known = {task_name(name): value for name, value in published.items() if name in run.side.values}
    if known:
        marks = measurement_marks(list(known), list(known.values()), "published (base networks)", 0)
        figure.add_trace(marks.update(marker={"size": 12, "symbol": "diamond-open", "line": {"width": 2}}))
    add_subtitle(figure, words(config, seeds))
    figure.update_yaxes(rangemode="tozero")
    legend: dict[str, Any] = {"orientation": "h", "y": -0.28, "x": 0}
    return figure.update_layout(height=440, margin={"t": 56}, showlegend=True, legend=legend)


def words(config: Mapping[str, Any], seeds: int) -> str:
    """Which networks these are, and how many samples and seeds."""
    n = config.get("n")
    sizes = [n] if isinstance(n, int) else list(n or [])
    parts = [f"networks of setting {config['setting']}" if config.get("setting") else ""]
    parts.append(f"n = {', '.join(map(str, sizes))}" if sizes else "")
    text = "; ".join([*filter(None, parts), f"{seeds} seeds"])
    return text[0].upper() + text[1:]
