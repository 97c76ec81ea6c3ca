"""Maps of one model: a cell for each layer and kind of matrix, or for each layer and head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.checkpoints.fault import Record
from foretrain.checkpoints.matrix_names import by_kind, in_order, layer_labels, layer_number
from foretrain.show.plotting import new_panels, panel_place, plain_text

WRITTEN = 16  # most columns of a map for which the numbers are written into the cells
CELL = 26  # pixels, height of a row


def rank_map(record: Record) -> go.Figure | None:
    """The stable rank of every matrix, relative to the largest it could be; None if no layer is known by its name."""
    kinds = by_kind(record["weights"])
    numbers = sorted(
        {number for names in kinds.values() for name in names if (number := layer_number(name)) is not None}
    )
    shares = np.full((len(numbers), len(kinds)), np.nan)
    said = np.full(shares.shape, "", dtype=object)
    for column, names in enumerate(kinds.values()):
        for row, number in enumerate(numbers):
            inside = [name for name in names if layer_number(name) == number]
            ranks = {name: float(record["weights"][name]["stable_rank"]) for name in inside}
            most = {name: min(record["tensors"][name]["shape"]) for name in inside}
            if inside:
                shares[row, column] = np.mean([ranks[name] / most[name] for name in inside])
                said[row, column] = "<br>".join(
                    f"{plain_text(name)}: {ranks[name]:.3g} of at most {most[name]}" for name in inside[:8]
                )
    if not np.isfinite(shares).any():
        return None
    labels, rows = [plain_text(kind) for kind in kinds], [f"layer {number}" for number in numbers]
    figure = new_panels("", [""], columns=1)
    figure.add_trace(_map(shares, labels, rows, said), **panel_place(0, 1))
    return _finished(
        figure,
        len(rows),
        {"colorscale": "Blues", "cmin": 0, "cmax": float(np.nanmax(shares)), "colorbar_title_text": "share"},
    )


def head_map(products: Mapping[str, xr.DataArray], title: str, *, signed: bool, least: float = 0.0) -> go.Figure:
    """A map for each array over (layer, head). Signed values have 0 in white, and colours reach at least to `least`."""
    figure = new_panels("", [plain_text(name) for name in products], columns=len(products), horizontal_spacing=0.12)
    largest, count = least, 0
    for index, values in enumerate(products.values()):
        kept = values.dropna("layer", how="all").dropna("head", how="all")
        kept = kept.sel(layer=in_order(kept["layer"].values.tolist()))
        rows = [plain_text(label) for label in layer_labels(kept["layer"].values.tolist())]
        columns = [str(head) for head in kept["head"].values.tolist()]
        cells = [[f"{row}, head {head}: {cell:.3f}" for head, cell in zip(columns, line, strict=True)]
                 for row, line in zip(rows, kept.values, strict=True)]  # fmt: skip
        figure.add_trace(_map(kept.values, columns, rows, cells), **panel_place(index, len(products)))
        largest, count = max(largest, float(np.nanmax(np.abs(kept.values)))), max(count, len(rows))
    figure.update_xaxes(title_text="head", title_standoff=4)
    colours = {"colorscale": "RdBu_r", "cmin": -largest} if signed else {"colorscale": "Blues", "cmin": 0}
    return _finished(figure, count, colours | {"cmax": largest, "colorbar_title_text": title})


def _map(values: np.ndarray, columns: list[str], rows: list[str], said: Any) -> go.Heatmap:
    cells = [[float(f"{value:.5g}") if np.isfinite(value) else None for value in line] for line in values.tolist()]
    written = {"texttemplate": "%{z:.2f}", "textfont": {"size": 11}} if len(columns) <= WRITTEN else {}
    return go.Heatmap(
        z=cells, x=columns, y=rows, xgap=1, ygap=1, coloraxis="coloraxis", hoverongaps=False, **written,
        customdata=np.asarray(said, dtype=object).tolist(), hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def _finished(figure: go.Figure, rows: int, colours: dict[str, Any]) -> go.Figure:
    bar = {"colorbar_thickness": 10, "colorbar_outlinewidth": 0, "colorbar_title_side": "right"}
    figure.update_layout(
        coloraxis=dict(colours | bar), height=130 + CELL * max(3, rows), margin={"l": 60, "r": 12, "t": 40, "b": 50},
        font_size=12,
    )  # fmt: skip
    figure.update_annotations(font_size=13)
    figure.update_xaxes(type="category", showgrid=False, ticks="")
    figure.update_yaxes(type="category", showgrid=False, ticks="", autorange="reversed")
    return figure
