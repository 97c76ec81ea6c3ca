"""Figures of language models: Fig 6, and Fig 7 with 24."""

from __future__ import annotations

import plotly.graph_objects as go
import xarray as xr

from foretrain.show.plotting import measurement_marks, new_panels, panel_place, prediction_line, typeset


def fig6(data: xr.Dataset) -> go.Figure:
    """Validation loss along training, and the difference between runs of the same seed."""
    kinds = data["scaling"].values.tolist()
    panels = ["validation loss, mean over seeds", "difference from the run without scalings, each seed"]
    figure = new_panels("A GPT on WikiText-2 with and without identity scalings", panels, horizontal_spacing=0.12)
    for color, kind in enumerate(kinds):
        loss = data["validation_loss"].sel(scaling=kind)
        name = {"none": "without scalings", "trained": "with scalings", "frozen": "scalings frozen at 0"}[kind]
        figure.add_trace(prediction_line(data["step"], loss.mean("seed"), name, color), **panel_place(0))
        if kind != "none" and "none" in kinds:
            difference = loss - data["validation_loss"].sel(scaling="none")
            for seed in data["seed"].values:
                line = prediction_line(data["step"], difference.sel(seed=seed), name, color, showlegend=False)
                figure.add_trace(line.update(line={"width": 1.2}), **panel_place(1))
    figure.update_xaxes(title="step")
    figure.update_yaxes(title="nats per token")
    return figure.update_layout(height=460, legend={"orientation": "h", "y": -0.25, "yanchor": "top"})


def fig7(data: xr.Dataset) -> go.Figure:
    """Test loss against the number of samples from both starts, and the largest share of the identity in a head."""
    panels = ["test loss on new symbols (1 is chance)", "largest share of the identity in a head"]
    figure = new_panels("αβα against αββ, fine-tuned from a pretrained and from a random start", panels)
    for color, start in enumerate(data["start"].values.tolist()):
        for depth in data["depth"].values.tolist():
            loss = data["test_loss"].sel(start=start, depth=depth)
            name = f"{start}, {depth} layer{'s' * (depth > 1)}"
            line = prediction_line(data["n"], loss.mean("seed"), name, color)
            figure.add_trace(line.update(mode="lines+markers"), **panel_place(0))
            products = {typeset("W_Q·W_Kᵀ"): "identity_query_key", typeset("W_V·W_O"): "identity_value_output"}
            for words, variable in products.items():
                shares = data[variable].sel(start=start, depth=depth).values
                marks = measurement_marks([f"{words}, {start}"] * len(shares), shares, name, color, showlegend=False)
                figure.add_trace(marks, **panel_place(1))
    figure.update_xaxes(title="samples", type="log", **panel_place(0))
    figure.update_yaxes(rangemode="tozero", **panel_place(0))
    return figure.update_layout(height=480, legend={"orientation": "h", "y": -0.3, "yanchor": "top"})


FIGURES = {"fig6": fig6, "fig7": fig7}
