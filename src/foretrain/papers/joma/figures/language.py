"""Figures of encoders and language models trained on text: Fig 6, 7, 8 and 10."""

from __future__ import annotations

import plotly.graph_objects as go
import xarray as xr

from foretrain.papers.joma.figures.training import mean_and_runs
from foretrain.show.curve_panels import CurvePanels
from foretrain.show.plotting import add_subtitle, measurement_marks, new_panels, panel_place


def fig8(data: xr.Dataset) -> go.Figure:
    """Entropy of every layer against the step, one panel per depth and rate, and the validation loss."""
    depths, rates = data["depth"].values.tolist(), data["rate"].values.tolist()
    loss = data["validation_loss"].mean("seed").isel(text=0).min("step")
    cells = [(depth, rate) for depth in depths for rate in rates]
    lowest = [float(loss.sel(depth=depth, rate=rate)) for depth, rate in cells]
    titles = [
        f"{depth} layer{'s' * (depth > 1)}, rate {rate:g}: validation loss {low:.2f}"
        for (depth, rate), low in zip(cells, lowest, strict=True)
    ]
    figure = new_panels("Entropy of attention on validation text along training", titles, columns=len(rates))
    for panel, (depth, rate) in enumerate(cells):
        for text in data["text"].values.tolist():
            for layer in range(int(depth)):
                curves = data["entropy"].sel(depth=depth, rate=rate, text=text, layer=layer).rename(step="time")
                words = f"layer {layer}" + (f", {text} text" if data.sizes["text"] > 1 else "")
                legend = panel == len(cells) - len(rates)
                mean_and_runs(figure, curves, words, layer, panel, len(rates), legend)
    figure.update_xaxes(title="step")
    return figure.update_yaxes(title="nats", rangemode="tozero", col=1)


def fig10(data: xr.Dataset) -> go.Figure:
    """Shares of neurons for each model and text, one mark per layer and seed."""
    panels = {"superposed": "unrelated combinations of tokens", "grouped": "unrelated tokens, in any context"}
    figure = new_panels("Neurons that fire for two or more", list(panels.values()))
    for panel, name in enumerate(panels):
        for color, model in enumerate(data["model"].values.tolist()):
            shares = data[name].sel(model=model).transpose("text", "layer", "seed")
            places = [f"{model},<br>{text} text" for text in data["text"].values for _ in range(shares[0].size)]
            marks = measurement_marks(places, shares.values.ravel(), str(model), color, showlegend=False)
            figure.add_trace(marks, **panel_place(panel))
    figure.update_xaxes(type="category")
    figure.update_yaxes(range=[-0.03, 1])
    figure.update_yaxes(title="share of neurons", row=1, col=1)
    add_subtitle(figure, "One mark per layer and seed.")
    return figure


FIGURES = {
    "fig7": CurvePanels(
        "Stable rank of the lower MLP matrices over checkpoints", ("stable_rank",), panels="weights", log_x=True
    ),
    "fig8": fig8,
    "fig10": fig10,
}
