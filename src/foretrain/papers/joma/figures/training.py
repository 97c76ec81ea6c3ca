"""Figures of trained networks: Fig 2 and 3, the rank of section 4, the order of section 5, Table 1."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.papers.joma.experiments.table1 import printed_table
from foretrain.papers.joma.setting import TABLE1
from foretrain.show.curve_panels import CurvePanels
from foretrain.show.plotting import INK, PALETTE, measurement_marks, new_panels, panel_place, prediction_line

PARTS = (("", "estimate ẑ"), ("_first", "its part ½Σv²"), ("_second", "its part −½Σ‖v‖²b̄"))
READINGS = (("plain_cosine", "not centred"), ("cosine", "centred"))


def fig2(data: xr.Dataset) -> go.Figure:
    """Cosines of the estimate and its parts with the logits, centred and not, one column per data set; the size of the
    estimate; and how far Assumption 1 is from true."""
    kinds = data["kind"].values.tolist()
    columns = len(kinds) + 1
    titles = []
    for _, reading in READINGS:
        last = "size: slope of z on ẑ" if reading == "not centred" else "Assumption 1: size of E[g x]"
        titles += [*(f"{kind} classes, {reading}" for kind in kinds), last]
    figure = new_panels(
        "Theorem 1's estimate ẑ of the attention logits z along training",
        titles,
        columns=columns,
        horizontal_spacing=0.09,
        vertical_spacing=0.17,
    )
    for row, (reading, _) in enumerate(READINGS):
        for column, kind in enumerate(kinds):
            place = row * columns + column
            for color, (part, words) in enumerate(PARTS):
                curve = data[f"{reading}{part}"].sel(kind=kind)
                mean_and_runs(figure, curve, words, color, place, columns, legend=place == 0)
            figure.update_yaxes(range=[-0.6, 1.05], row=row + 1, col=column + 1)
        figure.update_yaxes(title="cosine with z", row=row + 1, col=1)
    for row, name in enumerate(("slope", "pull_size")):
        for color, kind in enumerate(kinds):
            curve = data[name].sel(kind=kind)
            place = (row + 1) * columns - 1
            mean_and_runs(figure, curve, f"{kind} classes", len(PARTS) + color, place, columns, legend=row == 0)
        figure.add_hline(y=1, line={"dash": "dot", "color": INK}, row=row + 1, col=columns)
        figure.update_yaxes(rangemode="tozero", row=row + 1, col=columns)
    figure.update_yaxes(title="slope", row=1, col=columns)
    figure.update_yaxes(title="over that at the start", row=2, col=columns)
    figure.update_xaxes(title="step", row=2)
    return figure.update_layout(height=720, legend={"orientation": "h", "y": -0.12, "yanchor": "top"})


def fig3(data: xr.Dataset) -> go.Figure:
    """The components of one node's v over time for the first seed, and their final size against |Δ| for all seeds."""
    node = int(data["node"][0])
    figure = new_panels(
        f"Components of one node's v along training, {config_of(data).get('activation', 'linear')} activation",
        [f"seed {int(data['seed'][0])}, node {node}", "all seeds: size at the end against Δ at the start"],
        horizontal_spacing=0.12,
    )
    curves = data["v"].isel(seed=0).transpose("context", "time")
    largest = np.argsort(-np.abs(curves.isel(time=-1).values))
    for rank, token in enumerate(largest):
        shown = rank < 4
        color = PALETTE[rank] if shown else "#c3c8cf"
        words = f"token {token}" if shown else "the other tokens"
        line = prediction_line(data["time"], curves.isel(context=token), words, color, showlegend=rank <= 4)
        figure.add_trace(line, **panel_place(0))
    size, pull = (abs(a).transpose("seed", "context").values.ravel() for a in (data["v"].isel(time=-1), data["pull"]))
    figure.add_trace(measurement_marks(pull, size, "one component", INK, showlegend=False), **panel_place(1))
    figure.update_xaxes(title="step", **panel_place(0))
    figure.update_yaxes(title=f"weights v<sub>l</sub> of node {node}", **panel_place(0))
    figure.update_xaxes(title="pull |Δ<sub>l</sub>| at the start", **panel_place(1))
    figure.update_yaxes(title="|v<sub>l</sub>| at the end", type="log", dtick=1, **panel_place(1))
    return figure.update_layout(height=480, legend={"orientation": "h", "y": -0.25, "yanchor": "top"})


