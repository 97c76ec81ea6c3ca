"""Figures 4 and 9, phase portraits of eq. 6, and correlations in computational graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from plotly.colors import sample_colorscale

from foretrain.show.plotting import INK, PALETTE, measurement_marks, new_panels, panel_place, prediction_line

FIG4_WORDS = {
    "published": "published: normalised, v²/3, rate .02",
    "eq. 6": "eq. 6: v²/2, rate .002",
    "linear": "linear activation: Δ = μ, as published",
}
FIG4_SHORT = {"published": "as published", "eq. 6": "by eq. 6", "linear": "linear activation"}


def fig4(data: xr.Dataset, published: Mapping[int, float] | None = None) -> go.Figure:
    """Left: the components of v at ten times, against their targets. Right: the entropy of attention, with the values
    `published` by step."""
    shown = str(data["variant"].values[0])
    figure = new_panels(
        "Components of v on the way to their targets, and the entropy of attention",
        [f"v against its targets, {FIG4_SHORT.get(shown, shown)}", "entropy of attention (nats)"],
        horizontal_spacing=0.22,
    )
    order = np.argsort(data["target"].values)
    number = np.arange(1, len(order) + 1)
    last = int(data["time"][-1])
    picked = [0, *np.unique(np.geomspace(max(last // 100, 1), last, 9).astype(int))]
    colors = sample_colorscale("Viridis", np.linspace(0, 0.9, len(picked)))
    for step, color in zip(picked, colors, strict=True):
        line = data["v"].sel(variant=shown, time=step).values[order]
        figure.add_trace(prediction_line(number, line, f"step {step}", color, legend="legend"), **panel_place(0))
    target = prediction_line(number, data["target"].values[order], "target μ", INK, legend="legend")
    target.line.dash = "dash"
    figure.add_trace(target, **panel_place(0))
    for index, variant in enumerate(data["variant"].values):
        curve = prediction_line(
            data["time"],
            data["entropy"].sel(variant=variant),
            FIG4_WORDS.get(variant, variant),
            index,
            legend="legend2",
        )
        figure.add_trace(curve, **panel_place(1))
    if published:
        steps, values = list(published), list(published.values())
        marks = measurement_marks(steps, values, "as published", INK, legend="legend2")
        marks.marker.symbol, marks.marker.size = "diamond-open", 10
        figure.add_trace(marks, **panel_place(1))
    figure.update_xaxes(title="component, sorted by its target", **panel_place(0))
    figure.update_xaxes(title="step", **panel_place(1))
    figure.update_yaxes(title="weight v", **panel_place(0))
    figure.update_yaxes(rangemode="tozero", **panel_place(1))
    figure.update_layout(
        legend={"x": 0.4, "y": 1, "font": {"size": 12}},
        legend2={"x": 1, "y": -0.26, "xanchor": "right", "yanchor": "top", "orientation": "h", "font": {"size": 12}},
        height=520,
    )
    return figure


def fig9(data: xr.Dataset) -> go.Figure:
    """G(y) and G(y)/y; a density has critical points if G(y)/y does not rise everywhere."""
    figure = new_panels(
        "A critical point needs two points of G on one line through 0",
        ["G(y), divided by G(½)", "G(y)/y, divided by its value at ½"],
        horizontal_spacing=0.1,
    )
    for index, density in enumerate(data["density"].values):
        row = data.sel(density=density)
        count = int(row["critical_points"])
        words = f"{density} ({float(row['condition']):.3f}; {count or 'none'})"
        for panel, name in enumerate(("G", "G_over_y")):
            figure.add_trace(
                prediction_line(row["y"], row[name], words, index, legendgroup=str(density), showlegend=panel == 0),
                **panel_place(panel),
            )
    figure.update_traces(line_simplify=False)
    figure.update_xaxes(title="y = θ<sub>1</sub>(r)", range=[0, 1])
    figure.update_yaxes(range=[0, 6], title="G(y) / G(½)", **panel_place(0))
    figure.update_yaxes(range=[0, 4], title="G(y) / (2y G(½))", **panel_place(1))
    figure.update_layout(
        legend={
            "title": {"text": "density (left side of eq. 58; number of critical points)", "side": "top"},
            "orientation": "h",
            "y": -0.2,
            "x": 0,
            "entrywidth": 0.48,
            "entrywidthmode": "fraction",
        },
        height=560,
    )
    return figure


def phase(data: xr.Dataset) -> go.Figure:
    """The velocity as arrows of equal length, paths that start near 0, and the target."""
    portraits = [str(p) for p in data["portrait"].values]
    figure = new_panels(
        "Phase portraits: the way of v = (v₁, v₂) from near 0",
        portraits,
        columns=len(portraits),
        horizontal_spacing=0.07,
    )
    v1, v2 = np.meshgrid(data["v1"].values, data["v2"].values)
    reach = float(data["v1"][-1])
    step = float(data["v1"][1] - data["v1"][0])
    for panel, portrait in enumerate(portraits):
        field = data["velocity"].sel(portrait=portrait).values
        size = np.linalg.norm(field, axis=-1, keepdims=True)
        arrow = 0.6 * step * field / np.where(size > 0, size, 1)
        place = {"row": 1, "col": panel + 1}
        gap = np.full(v1.size, np.nan)
        tails, heads = (
            np.stack([a.ravel(), b.ravel()]) for a, b in ((v1, v2), (v1 + arrow[..., 0], v2 + arrow[..., 1]))
        )
        ends = [np.stack([t, h, gap], -1).ravel() for t, h in zip(tails, heads, strict=True)]
        figure.add_trace(
            go.Scatter(x=ends[0], y=ends[1], mode="lines", line={"color": "#b8c0c8", "width": 1}, showlegend=False),
            **place,
        )
        figure.add_trace(
            go.Scatter(
                x=heads[0], y=heads[1], mode="markers", marker={"color": "#b8c0c8", "size": 3}, showlegend=False
            ),
            **place,
        )
        for start in range(data.sizes["start"]):
            path = data["path"].sel(portrait=portrait).isel(start=start).values
            figure.add_trace(
                prediction_line(path[:, 0], path[:, 1], "paths", 0, showlegend=panel == 0 and start == 0), **place
            )
        target = data["target"].values
        linear = portrait.startswith("linear")
        mark = {"symbol": "x" if not linear else "triangle-right", "size": 11, "color": PALETTE[1]}
        name = "Δ" if linear else "target μ"
        figure.add_trace(
            go.Scatter(x=[target[0]], y=[target[1]], mode="markers", marker=mark, name=name, showlegend=panel != 1),
            **place,
        )
        figure.update_xaxes(title="v₁", range=[0, reach], **place)
        figure.update_yaxes(title="v₂" if panel == 0 else None, range=[0, reach], **place)
    figure.update_layout(legend={"orientation": "h", "y": -0.18, "x": 0}, height=480)
    return figure


def cdag(data: xr.Dataset) -> go.Figure:
    """Where the gradient correlates with the latent: by the angles, by the threshold, and along training."""
    figure = new_panels(
        "Sign of C<sub>4</sub>, the correlation of a back-propagated gradient with a latent, in random graphs",
        ["C<sub>4</sub> < 0, untrained", "C<sub>4</sub> > 0 by threshold", "C<sub>4</sub> > 0 during training"],
        columns=3,
        horizontal_spacing=0.09,
    )
    mean = data.mean("seed")
    enough = data["edges"].sum("seed") >= 100  # a share of only a few edges says nothing
    threshold = float(data["threshold"].sel(threshold=0.1, method="nearest"))
    figure.add_trace(
        prediction_line(
            data["angle"], mean["negative_by_angle"], "share of negative C<sub>4</sub>", 1, showlegend=False
        ),
        row=1,
        col=1,
    )
    figure.add_vline(x=90, line={"dash": "dash", "color": INK}, row=1, col=1)
    for index, step in enumerate(data["step"].values):
        if step not in (0, 10, 100, data["step"].values[-1]):
            continue
        curve = mean["positive"].where(enough).sel(step=step)
        figure.add_trace(prediction_line(data["threshold"], curve, f"after {step} steps", index), row=1, col=2)
    figure.add_vline(x=np.cos(np.pi / 6), line={"dash": "dash", "color": INK}, row=1, col=2)
    for name, words, color in (
        ("positive", "weight by the gradient rule", 0),
        ("positive_actual", "the graph's own weight", 3),
    ):
        figure.add_trace(
            prediction_line(data["step"] + 1, mean[name].sel(threshold=threshold), words, color, legend="legend2"),
            row=1,
            col=3,
        )
    figure.update_xaxes(title="angles A + B + C (degrees)", tickvals=[0, 90, 180, 270], row=1, col=1)
    figure.update_xaxes(title="C<sub>1</sub>, C<sub>2</sub> and C<sub>3</sub> above", row=1, col=2)
    ticks = [t for t in (0, 1, 3, 10, 30, 100, 300) if t <= int(data["step"][-1])]
    figure.update_xaxes(
        title=f"step (C<sub>1</sub>, C<sub>2</sub>, C<sub>3</sub> above {threshold:g})",
        type="log",
        tickvals=[t + 1 for t in ticks],
        ticktext=[str(t) for t in ticks],
        row=1,
        col=3,
    )
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    figure.update_yaxes(title="share of edges", row=1, col=1)
    figure.update_layout(
        legend={"x": 0.36, "y": 0.05, "font": {"size": 11}},
        legend2={"x": 0.99, "y": 0.05, "xanchor": "right", "font": {"size": 11}, "bgcolor": "rgba(255,255,255,.7)"},
        height=460,
    )
    return figure


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure]] = {"fig4": fig4, "fig9": fig9, "phase": phase, "cdag": cdag}
