"""Figures of what kernels say before training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.papers.abstract_symbols.figures.trained import COLORS
from foretrain.papers.abstract_symbols.setting import REGRESSION_TASKS
from foretrain.show.plotting import PALETTE, TEMPLATE, measurement_marks, new_panels, panel_place, prediction_line


def fig4(run: xr.Dataset) -> go.Figure:
    """K̂ of each architecture sorted by template, and the angle of its top eigenspace to the template indicators."""
    names = run.architecture.values.tolist()
    panels = [f"K̂, {name}" for name in names] + ["Angle to templates (°)"]
    figure = new_panels(
        "Fig 4: the kernel matrix turns into blocks", panels, columns=len(panels), horizontal_spacing=0.06
    )
    largest = float(run.gram.max())
    for index, name in enumerate(names):
        gram = run.gram.sel(architecture=name).values
        heat = go.Heatmap(
            z=gram.tolist(),
            zmin=0,
            zmax=largest,
            colorscale="Viridis",
            showscale=index == 0,
            colorbar={"orientation": "h", "y": -0.2, "x": 0.0, "xanchor": "left", "len": 0.4, "thickness": 10},
            hovertemplate="%{z:.3f}",
        )
        figure.add_trace(heat, **panel_place(index, len(panels)))
        figure.update_xaxes(showticklabels=False, ticks="", showgrid=False, **panel_place(index, len(panels)))
        figure.update_yaxes(
            autorange="reversed", showticklabels=False, ticks="", showgrid=False, **panel_place(index, len(panels))
        )
    figure.update_yaxes(title="samples, by template", row=1, col=1)
    place = panel_place(len(names), len(panels))
    for name in names:
        angle = run.angle.sel(architecture=name)
        error = angle.std("seed").values if angle.sizes["seed"] > 1 else None
        marks = measurement_marks(run.n, angle.mean("seed"), name, COLORS[name], error)
        marks.update(mode="lines+markers", line={"color": COLORS[name]})
        figure.add_trace(marks, **place)
    figure.update_xaxes(title="samples n", type="log", tickvals=run.n.values.tolist(), **place)
    figure.update_yaxes(range=[0, 92], **place)
    figure.update_layout(height=470, legend={"orientation": "h", "y": -0.25, "x": 1.0, "xanchor": "right"})
    return figure


def kernel_regression(run: xr.Dataset) -> go.Figure:
    """Squared error on unseen symbols: marks per alphabet, a line if no token is shared, a dotted one for eq. 15."""
    rules = run.rule.values.tolist()
    ideal, apart = (run[name].isel(alphabet=0) for name in ("ideal", "apart"))  # the same for all of them
    config = config_of(run)
    title = f"Kernel regression on unseen symbols: {task_name(config['task'])}, {config['architecture']}"
    figure = new_panels(title, [f"λ = {rule}" for rule in rules], columns=2, shared_yaxes=True, vertical_spacing=0.16)
    for index, rule in enumerate(rules):
        place, shown = panel_place(index), index == 0
        exact = prediction_line(run.n, apart.sel(rule=rule), "no common token (exact)", PALETTE[6], showlegend=shown)
        figure.add_trace(exact, **place)
        dotted = prediction_line(run.n, ideal.sel(rule=rule), "idealised, eq. 15", PALETTE[7], showlegend=shown)
        figure.add_trace(dotted.update(line={"dash": "dot"}), **place)
        for color, size in enumerate(run.alphabet.values.tolist()):
            loss = run.loss.sel(rule=rule, alphabet=size)
            marks = measurement_marks(run.n, loss.mean("seed"), f"{size} tokens", color, showlegend=shown)
            figure.add_trace(marks, **place)
        bottom = "samples n" if index >= len(rules) - 2 else None
        figure.update_xaxes(title=bottom, type="log", tickvals=run.n.values.tolist(), **place)
        figure.update_yaxes(type="log", dtick=1, exponentformat="power", **place)
        if index % 2 == 0:
            figure.update_yaxes(title="squared error", **place)
    return figure


def data_efficiency(run: xr.Dataset) -> go.Figure:
    """Bars of samples needed, per task and architecture; "never" marks a task the architecture does not learn."""
    config = config_of(run)
    title = f"Samples for a squared error of {config['loss']:g} of the label variance (from N alone)"
    figure = go.Figure()
    figure.update_layout(template=TEMPLATE, title=title, barmode="group")
    tasks = [task_name(task) for task in run.task.values.tolist()]
    top = float(run.samples_needed.where(np.isfinite(run.samples_needed)).max())
    for name in run.architecture.values.tolist():
        needed = run.samples_needed.sel(architecture=name).values
        never = ~np.isfinite(needed)
        figure.add_bar(
            x=tasks,
            y=np.where(never, 1.0, needed).tolist(),
            name=name,
            marker_color=COLORS[name],
            text=["never" if no else f"{value:,.0f}" for no, value in zip(never, needed, strict=True)],
            textposition="outside",
            textangle=-90,
            textfont={"size": 12},
            constraintext="none",
            cliponaxis=False,
        )
    figure.update_yaxes(title="samples n", type="log", dtick=1, range=[0, np.log10(top) + 1.2])
    return figure


def task_name(key: str) -> str:
    """A task in words."""
    return REGRESSION_TASKS[key]().name


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {
    "fig4": fig4,
    "kernel_regression": kernel_regression,
    "data_efficiency": data_efficiency,
}
