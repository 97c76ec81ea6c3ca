"""Figures of how many samples tasks need: measured, saved by the scalings, and predicted before training."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.papers.abstract_symbols.figures.trained import colors_of, setting_words, task_name, x_axis
from foretrain.papers.abstract_symbols.simulations.trained import VANILLA
from foretrain.show.plotting import INK, add_subtitle, log_ticks, measurement_marks, new_figure, new_panels, panel_place

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


def forecast_and_size(run: xr.Dataset, trivial: xr.Dataset) -> go.Figure:
    """Samples needed in training against two forecasts, one panel each: the kernel's, and templates times length.

    A line marks where forecast and training agree.
    """
    panels = ("forecast from the kernel", "forecast from size alone")
    figure = new_panels("Which forecast ranks the tasks as training does?", panels, columns=2, shared_yaxes=True)
    finite = run.measured_need.values[np.isfinite(run.measured_need.values)]
    beyond_measured = (finite.max() if finite.size else 100.0) * BEYOND
    predicted = run.predicted_need.where(np.isfinite(run.predicted_need))
    beyond = float(predicted.max()) * BEYOND**2 if bool(predicted.notnull().any()) else 100.0
    sizes = trivial.size_need.sel(task=run.task)
    names = run.architecture.values.tolist()
    for index, x in enumerate((run.predicted_need, sizes)):
        place = panel_place(index, 2)
        least = max(float(x.min()), float(run.measured_need.min()))
        line = {"color": INK, "width": 1, "dash": "dot"}
        figure.add_scatter(
            x=[least, beyond_measured], y=[least, beyond_measured], mode="lines", line=line, showlegend=False, **place
        )
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
            marks.hovertext = run.task.values.tolist()
            figure.add_trace(marks.update(marker={"size": 9}), **place)
        words = ("samples needed by the forecast", "samples needed by templates × length")[index]
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


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {"data_need": data_need}
