"""Figures of how many samples tasks need: measured, saved by the scalings, and predicted before training."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.papers.abstract_symbols.experiments.trained import VANILLA
from foretrain.papers.abstract_symbols.figures.trained import colors_of, setting_words, task_name, x_axis
from foretrain.show.plotting import (
    INK,
    PALETTE,
    add_subtitle,
    log_ticks,
    measurement_marks,
    new_figure,
    new_panels,
    panel_place,
)

BEYOND = 1.6  # points without a number are drawn this factor beyond the largest number


def task_labels(run: xr.Dataset) -> list[str]:
    return ["<br>".join(textwrap.wrap(task_name(task), 14)) for task in run.task.values.tolist()]


def data_need(run: xr.Dataset) -> go.Figure:
    """Samples needed per task, one mark per architecture; it is open if the largest n was not enough."""
    most = int(run.n.max())
    title = f"Samples from which on less than {run.attrs['loss']:.0%} is missed on unseen symbols"
    figure = new_figure(title, x="", y="")
    names = run.architecture.values.tolist()
    for name, color in zip(names, colors_of("architecture", names), strict=True):
        needed = run.n_needed.sel(architecture=name).values
        enough = np.isfinite(needed)
        marks = measurement_marks(
            np.where(enough, needed, most),
            task_labels(run),
            name,
            color,
            orientation="h",
            offsetgroup=name,
            hovertext=[f"{value:.0f}" if ok else f"more than {most}" for value, ok in zip(needed, enough, strict=True)],
        )
        marks.marker.update(symbol=["circle" if ok else "triangle-right-open" for ok in enough], size=9)
        figure.add_trace(marks)
    figure.update_yaxes(type="category", autorange="reversed", tickson="boundaries")
    ends = np.log10([int(run.n.min()) / 1.25, most * 1.25])
    figure.update_xaxes(range=ends.tolist(), **x_axis(run, "n"))
    figure.update_layout(scattermode="group", showlegend=True, height=max(420, 180 + 48 * run.sizes["task"]))
    missed = "Missed: squared error over that of a constant guess, or the share of wrong symbols"
    never = f"; open: more than {most} samples" if not np.isfinite(run.n_needed).all() else ""
    add_subtitle(figure, f"{missed}{never}. {setting_words(run, 'median of')}")
    return figure


def gained(run: xr.Dataset) -> go.Figure:
    """How many times less data each scaling needs, per task, with the smallest and the largest over seeds."""
    most = config_of(run)["most_samples"]
    names = [name for name in run.architecture.values.tolist() if name != VANILLA]
    factor, low, high = (run[name].sel(architecture=names) for name in ("factor", "factor_low", "factor_high"))
    numbers = np.concatenate([[1.0], *(array.values.ravel() for array in (factor, low, high))])
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    least, greatest = numbers.min() / BEYOND, numbers.max() * BEYOND
    labels = task_labels(run)
    figure = new_figure("How many times less data a network with scalings needs", x="factor", y="", log_x=True)
    for name, color in zip(names, colors_of("architecture", names), strict=True):
        value, lowest, highest = (array.sel(architecture=name).values for array in (factor, low, high))
        shown = name if np.isfinite(value).any() else f"{name}: not learned"
        marks = measurement_marks(value, labels, shown, color, orientation="h", offsetgroup=name)
        bars = {"array": np.clip(highest, None, greatest) - value, "arrayminus": value - np.clip(lowest, least, None)}
        marks.update(error_x={"type": "data", **{side: bar.tolist() for side, bar in bars.items()}, "thickness": 1})
        marks.hovertext = [f"{a:.3g} to {b:.3g} over seeds" for a, b in zip(lowest, highest, strict=True)]
        figure.add_trace(marks)
    for label, unknown in zip(labels, factor.isnull().all("architecture").values, strict=True):
        if unknown:
            figure.add_annotation(x=0, y=label, text="not learned", showarrow=False, xanchor="left", xshift=6)
    figure.add_vline(x=1, line={"color": INK, "width": 1})
    rows = {"categoryorder": "array", "categoryarray": labels, "range": [len(labels) - 0.5, -0.5]}  # empty ones too
    figure.update_yaxes(type="category", tickson="boundaries", **rows)
    figure.update_xaxes(range=np.log10([least, greatest]).tolist(), **log_ticks(numbers))
    figure.update_layout(scattermode="group", showlegend=True, height=max(420, 180 + 48 * run.sizes["task"]))
    add_subtitle(
        figure,
        f"Samples of the plain transformer over those of this one, medians over seeds; bars: from the least to the "
        f"greatest over seeds, to the edge where a size is unknown. Not learned: by no network with most of its seeds, "
        f"from {most} samples.",
    )
    return figure


def predicted_against_measured(run: xr.Dataset) -> go.Figure:
    """Samples that kernel regression needs against those of trained networks, one mark per task and architecture."""
    most = config_of(run)["most_samples"]
    known = np.concatenate([run[name].values.ravel() for name in ("predicted_need", "measured_need")])
    known = known[np.isfinite(known)]
    least, beyond, more = known.min() / BEYOND, known.max() * BEYOND**2, most * BEYOND
    figure = new_figure(
        "Samples needed: predicted before training, and measured",
        x="samples needed, predicted by kernel regression",
        y="samples needed in training",
        log_x=True,
        log_y=True,
    )
    names = run.architecture.values.tolist()
    equal = {"x": [least, most], "y": [least, most], "mode": "lines", "line": {"color": PALETTE[7], "dash": "dash"}}
    figure.add_scatter(**equal, name="equal", hoverinfo="skip")
    for name, color in zip(names, colors_of("architecture", names), strict=True):
        cell = run.sel(architecture=name)
        predicted, measured = cell.predicted_need.values, cell.measured_need.values
        marks = measurement_marks(
            np.nan_to_num(predicted, posinf=beyond), np.nan_to_num(measured, posinf=more), name, color, opacity=0.8
        )
        limits = [
            "never" if never else f"more than {limit:,.0f}"
            for never, limit in zip(cell.never_learns.values, cell.most_resolved.values, strict=True)
        ]
        marks.hovertext = [
            f"{task_name(task)}: predicted {_need(x, limit)}, measured {_need(y, f'more than {most}')}"
            for task, x, y, limit in zip(run.task.values.tolist(), predicted, measured, limits, strict=True)
        ]
        marks.update(hoverinfo="text+name", marker={"size": 9})
        figure.add_trace(marks)
    figure.update_xaxes(**_ticks(least, beyond, "more, or never"))
    figure.update_yaxes(**_ticks(least, more, f"> {most}"))
    figure.update_layout(height=560)
    add_subtitle(
        figure,
        f"Samples from which on less than {config_of(run)['loss']:.0%} of a constant guess's squared error is left, "
        "one mark per task. On the right: more samples than the kernel's accuracy can tell, or, for an MLP, never.",
    )
    return figure


def forecast_and_size(run: xr.Dataset, trivial: xr.Dataset) -> go.Figure:
    """Samples needed in training against two forecasts, one panel each: the kernel's, and templates times length."""
    panels = ("kernel regression", "templates × length")
    figure = new_panels("Which forecast ranks the tasks as training does?", panels, columns=2, shared_yaxes=True)
    finite = run.measured_need.values[np.isfinite(run.measured_need.values)]
    beyond_measured = (finite.max() if finite.size else 100.0) * BEYOND
    predicted = run.predicted_need.where(np.isfinite(run.predicted_need))
    beyond = float(predicted.max()) * BEYOND**2 if bool(predicted.notnull().any()) else 100.0
    sizes = xr.broadcast(trivial["size"], run.measured_need)[0]
    names = run.architecture.values.tolist()
    for index, x in enumerate((run.predicted_need, sizes)):
        place = panel_place(index, 2)
        for name, color in zip(names, colors_of("architecture", names), strict=True):
            marks = measurement_marks(
                np.nan_to_num(x.sel(architecture=name).values, posinf=beyond),
                np.nan_to_num(run.measured_need.sel(architecture=name).values, posinf=beyond_measured),
                name,
                color,
                opacity=0.8,
                showlegend=index == 0,
                legendgroup=name,
            )
            marks.hovertext = [task_name(task) for task in run.task.values.tolist()]
            figure.add_trace(marks.update(marker={"size": 9}), **place)
        words = ("samples predicted", "templates × length")[index]
        figure.update_xaxes(title=words, type="log", **log_ticks(marks_x(figure, index)), **place)
        figure.update_yaxes(type="log", **log_ticks([*finite.tolist(), beyond_measured]), **place)
    figure.update_yaxes(title="samples needed in training", row=1, col=1)
    figure.update_layout(height=520, showlegend=True, legend={"orientation": "h", "y": -0.25, "x": 0})
    add_subtitle(figure, "One mark per task and architecture; marks at the far end stand for more than was tried.")
    return figure


def marks_x(figure: go.Figure, panel: int) -> list[float]:
    """All x of a panel's marks."""
    axis = "x" if panel == 0 else f"x{panel + 1}"
    return [x for trace in figure.data if (trace.xaxis or "x") == axis for x in trace.x]


def _ticks(least: float, beyond: float, words: str) -> dict[str, Any]:
    """An axis of samples; points without a number are drawn at its end, labelled with `words`."""
    span = np.log10(beyond / least)
    firsts = (1, 2, 5) if span < 3 else (1,)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(beyond)))
    ticks = [first * 10**power for power in powers for first in firsts if least <= first * 10**power < beyond / BEYOND]
    room = 0.05 * span
    return {
        "tickvals": [*ticks, beyond],
        "ticktext": [*(f"{tick:,}" for tick in ticks), words],
        "range": [math.log10(least), math.log10(beyond) + room],
    }


def _need(samples: float, otherwise: str) -> str:
    return f"{samples:.0f}" if np.isfinite(samples) else otherwise


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {"data_need": data_need}
