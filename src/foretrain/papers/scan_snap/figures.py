"""One Plotly figure per experiment of Scan and Snap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
import xarray as xr

from foretrain.core.trajectory import config_of
from foretrain.papers.scan_snap import map_figures
from foretrain.papers.scan_snap.setting import TRAINING, published_fig6
from foretrain.show.curve_panels import CurvePanels
from foretrain.show.plotting import band, measurement_marks, new_panels, panel_place, prediction_line


def fig3(run: xr.Dataset) -> go.Figure:
    config = config_of(run)
    title = f"Fig 3: growth factor of a distinct token, η<sub>Z</sub> = {config['eta_z']:g} (dot: the snap t₀)"
    return _by_formula(run, "growth_factor", "eta_y", "η<sub>Y</sub>", title, "growth factor χ")


def fig9(run: xr.Dataset) -> go.Figure:
    ratio = f"η<sub>Y</sub>/η<sub>Z</sub> = {config_of(run)['ratio']:g}"
    title = f"Fig 9: logit of a distinct token at {ratio}; the same for all at the snap t₀"
    return _by_formula(run, "logit", "eta_z", "η<sub>Z</sub>", title, "logit z")


def _by_formula(run: xr.Dataset, name: str, axis: str, symbol: str, title: str, y: str) -> go.Figure:
    """One panel per formula: a curve per rate, with a dot where it snaps."""
    formulas = run["formula"].values.tolist()
    figure = new_panels(title, [f"Theorem 4 {f}" if "training" not in f else f for f in formulas], columns=3)
    for panel, formula in enumerate(formulas):
        for color, rate in enumerate(run[axis].values):
            one, label = run.sel({axis: rate, "formula": formula}), f"{symbol} = {rate:g}"
            group = {"legendgroup": label, "showlegend": panel == 0}
            line = prediction_line(one["time"], one[name], label, color, **group)
            figure.add_trace(line, **panel_place(panel, 3))
            t0 = float(one["snap_time"])
            if t0 <= float(one["time"].max()):
                at = float(one[name].interp(time=t0))
                dot = measurement_marks([t0], [at], label, color, legendgroup=label, showlegend=False)
                figure.add_trace(dot, **panel_place(panel, 3))
    figure.update_xaxes(title="time (steps)")
    figure.update_yaxes(title=y, col=1)
    return figure


def fig4(run: xr.Dataset) -> go.Figure:
    cells = [(rate, n) for n in run["class"].values for rate in run["eta_y"].values]
    titles = [f"class {n}, η<sub>Y</sub> = {rate:g}" for rate, n in cells]
    maps = [run["attention"].sel({"eta_y": rate, "class": n}).mean("seed") for rate, n in cells]
    title = "Fig 4: attention c<sub>n</sub> over training on Syn-Small, SGD (tokens 0–9 common, mean over seeds)"
    return _heat_maps(title, titles, maps, columns=run.sizes["eta_y"])


def fig5(run: xr.Dataset) -> go.Figure:
    tokens = run["token"].values
    one = run["attention"].isel({"class": 0, "seed": 0}).sel(token=tokens[(tokens >= 10) & (tokens < 20)])
    titles = [f"η<sub>Y</sub> = η<sub>Z</sub> = {rate:g}" for rate in run["rate"].values]
    optimizer = config_of(run)["optimizer"]
    shared = ", ".join(
        f"{pair}: {share:.0%}"
        for pair, share in zip(run["pair"].values, run["overlap"].mean(["seed", "class"]).values, strict=True)
    )
    figure = _heat_maps(
        f"Fig 5: attention on the distinct tokens of class 1 with {optimizer} (one seed)"
        f"<br><sup>top tokens that two rates share, mean over seeds and classes: {shared}</sup>",
        titles,
        [one.sel(rate=rate) for rate in run["rate"].values],
        columns=run.sizes["rate"],
    )
    return figure.update_layout(margin_t=110)


def _heat_maps(title: str, titles: list[str], maps: list[xr.DataArray], columns: int) -> go.Figure:
    figure = new_panels(title, titles, columns=columns, shared_xaxes=True, shared_yaxes=True, vertical_spacing=0.12)
    for i, values in enumerate(maps):
        heat = go.Heatmap(
            x=values["time"].values.tolist(),
            y=values["token"].values.tolist(),
            z=values.transpose("token", "time").values.tolist(),
            coloraxis="coloraxis",
            hovertemplate="step %{x}, token %{y}: %{z:.3f}<extra></extra>",
        )
        figure.add_trace(heat, **panel_place(i, columns))
    rows = -(-len(maps) // columns)
    figure.update_layout(coloraxis={"colorscale": "Viridis", "colorbar": {"title": "attention"}})
    figure.update_xaxes(title="time (steps)", row=rows)
    figure.update_yaxes(title="token", col=1)
    return figure


def fig6(run: xr.Dataset) -> go.Figure:
    columns = min(2, run.sizes["queries"])
    figure = new_panels(
        f"Fig 6: entropy of attention on distinct tokens, Syn-Medium after {config_of(run)['steps']} steps "
        "(band: one standard deviation over seeds)",
        [f"{n} query token{'s' * (n > 1)}, {2 * n} next tokens" for n in run["queries"].values.tolist()],
        columns=columns,
        horizontal_spacing=0.12,
        vertical_spacing=0.14,
    )
    config = config_of(run)
    comparable = config["steps"] == TRAINING.steps and config["start"] == "uniform"
    published = published_fig6() if comparable else published_fig6().isel(queries=[])
    published = published.sel({axis: np.intersect1d(published[axis], run[axis]) for axis in published["entropy"].dims})
    for i, number in enumerate(run["queries"].values):
        place = panel_place(i, columns)
        for j, rate in enumerate(run["eta_z"].values):
            cells = run["entropy"].sel(queries=number, eta_z=rate)
            name, group = f"η<sub>Z</sub> = {rate:g}", {"legendgroup": f"{rate:g}", "showlegend": i == 0}
            mean, spread = cells.mean("seed"), cells.std("seed")
            figure.add_trace(band(cells["ratio"], mean - spread, mean + spread, j, legendgroup=f"{rate:g}"), **place)
            marks = measurement_marks(cells["ratio"], mean, name, j, **group)
            figure.add_trace(marks.update(mode="lines+markers"), **place)
            if number not in published["queries"] or rate not in published["eta_z"]:
                continue
            printed = published["entropy"].sel(queries=number, eta_z=rate).dropna("ratio")
            if printed.size:
                marks = measurement_marks(printed["ratio"], printed, "published", j, legendgroup="p", showlegend=False)
                figure.add_trace(marks.update(marker={"symbol": "diamond-open", "size": 11}), **place)
    if comparable:
        key = measurement_marks([None], [None], "published mean", "#1b1f24", legendgroup="p")
        figure.add_trace(key.update(marker={"symbol": "diamond-open", "size": 11}), row=1, col=1)
    ticks = run["ratio"].values.tolist()
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{t:g}" for t in ticks])
    figure.update_xaxes(title="η<sub>Y</sub>/η<sub>Z</sub>", row=-(-run.sizes["queries"] // columns))
    figure.update_yaxes(title="entropy (nats)", col=1)
    return figure


def fig8(run: xr.Dataset) -> go.Figure:
    titles = ["h* per step (staircase) and h in continuous time", "gap h* − h, in units of η<sub>Y</sub>/M"]
    figure = new_panels("Fig 8: growth of the decoder", titles, columns=2, horizontal_spacing=0.12)
    vocab = config_of(run)["vocab"]
    few = run.isel(time=slice(0, 61))
    for i, rate in enumerate(run["eta_y"].values):
        name, group = f"η<sub>Y</sub> = {rate:g}", {"legendgroup": f"{rate:g}"}
        one = few.sel(eta_y=rate)
        figure.add_trace(prediction_line(one["time"], vocab * one["h"], name, i, **group), row=1, col=1)
        stairs = prediction_line(one["time"], vocab * one["h_discrete"], name, i, showlegend=False, **group)
        figure.add_trace(stairs.update(line={"shape": "hv", "width": 1}), row=1, col=1)
        gap = run["gap"].sel(eta_y=rate) * vocab / rate
        figure.add_trace(prediction_line(run["time"], gap, name, i, showlegend=False, **group), row=1, col=2)
    figure.update_xaxes(title="time (steps)")
    figure.update_yaxes(title="M·h", col=1)
    return figure


FIGURES: dict[str, Callable[[xr.Dataset], go.Figure] | CurvePanels] = {
    "fig3": fig3,
    "fig4": fig4,
    "fig5": fig5,
    "fig6": fig6,
    "fig7": CurvePanels("Fig 7: the first layer's attention while encoders are trained with SGD"),
    "fig8": fig8,
    "fig9": fig9,
    "fig10": CurvePanels("Fig 10: entropy of attention after training with SGD", ("entropy",), over="rate", log_x=True),
    "fig11": CurvePanels(
        "Fig 11: recall of distinct tokens, η_Z = {eta_z:g}", ("recall",), panels="queries", log_y=False
    ),
    "fig12": CurvePanels(
        "Fig 12: recall of distinct tokens, η_Y/η_Z = {ratio:g}", ("recall",), panels="queries", log_y=False
    ),
    **map_figures.FIGURES,
}
