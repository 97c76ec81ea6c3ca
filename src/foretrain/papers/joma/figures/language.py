"""Figures of encoders and language models trained on text: Fig 6, 7 and 8."""

from __future__ import annotations

import plotly.graph_objects as go
import xarray as xr

from foretrain.show.plotting import PALETTE, new_panels, panel_place, prediction_line


def fig8(data: xr.Dataset) -> go.Figure:
    """Entropy of every layer against the step, one panel per depth and rate, and the validation loss."""
    depths, rates = data["depth"].values.tolist(), data["rate"].values.tolist()
    panels = [_panel(depth, rate, data) for depth in depths for rate in rates]
    figure = new_panels("Entropy of attention on validation text along training", panels, columns=len(rates))
    for row, depth in enumerate(depths):
        for column, rate in enumerate(rates):
            cell = data["entropy"].sel(depth=depth, rate=rate)
            for text in data["text"].values.tolist():
                for layer in range(int(depth)):
                    legend = row == len(depths) - 1 and column == 0
                    name = f"layer {layer}" + (f", {text} text" if data.sizes["text"] > 1 else "")
                    runs, panel = cell.sel(text=text, layer=layer), row * len(rates) + column
                    _seeds(figure, runs, name, layer, panel, len(rates), legend)
    figure.update_xaxes(title="step")
    return figure.update_yaxes(title="nats", rangemode="tozero", col=1)


def fig7(data: xr.Dataset) -> go.Figure:
    """Stable rank of the lower MLP matrix of every layer, for trained weights and for a random walk."""
    kinds = data["weights"].values.tolist()
    figure = new_panels("Stable rank of the lower MLP matrices over checkpoints", kinds, columns=len(kinds))
    shown = data["stable_rank"].assign_coords(step=data["step"] + 0.5)  # so that step 0 has a place on a log axis
    for panel, kind in enumerate(kinds):
        for layer in data["layer"].values.tolist():
            _seeds(figure, shown.sel(weights=kind, layer=layer), f"layer {layer}", layer, panel, len(kinds), panel == 0)
    figure.update_xaxes(title="step (0 at the left edge)", type="log")
    return figure.update_yaxes(title="stable rank", rangemode="tozero", col=1)


def _panel(depth: int, rate: float, data: xr.Dataset) -> str:
    loss = float(data["validation_loss"].sel(depth=depth, rate=rate).mean("seed").isel(text=0).min("step"))
    return f"{depth} layer{'s' * (depth > 1)}, rate {rate:g}: validation loss {loss:.2f}"


def _seeds(
    figure: go.Figure, runs: xr.DataArray, name: str, color: int, panel: int, columns: int, legend: bool
) -> None:
    """The mean over seeds as a line, and every seed as a thin one."""
    place = panel_place(panel, columns)
    for seed in runs["seed"].values:
        thin = prediction_line(runs["step"], runs.sel(seed=seed), name, color, opacity=0.3, showlegend=False)
        figure.add_trace(thin.update(line={"width": 1}), **place)
    mean = prediction_line(runs["step"], runs.mean("seed"), name, PALETTE[color % len(PALETTE)], showlegend=legend)
    figure.add_trace(mean, **place)


FIGURES = {"fig7": fig7, "fig8": fig8}
