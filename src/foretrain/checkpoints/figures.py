"""Curves over training: one line per matrix, layer or head."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from plotly.colors import sample_colorscale

from foretrain.checkpoints.matrix_names import in_order, layer_labels, layer_number
from foretrain.show.plotting import PALETTE, log_ticks, new_panels, panel_place, plain_text, power_ticks

COLUMNS = 4  # most panels in a row
COLOURS = "Viridis"  # from the first layer (dark) to the last (light)
DASHES = ("solid", "dot", "dash")  # heads beyond the number of colours
NAMED = 8  # most layers or heads in the legend
Over = xr.DataArray | xr.Dataset


def losses(dataset: xr.Dataset) -> go.Figure:
    """The loss over training."""
    figure = new_panels("", [""], columns=1)
    _add_line(figure, dataset["loss"], "step %{text}: %{y:.4g} nats", {"color": PALETTE[0]}, showlegend=False)
    figure.update_yaxes(title_text="loss (nats)")
    figure.update_layout(height=340)
    return _finished(figure, dataset, 1)


def curves(panels: Mapping[str, xr.DataArray], axis: str, title: str, band: float = math.nan) -> go.Figure:
    """A panel for each array over (step, axis), a line for each entry of the axis, coloured by the layer it is in.

    `band` shades what is within this distance of 0.
    """
    columns = _columns(list(panels))
    figure = _small_panels([plain_text(name) for name in panels], columns)
    numbers = sorted({layer_number(name) or 0 for values in panels.values() for name in values[axis].values.tolist()})
    named = {numbers[k] for k in np.linspace(0, len(numbers) - 1, min(NAMED, len(numbers))).round().astype(int)}
    for index, values in enumerate(panels.values()):
        for name in in_order(values[axis].values.tolist()):
            number = layer_number(name) or 0
            color = sample_colorscale(COLOURS, [0.9 * number / max(1, numbers[-1])])[0]
            _add_line(
                figure, values.sel({axis: name}), f"{plain_text(name)}<br>step %{{text}}: %{{y:.4g}}",
                {"color": color, "width": 1.5}, marker={"size": 4}, name=f"layer {number}",
                legendgroup=f"layer {number}", showlegend=number in named, **panel_place(index, columns),
            )  # fmt: skip
            named.discard(number)
    if math.isfinite(band):
        figure.add_hrect(y0=-band, y1=band, fillcolor="#000000", opacity=0.1, line_width=0)
    figure.update_yaxes(title_text=title, col=1)
    return _finished(figure, next(iter(panels.values())), columns)


def heads(entropy: xr.DataArray) -> go.Figure:
    """A small panel for each layer with a line for each head, over (step, layer, head)."""
    layers = in_order(entropy["layer"].values.tolist())
    labels = [plain_text(label) for label in layer_labels(layers)]
    columns = _columns(labels)
    figure = _small_panels(labels, columns, shared_yaxes="all")
    unnamed = list(range(min(entropy.sizes["head"], len(PALETTE) * len(DASHES))))
    for index, (layer, label) in enumerate(zip(layers, labels, strict=True)):
        for head in range(entropy.sizes["head"]):
            line = entropy.sel(layer=layer).isel(head=head)
            if np.isfinite(line).any():
                dash = DASHES[head // len(PALETTE) % len(DASHES)]
                _add_line(
                    figure, line, f"{label}, head {head}<br>step %{{text}}: %{{y:.3f}} nats",
                    {"color": PALETTE[head % len(PALETTE)], "width": 1.5, "dash": dash}, marker={"size": 4},
                    name=f"head {head}", legendgroup=f"head {head}", showlegend=head in unnamed,
                    **panel_place(index, columns),
                )  # fmt: skip
                unnamed = [other for other in unnamed if other != head]
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title_text="entropy (nats)", col=1)
    return _finished(figure, entropy, columns)


def mark_steps(figure: go.Figure, over: xr.Dataset, steps: list[int]) -> go.Figure:
    """A dotted line at each of these steps, for checkpoints with faults."""
    for step, x in zip(over["step"].values.tolist(), _positive(over), strict=True):
        if step in steps:
            figure.add_vline(x=x, line={"color": PALETTE[1], "width": 1, "dash": "dot"})
    return figure


def _add_line(figure: go.Figure, values: xr.DataArray, says: str, line: dict[str, Any], **more: Any) -> None:
    """A line over the steps; `says` is what a cell says under the pointer, with the step as %{text}."""
    figure.add_scatter(
        x=_positive(values),
        y=[float(f"{value:.5g}") if np.isfinite(value) else None for value in values.values],
        mode="lines+markers",
        line=line,
        text=[str(step) for step in values["step"].values.tolist()],
        hovertemplate=f"{says}<extra></extra>",
        **more,
    )


def _columns(titles: list[str]) -> int:
    """As many panels in a row as their titles have room for."""
    longest = max(map(len, titles))
    return min(len(titles), COLUMNS if longest <= 28 else 2 if longest <= 60 else 1)


def _small_panels(titles: list[str], columns: int, **options: object) -> go.Figure:
    rows = -(-len(titles) // columns)
    height = 80 + 240 * rows if columns > 2 else 100 + 280 * rows
    spacing = {"horizontal_spacing": 0.28 / columns, "vertical_spacing": 62 / height if rows > 1 else 0.0}
    figure = new_panels("", titles, columns=columns, **spacing, **options)
    figure.update_annotations(font_size=13)
    figure.update_layout(height=height, font_size=12)
    return figure


def _finished(figure: go.Figure, over: Over, columns: int) -> go.Figure:
    """A logarithmic axis if the steps span decades; step 0 is then drawn left of the first step."""
    figure.update_xaxes(title_text="step", title_standoff=4)
    if _is_log(over):
        figure.update_xaxes(type="log", **_ticks(over, columns))
    figure.update_layout(margin={"l": 60, "r": 12, "t": 40, "b": 50})
    return figure


def _ticks(over: Over, columns: int) -> dict[str, list[object]]:
    """Few in small panels; the place left of the first step, where step 0 is drawn, is called 0."""
    steps = over["step"].values
    positive = steps[steps > 0]
    ticks = (power_ticks if columns > 2 else log_ticks)(positive)
    pairs = [
        (x, text)
        for x, text in zip(ticks["tickvals"], ticks["ticktext"], strict=True)
        if 0.9 * positive[0] <= x <= steps[-1]
    ]
    if steps[-1] > 2.5 * pairs[-1][0] or len(pairs) < 2:
        pairs.append((float(steps[-1]), f"{steps[-1]:,}"))
    if len(positive) < len(steps):
        pairs.insert(0, (_positive(over)[0], "0"))
    return {"tickvals": [x for x, _ in pairs], "ticktext": [text for _, text in pairs]}


def _is_log(over: Over) -> bool:
    steps = over["step"].values
    positive = steps[steps > 0]
    return len(positive) > 2 and bool(positive[-1] / positive[0] >= 30)


def _positive(over: Over) -> list[float]:
    """The steps; on a logarithmic axis, 0 is drawn at half of the first positive step."""
    steps = over["step"].values.astype(float)
    if _is_log(over):
        steps = np.where(steps > 0, steps, steps[steps > 0][0] / 2)
    return [float(step) for step in steps]
