"""The figure of pattern superposition: shares of neurons with several patterns, trained and untrained."""

from __future__ import annotations

import plotly.graph_objects as go
import xarray as xr

from foretrain.show.plotting import add_subtitle, measurement_marks, new_panels, panel_place

PANELS = (
    ("superposed", "unrelated combinations of tokens"),
    ("grouped", "unrelated tokens, in any context"),
)


def fig10(data: xr.Dataset) -> go.Figure:
    """Shares of neurons for each model and text, one mark per layer and seed."""
    figure = new_panels("Neurons that fire for two or more", [words for _, words in PANELS])
    for panel, (name, _) in enumerate(PANELS):
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


FIGURES = {"fig10": fig10}
