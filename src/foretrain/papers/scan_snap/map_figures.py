"""The map of where each prediction of attention is right, and attention on real text."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.papers.scan_snap.theory.applicability import NOISE_ALLOWED
from foretrain.show.plotting import (
    measurement_marks,
    new_figure,
    new_panels,
    panel_place,
    power_ticks,
    prediction_line,
    typeset,
)

WITHIN = 0.1  # a share of what training does
DECADES = 2.0  # of predicted over trained, at which the colours end


def training_map(run: xr.Dataset) -> go.Figure:
    """Predicted over trained z at the last time compared: a row per prediction, a column per (K, M)."""
    sizes = [(k, m) for k in run["classes"].values.tolist() for m in run["vocab"].values.tolist()]
    predictions = run["prediction"].values.tolist()
    factor = (run["predicted"] / run["trained"]).isel(at=-1)
    inside = (abs(run["predicted"] / run["trained"] - 1) <= WITHIN).all("at")
    titles = [f"{p}, K = {k}, M = {m}" for p in predictions for k, m in sizes]
    figure = new_panels(
        f"z of the dominant token, predicted over trained, at {float(run['at'][-1]):g}·t₀ "
        f"(✓: within {WITHIN:.0%} at every time compared)",
        titles,
        columns=len(sizes),
        shared_xaxes=True,
        shared_yaxes=True,
        vertical_spacing=0.09,
        horizontal_spacing=0.02,
    )
    for row, prediction in enumerate(predictions):
        for column, (k, m) in enumerate(sizes):
            place = {"classes": k, "vocab": m, "prediction": prediction}
            cell, ok = (x.sel(place).transpose("overlap", "ratio") for x in (factor, inside))
            words = [
                [f"{'✓ ' if good else ''}{value:.2g}" for value, good in zip(*pair, strict=True)]
                for pair in zip(cell.values, ok.values, strict=True)
            ]
            heat = go.Heatmap(
                x=[f"{r:g}" for r in cell["ratio"].values],
                y=[f"{o:g}" for o in cell["overlap"].values],
                z=np.log10(np.maximum(cell.values, 1e-9)).tolist(),
                text=words,
                texttemplate="%{text}",
                coloraxis="coloraxis",
                hovertemplate="η<sub>Y</sub>/η<sub>Z</sub> = %{x}, overlap %{y}: %{text} times<extra></extra>",
            )
            figure.add_trace(heat, **panel_place(row * len(sizes) + column, len(sizes)))
    ends = {"cmin": -DECADES, "cmax": DECADES, "cmid": 0.0}
    ticks = {"tickvals": [-2, -1, 0, 1, 2], "ticktext": ["1/100", "1/10", "1", "10", "100"]}
    bar = {"title": "predicted/<br>trained", **ticks}
    figure.update_layout(coloraxis={"colorscale": "RdBu_r", "colorbar": bar, **ends}, height=260 * len(predictions))
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    figure.update_xaxes(title="η<sub>Y</sub>/η<sub>Z</sub>", row=len(predictions))
    figure.update_yaxes(title="overlap", col=1)
    return figure


def real_text(run: xr.Dataset) -> go.Figure:
    """Rank correlations per corpus and setting; size of z and entropy over time."""
    titles = ["rank correlation with trained z", "size of z", "entropy of attention (nats)"]
    figure = new_panels("The model (Y, Z) on real text", titles, columns=3, horizontal_spacing=0.08)
    settings = run["setting"].values.tolist()
    corpora = run["corpus"].values.tolist()
    for color, setting in enumerate(settings):
        name = typeset(setting)
        one = run.sel(setting=setting)
        group = {"legendgroup": name}
        force = one["force"].sel(start="unigram").isel(time=-1).mean("seed")
        figure.add_trace(measurement_marks(corpora, force, name, color, **group), row=1, col=1)
        agreement = one["agreement"].isel(time=-1)
        seeds = measurement_marks(corpora, agreement, f"{name}, two seeds", color, showlegend=False, **group)
        figure.add_trace(seeds.update(marker_symbol="diamond-open"), row=1, col=1)
        for panel, quantity in ((2, "size"), (3, "entropy")):
            for corpus in corpora:
                curve = one[quantity].sel(corpus=corpus).mean("seed")
                line = prediction_line(run["time"], curve, name, color, showlegend=False, **group)
                figure.add_trace(line, row=1, col=panel)
    figure.update_xaxes(title="corpus", type="category", row=1, col=1)
    figure.update_yaxes(title="circles: force from counts; diamonds: another seed", row=1, col=1)
    for panel in (2, 3):
        figure.update_xaxes(title="steps of a batch", type="log", row=1, col=panel, **power_ticks(run["time"].values))
    figure.update_yaxes(title="root mean square", type="log", row=1, col=2)
    figure.update_yaxes(title="nats", row=1, col=3)
    return figure.update_layout(height=480, legend={"orientation": "h", "y": -0.25, "yanchor": "top"})


def standard_transformer(run: xr.Dataset) -> go.Figure:
    """Rank correlations with trained content logits, a panel per model: counts, another seed, the run halfway."""
    models, corpora = run["model"].values.tolist(), run["corpus"].values.tolist()
    title = "Which words does attention pick? Rank correlation per query with trained logits (a mark per seed)"
    figure = new_panels(title, models, columns=len(models), shared_yaxes=True, horizontal_spacing=0.04)
    shown = {str(name): run["statistic"].sel(of=name) for name in run["of"].values}
    shown |= {"another seed": run["agreement"], "the same run, halfway": run["pilot"].isel(share=-1)}
    for panel, model in enumerate(models):
        for color, (name, values) in enumerate(shown.items()):
            one = values.sel(model=model).transpose("corpus", "seed")
            x = [corpus for corpus in corpora for _ in range(run.sizes["seed"])]
            marks = measurement_marks(x, one.values.ravel(), name, color, legendgroup=name, showlegend=panel == 0)
            figure.add_trace(marks, **panel_place(panel, len(models)))
    figure.update_xaxes(title="corpus", type="category")
    figure.update_yaxes(title="rank correlation", col=1)
    return figure.update_layout(height=460, legend={"orientation": "h", "y": -0.25, "yanchor": "top"})


def sampling_map(run: xr.Dataset) -> go.Figure:
    """The error of the predicted mean against how much noise adds to z, in every setting and at every time."""
    figure = new_figure(
        "Training on drawn samples: how far predictions are off", x="share of z that noise adds",
        y="relative error of the predicted mean", log_x=True, log_y=True,
    )  # fmt: skip
    error = abs(run["predicted"] / run["trained"] - 1)
    excess, error = xr.broadcast(run["noise_excess"], error)
    for color, prediction in enumerate(run["prediction"].values.tolist()):
        x, y = (values.sel(prediction=prediction).values.ravel() for values in (excess, error))
        seen = np.isfinite(x) & np.isfinite(y) & (x > 0)
        figure.add_trace(measurement_marks(x[seen], y[seen], prediction, color))
    figure.add_vline(NOISE_ALLOWED, line={"width": 1, "dash": "dot"}, annotation_text="allowed")
    return figure


FIGURES = {
    "training_map": training_map,
    "sampling_map": sampling_map,
    "real_text": real_text,
    "standard_transformer": standard_transformer,
}
