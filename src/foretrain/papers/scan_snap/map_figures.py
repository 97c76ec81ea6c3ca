"""The map of where each prediction of attention is right."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.show.plotting import new_panels, panel_place

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


FIGURES = {"training_map": training_map}
