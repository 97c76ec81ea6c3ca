"""Curves over training: one line per matrix, layer or head."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from plotly.colors import sample_colorscale

from foretrain.checkpoints.sentences import layer_number
from foretrain.show.plotting import PALETTE, log_ticks, new_panels, panel_place, plain_text

COLUMNS = 4  # panels in a row, for layers
COLOURS = "Viridis"  # from the first layer (dark) to the last (light)


def losses(dataset: xr.Dataset) -> go.Figure:
    """The loss over training."""
    figure = new_panels("", [""], columns=1)
    figure.add_scatter(
        x=_positive(dataset), y=dataset["loss"].values.tolist(), mode="lines+markers", line={"color": PALETTE[0]},
        name="loss", showlegend=False, **panel_place(0, 1),
    )  # fmt: skip
    figure.update_yaxes(title_text="loss (nats)")
    return _finished(figure, dataset)


def curves(panels: Mapping[str, xr.DataArray], axis: str, title: str) -> go.Figure:
    """A panel for each array over (step, axis), a line for each entry of the axis, coloured by the layer it is in."""
    figure = new_panels("", list(panels), columns=len(panels), shared_yaxes=False)
    for index, values in enumerate(panels.values()):
        names = values[axis].values.tolist()
        numbers = [layer_number(name) or 0 for name in names]
        top = max(1, *numbers) if numbers else 1
        for place, (name, number) in enumerate(zip(names, numbers, strict=True)):
            line = values.isel({axis: place})
            figure.add_scatter(
                x=_positive(values), y=_rounded(line), mode="lines+markers", showlegend=False, name=plain_text(name),
                line={"color": sample_colorscale(COLOURS, [0.9 * number / top])[0], "width": 1.5}, marker={"size": 4},
                hovertemplate=f"{plain_text(name)}<br>step %{{text}}: %{{y:.4g}}<extra></extra>",
                text=[str(step) for step in values["step"].values.tolist()],
                **panel_place(index, len(panels)),
            )  # fmt: skip
    figure.update_yaxes(title_text=title, col=1)
    figure.update_layout(height=380)
    return _finished(figure, next(iter(panels.values())))


def heads(entropy: xr.DataArray) -> go.Figure:
    """A small panel for each layer with a line for each head, over (step, layer, head)."""
    layers = entropy["layer"].values.tolist()
    columns = min(COLUMNS, len(layers))
    figure = new_panels("", [plain_text(_short(name)) for name in layers], columns=columns, shared_yaxes=True)
    for index, layer in enumerate(layers):
        for head in range(entropy.sizes["head"]):
            line = entropy.sel(layer=layer).isel(head=head)
            if np.isfinite(line).any():
                figure.add_scatter(
                    x=_positive(entropy), y=_rounded(line), mode="lines", showlegend=False, name=f"head {head}",
                    line={"color": PALETTE[head % len(PALETTE)], "width": 1.5},
                    text=[str(step) for step in entropy["step"].values.tolist()],
                    hovertemplate=f"head {head}<br>step %{{text}}: %{{y:.3f}} nats<extra></extra>",
                    **panel_place(index, columns),
                )  # fmt: skip
    rows = -(-len(layers) // columns)
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(height=110 + 190 * rows)
    return _finished(figure, entropy, title=False)


def _short(layer: str) -> str:
    number = layer_number(layer)
    return layer if number is None else f"layer {number}"


def mark_steps(figure: go.Figure, over: xr.Dataset, steps: list[int]) -> go.Figure:
    """A dotted line at each of these steps, for checkpoints with faults."""
    for step, x in zip(over["step"].values.tolist(), _positive(over), strict=True):
        if step in steps:
            figure.add_vline(x=x, line={"color": PALETTE[1], "width": 1, "dash": "dot"})
    return figure


def _finished(figure: go.Figure, over: xr.DataArray | xr.Dataset, *, title: bool = True) -> go.Figure:
    """A logarithmic axis if the steps span decades; step 0 is then drawn below the first step."""
    if title:
        figure.update_xaxes(title_text="step" if not _starts_at_zero(over) else "step (0 at the left edge)")
    if _is_log(over):
        figure.update_xaxes(type="log", **log_ticks(_positive(over)))
    figure.update_layout(margin={"l": 60, "r": 12, "t": 40, "b": 50})
    return figure


def _is_log(over: xr.DataArray | xr.Dataset) -> bool:
    steps = over["step"].values
    positive = steps[steps > 0]
    return len(positive) > 2 and bool(positive[-1] / positive[0] >= 30)


def _starts_at_zero(over: xr.DataArray | xr.Dataset) -> bool:
    return _is_log(over) and int(over["step"].values[0]) == 0


def _positive(over: xr.DataArray | xr.Dataset) -> list[float]:
    """The steps; on a logarithmic axis, 0 is drawn at half of the first positive step."""
    steps = over["step"].values.astype(float)
    if _is_log(over):
        steps = np.where(steps > 0, steps, steps[steps > 0][0] / 2)
    return [float(step) for step in steps]


def _rounded(values: xr.DataArray) -> list[float | None]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.values]