def rank(data: xr.Dataset) -> go.Figure:
    """Stable rank over time in one layer, and layer by layer in a transformer."""
    layers = data["layer"].values.tolist()
    panels = ["one layer", *(f"transformer, MLP {layer}" for layer in layers)]
    figure = new_panels("Stable rank of the lower MLP matrix along training", panels, horizontal_spacing=0.1)
    for color, activation in enumerate(data["activation"].values.tolist()):
        one = data["stable_rank"].sel(activation=activation)
        mean_and_runs(figure, one, f"{activation} activation", color, 0, 2, legend=True)
        for panel, layer in enumerate(layers, start=1):
            many = data["transformer_rank"].sel(activation=activation, layer=layer).rename(transformer_time="time")
            mean_and_runs(figure, many, activation, color, panel, 2, legend=False)
    figure.update_xaxes(title="step")
    figure.update_yaxes(title="stable rank", rangemode="tozero")
    figure.update_yaxes(type="log", rangemode="normal", tickvals=[1, 1.5, 2, 3, 5], **panel_place(0))
    return figure.update_layout(height=700, legend={"orientation": "h", "y": -0.12, "yanchor": "top"})


def order(data: xr.Dataset) -> go.Figure:
    """Half-way times of the flow by ancestor, the transformer's logits by ancestor, and NCorr of its two layers."""
    rho = float(data["rho"].max())
    objectives = data["objective"].values.tolist()
    words = {"match": "label: query belongs to context", "class": "label: class"}
    figure = new_panels(
        "When a hierarchy is found: by layer of the common ancestor, and by layer of the network",
        ["JoMA flow: time to be half way", *(f"logits, {words[o]} (ρ = {rho:g})" for o in objectives), "NCorr"],
        horizontal_spacing=0.1,
        vertical_spacing=0.2,
    )
    for color, value in enumerate(data["rho"].values.tolist()):
        one = data.sel(rho=value)
        marks = measurement_marks(one["token_ancestor"], one["flow_half_time"], f"flow, ρ = {value:g}", color)
        figure.add_trace(marks, **panel_place(0))
    chosen = data.sel(rho=rho)
    for panel, objective in enumerate(objectives, start=1):
        for color, ancestor in enumerate(data["ancestor"].values.tolist()):
            curve = chosen["logits"].sel(objective=objective, ancestor=ancestor)
            label = f"ancestor at layer {ancestor}"
            mean_and_runs(figure, curve, label, color + 2, panel, 2, legend=panel == 1)
        for layer, dash in zip(data["layer"].values.tolist(), ("solid", "dash"), strict=True):
            curve = chosen["ncorr"].sel(objective=objective, layer=layer).mean("seed")
            line = prediction_line(data["time"], curve, f"NCorr, {objective}, MLP {layer}", panel - 1)
            line.line.dash = dash
            figure.add_trace(line, **panel_place(len(objectives) + 1))
        figure.update_xaxes(title="step", **panel_place(panel))
        figure.update_yaxes(title="logit above the mean token", **panel_place(panel))
    figure.update_xaxes(title="layer of the common ancestor", dtick=1, **panel_place(0))
    figure.update_yaxes(title="time", **panel_place(0))
    figure.update_xaxes(title="step", **panel_place(len(objectives) + 1))
    figure.update_yaxes(title="NCorr", **panel_place(len(objectives) + 1))
    return figure.update_layout(height=800, legend={"orientation": "h", "y": -0.14, "yanchor": "top"})


def table1(data: xr.Dataset) -> go.Figure:
    """NCorr by configuration: of random nodes, untrained, trained, trained on shuffled labels, and as printed."""
    rows = list(product(data["generator"].values.tolist(), data["hidden"].values.tolist()))
    names = data["configuration"].values.tolist()
    printed = printed_table([name for name in names if name in TABLE1])
    figure = new_panels(
        "Alignment of hidden nodes with latents (NCorr), mean and standard deviation over seeds",
        [f"{generator}, {nodes} hidden nodes, s = {s}" for generator, nodes in rows for s in (0, 1)],
        horizontal_spacing=0.07,
        vertical_spacing=0.16 / len(rows),
    )
    for (row, (generator, nodes)), s in product(enumerate(rows), (0, 1)):
        place = {"row": row + 1, "col": s + 1}
        chance = data["chance"].sel(generator=generator, hidden=nodes, s=s).mean("seed")
        marks = measurement_marks(np.arange(len(names)), chance, "random nodes", INK, showlegend=row == s == 0)
        marks.marker.symbol = "line-ew-open"
        marks.marker.size = 16
        marks.marker.line = {"width": 2, "color": INK}
        figure.add_trace(marks, **place)
        for color, training in enumerate(data["training"].values.tolist()):
            cell = data["ncorr"].sel(generator=generator, hidden=nodes, training=training, s=s)
            words = {"none": "untrained", "labels": "trained"}.get(training, training)
            marks = measurement_marks(
                np.arange(len(names)) + 0.2 * (color - 1),
                cell.mean("seed"),
                words,
                (5, 0, 7)[color],
                cell.std("seed", ddof=1) if data.sizes["seed"] > 1 else None,
                showlegend=row == s == 0,
            )
            figure.add_trace(marks, **place)
        if generator == "set union" and printed.sizes["configuration"]:
            columns = [names.index(name) for name in printed["configuration"].values]
            mean, spread = (printed[name].sel(s=s) for name in ("ncorr", "ncorr_std"))
            marks = measurement_marks(np.array(columns) + 0.1, mean, "as printed", 1, spread, showlegend=row == s == 0)
            marks.marker.symbol = "diamond-open"
            figure.add_trace(marks, **place)
        shown = row == len(rows) - 1  # the rows have the same columns, and there is no room between them
        ticks = {"tickvals": list(range(len(names))), "ticktext": names, "tickangle": -50}
        figure.update_xaxes(**ticks, showticklabels=shown, **place)
        figure.update_yaxes(range=[0.1, 1.05], **place)
        figure.update_yaxes(title="NCorr", row=row + 1, col=1)
    return figure.update_layout(
        height=240 + 300 * len(rows), legend={"orientation": "h", "y": -0.36 / len(rows), "yanchor": "top"}
    )


def mean_and_runs(
    figure: go.Figure, runs: xr.DataArray, words: str, color: int, panel: int, columns: int, legend: bool | None = None
) -> None:
    """The mean over seeds as a line, and each seed as a faint line."""
    place = panel_place(panel, columns)
    if runs.sizes["seed"] > 1:
        for seed in range(runs.sizes["seed"]):
            faint = prediction_line(runs["time"], runs.isel(seed=seed), words, color, showlegend=False, opacity=0.25)
            faint.line.width = 1
            figure.add_trace(faint, **place)
    shown = True if legend is None else legend
    figure.add_trace(prediction_line(runs["time"], runs.mean("seed"), words, color, showlegend=shown), **place)


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure] | CurvePanels] = {
    "fig2": fig2,
    "fig3": fig3,
    "rank": rank,
    "sparse_dense": CurvePanels(
        "Sparse, then dense? Entropy of attention while one node learns a teacher",
        ("entropy",),
        panels="activation",
        same_y=True,
        log_y=False,
    ),
    "order": order,
    "table1": table1,
}
