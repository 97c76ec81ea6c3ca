"""Scan and Snap: attention over tokens while a one-layer transformer is trained, predicted and simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy import ndarray as Array

from foretrain.core.errors import InputError, require
from foretrain.explore.figure_theme import BELOW
from foretrain.explore.sliders import Slider, State, from_parameter
from foretrain.explore.view import Formula, Light, Picture, Places, TextTable, View, python_call
from foretrain.ledger.parameters import parameters_of
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments.curves import NONE, fig3
from foretrain.show.plotting import INK, PALETTE, TEMPLATE, measurement_marks, new_figure, prediction_line

TOKENS = ("common 1", "common 2", "distinct 1", "distinct 2", "distinct 3")
COMMON = 2  # how many of these every class has
TIMES = 61
FRAMES = 31
MOST_SIMULATED = 1000  # steps, so that the simulation is done within a second
BATCH, SEEDS = 32, 2

FORMULAS = (
    Formula(
        r"\dot Y = \frac{\eta_Y}{K}\sum_n f_n (e_n-\alpha_n)^{\top},\quad "
        r"\dot z = \frac{\eta_Z}{K}\sum_n \mathrm{diag}(f_n)\,(I-f_n f_n^{\top})\,Y(e_n-\alpha_n)",
        "The flow of training (eq. 7 and 94), drawn as a line; attention on token l of class n is c ∝ P(l|n)·exp(z).",
        "scan_snap/theorem4_training",
    ),
    Formula(
        r"B_n = \tfrac14 \ln\left(C_0 + 4\Gamma\right)",
        "Theorem 4 as printed; the growth factor of the dominant token is exp(2f²B).",
        "scan_snap/theorem4",
    ),
    Formula(
        r"B_n = \tfrac{1}{4K'} \ln\left(1 + \frac{4\Gamma K'(K-1)}{K\rho_0^{4}}\right)",
        "Theorem 4 with its constant of integration and its factors K.",
        "scan_snap/theorem4_all_corrections",
    ),
)


@dataclass(frozen=True)
class TrainedAttention:
    """Attention logits z of the tokens of class 1: by the flow of training, and simulated [seed, time, token]."""

    flow: Array
    simulated: Array
    steps: Array


def controls(_: Places) -> Sequence[Slider]:
    given = parameters_of(fig3)
    return (
        from_parameter(
            given["eta_y"], label="η_Y, rate of the decoder", low=0.05, high=2, log=True, default=0.2,
            says="Learning rate η_Y of the decoder.",
        ),
        from_parameter(given["eta_z"], label="η_Z, rate of attention", low=0.02, high=2, log=True, default=0.1),
        from_parameter(given["classes"], label="K, classes", low=2, high=12, default=2),
        from_parameter(given["vocab"], label="M, tokens", low=20, high=1000, log=True, default=30),
        from_parameter(
            given["until"], label="steps", low=50, high=4000, log=True, default=600, unit="steps",
            says="How long to train.",
        ),
        Slider("length", "T, tokens in a sequence", "whole", 1000, low=8, high=4000, log=True,
                says="The query and its context tokens; the simulation draws them."),
        Slider("profile", "P(token | class)", "bars", (45.0, 0.0, 30.0, 15.0, 10.0), low=0, high=100, names=TOKENS,
                shares=True,
                says="Every class has the common tokens, and distinct tokens of its own with these weights. They are "
                "scaled to sum to 1."),
    )  # fmt: skip


def probabilities(state: State) -> Array:
    """P(token | class), [class, token]: common tokens first, then the distinct tokens class by class."""
    weights = np.asarray(state["profile"], dtype=float)
    require(weights[:COMMON].sum() > 0, "Give a common token some weight: without one, classes cannot be confused.")
    require(weights[COMMON:].sum() > 0, "Give a distinct token some weight: without one, classes cannot be told apart.")
    K, M, shares = state["classes"], state["vocab"], weights / weights.sum()
    common = shares[:COMMON][shares[:COMMON] > 0]
    distinct = shares[COMMON:][shares[COMMON:] > 0]
    require(
        bool(4 + K * (len(distinct) + 1) <= M), f"{K} classes with {len(distinct)} distinct tokens need more than {M}."
    )
    P = np.zeros((K, M))
    P[:, : len(common)] = common
    for n in range(K):
        first = len(common) + n * len(distinct)
        P[n, first : first + len(distinct)] = distinct
    return P


def work(state: State, _: Places) -> TrainedAttention:
    """The flow of training by an ODE solver, and real training with drawn sequences."""
    P, times = probabilities(state), _times(state)
    tokens = np.flatnonzero(P[0])
    flow = theory.predicted_logits(P, eta_y=state["eta_y"], eta_z=state["eta_z"], times=times)[:, tokens]
    return TrainedAttention(flow, *_simulated(P, state, tokens))


def _simulated(P: Array, state: State, tokens: Array) -> tuple[Array, Array]:
    from foretrain.data import SequenceClasses
    from foretrain.dynamics.optimizers import SGD
    from foretrain.dynamics.train import train
    from foretrain.models import Bilinear

    K, M = P.shape
    steps = int(min(state["until"], MOST_SIMULATED))
    save_at = np.unique(np.linspace(0, steps, FRAMES).round().astype(int))
    task = SequenceClasses(P, query=[M - 1] * K, length=state["length"])
    model = Bilinear(task)
    run = train(
        model,
        task,
        optimizer=SGD({"Y": state["eta_y"], "Z": state["eta_z"]}),
        steps=steps,
        batch=BATCH,
        seeds=SEEDS,
        record={"z": lambda p: (("token",), model.attention_logits(p)[..., 0, tokens])},
        save_at=save_at.tolist(),
        experiment="explore/scan-snap",
    )
    return run["z"].values, save_at


def draw(state: State, worked: TrainedAttention | None, places: Places) -> Picture:
    P = probabilities(state)
    rates = {"eta_y": state["eta_y"], "eta_z": state["eta_z"]}
    applicability = theory.applies(P, **rates, length=state["length"], batch=BATCH)
    names = [name for name, weight in zip(TOKENS, state["profile"], strict=True) if weight > 0]
    tokens = np.flatnonzero(P[0])
    start = P[0, tokens]
    best = int(np.argmax(np.where([name.startswith("distinct") for name in names], start, 0)))
    return Picture(
        answer=_answer(state, applicability, start, best, worked),
        sentences=() if worked is None or state["until"] <= MOST_SIMULATED else (
            f"The simulation is drawn up to step {MOST_SIMULATED:,}, so that it keeps up with the sliders.",
        ),
        figures={"growth": _growth_figure(state, P, start, best, applicability, worked)},
        slow_figures={"attention": _attention_figure(state, names, start, worked)} if worked else {},
        lights=_lights(applicability),
        lights_title="Does the theory apply to this setting?",
        tables=(_table(state, P, start, best, worked),),
        formulas=FORMULAS,
        python=_python(state, places),
        waiting="" if worked else "Following the flow of training and simulating it …",
    )  # fmt: skip


def attention(logits: Array, start: Array) -> Array:
    """c ∝ P·exp(z), along the last axis."""
    weights = start * np.exp(logits)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _times(state: State) -> Array:
    return np.linspace(0, state["until"], TIMES)


def _answer(
    state: State, applicability: theory.Applicability, start: Array, best: int, worked: TrainedAttention | None
) -> str:
    t0 = applicability.snap_time
    missed = [c for c in applicability.conditions if c.met is False]
    verdict = (
        "the theory applies"
        if not missed
        else f"{len(missed)} of {len(applicability.conditions)} assumptions of the paper are not met"
        + ("" if applicability.predictions[-1].blocked_by else ", but the flow of training still predicts it")
    )
    if worked is None:
        return f"Attention snaps near step {t0:,.0f}; {verdict}." if _snaps(applicability) else _sentences(verdict)
    after = attention(worked.flow, start)[:, best]
    growth = after[-1] / after[0]
    half = _times(state)[int(np.argmax(after - after[0] >= (after[-1] - after[0]) / 2))]
    way = "grows" if growth >= 1 else "falls"
    return (
        f"Attention on the dominant distinct token {way} {growth:.3g}-fold in {state['until']:,.0f} steps, from "
        f"{after[0]:.1%} to {after[-1]:.1%}, half of it by step {half:,.0f}; "
        + (f"it snaps near step {t0:,.0f}; " if _snaps(applicability) else "")
        + f"{verdict}."
    )


def _snaps(applicability: theory.Applicability) -> bool:
    """Whether the time of the snap means anything in this setting."""
    return next(each.meaningful for each in applicability.predictions if each.function == "snap_time")


def _lights(applicability: theory.Applicability) -> tuple[Light, ...]:
    shades: dict[str, Any] = {
        "met": "good", "not met": "bad", "not known": "unsure", "meaningful": "good", "not meaningful": "bad"
    }  # fmt: skip
    return tuple(
        Light(shades[row["verdict"]], row["verdict"], row["name"], _sentences(row["says"], row["reason"]))
        for row in applicability.rows()
    )


def _sentences(*parts: str) -> str:
    """Whole sentences; only Latin letters have capitals here, because η and H are two symbols."""
    firsts = [part[0].upper() if part[0].isascii() else part[0] for part in parts if part]
    rests = [part[1:].removesuffix(".") for part in parts if part]
    return " ".join(f"{first}{rest}." for first, rest in zip(firsts, rests, strict=True))


def _theorem4(state: State, P: Array, times: Array) -> dict[str, Array]:
    """The growth of attention on the dominant token by Theorem 4; empty where the theorem has nothing to say."""
    try:
        data: dict[str, Any] = {"probabilities": P, "eta_y": state["eta_y"], "eta_z": state["eta_z"]}
        return {
            "Theorem 4 as printed": np.sqrt(theory.theorem4_growth_factor(times, **data, **NONE)),
            "Theorem 4, corrected": np.sqrt(theory.theorem4_growth_factor(times, **data)),
        }
    except InputError:
        return {}


def _growth_figure(
    state: State,
    P: Array,
    start: Array,
    best: int,
    applicability: theory.Applicability,
    worked: TrainedAttention | None,
) -> go.Figure:
    """exp(z) of the dominant token: by how much training multiplies its weight."""
    times = _times(state)
    figure = new_figure("Growth of the dominant token's weight, exp(z)", x="step", y="growth factor", log_y=True)
    styles = {"Theorem 4 as printed": (7, "dot"), "Theorem 4, corrected": (4, "dash")}
    for name, values in _theorem4(state, P, times).items():
        color, dash = styles[name]
        figure.add_trace(prediction_line(times, values, name, color).update(line={"dash": dash}))
    if worked is not None:
        figure.add_trace(prediction_line(times, np.exp(worked.flow[:, best]), "flow of training", 0))
        grown = np.exp(worked.simulated[..., best])
        figure.add_trace(measurement_marks(worked.steps, grown.mean(0), "simulated training", 1, np.ptp(grown, 0) / 2))
    if _snaps(applicability) and applicability.snap_time <= state["until"]:
        figure.add_vline(applicability.snap_time, line={"color": PALETTE[7], "width": 1}, annotation_text="snap")
        figure.update_annotations(y=1, yanchor="bottom", xanchor="center")
    figure.update_yaxes(nticks=6)
    return figure.update_layout(height=410, **BELOW)


def _attention_figure(state: State, names: Sequence[str], start: Array, worked: TrainedAttention) -> go.Figure:
    """Attention over the tokens of class 1 at a step; play it, or drag the step."""
    steps = np.linspace(0, state["until"], FRAMES)
    by_flow = np.stack([np.interp(steps, _times(state), z) for z in attention(worked.flow, start).T], -1)
    mean = attention(worked.simulated, start).mean(0)
    nothing = {"left": np.nan, "right": np.nan}
    by_training = np.stack([np.interp(steps, worked.steps, c, **nothing) for c in mean.T], -1)

    def traces(k: int) -> list[Any]:
        return [
            go.Bar(x=list(names), y=by_flow[k].tolist(), name="flow of training", marker={"color": PALETTE[0]}),
            measurement_marks(names, by_training[k], "simulated training", 1).update(marker={"size": 11}),
            go.Scatter(x=list(names), y=start.tolist(), name="before training", mode="markers",
                       marker={"symbol": "line-ew", "size": 26, "line": {"width": 2, "color": PALETTE[7]}}),
        ]  # fmt: skip

    labels = [f"{step:.0f}" for step in steps]
    frames = [  # only what changes
        go.Frame(data=[go.Bar(y=by_flow[k].tolist()), go.Scatter(y=by_training[k].tolist())], name=label, traces=[0, 1])
        for k, label in enumerate(labels)
    ]
    figure = go.Figure(data=traces(FRAMES - 1), frames=frames)
    now = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate", "transition": {"duration": 0}}
    play = {"frame": {"duration": 90, "redraw": True}, "fromcurrent": False, "transition": {"duration": 0}}
    top = float(np.nanmax([by_flow.max(), start.max(), np.nanmax(by_training, initial=0)]))
    figure.update_layout(
        template=TEMPLATE, height=450, title="Attention over the tokens of one class",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        yaxis={"title": "attention", "range": [0, 1.1 * top], "tickformat": ".0%"},
        updatemenus=[{
            "type": "buttons", "direction": "left", "x": 0, "y": -0.22, "xanchor": "left", "yanchor": "top",
            "pad": {"t": 0, "r": 8}, "showactive": False,
            "buttons": [{"label": "▶ Play", "method": "animate", "args": [None, play]}],
        }],
        sliders=[{
            "x": 0.28, "len": 0.72, "y": -0.16, "pad": {"t": 0}, "active": FRAMES - 1,
            "currentvalue": {"prefix": "step ", "font": {"color": INK}},
            "steps": [{"label": label, "method": "animate", "args": [[label], now]} for label in labels],
            "ticklen": 0, "minorticklen": 0, "font": {"color": "rgba(0,0,0,0)"}, "tickwidth": 0,
        }],
    )  # fmt: skip
    return figure


def _table(state: State, P: Array, start: Array, best: int, worked: TrainedAttention | None) -> TextTable:
    end = float(state["until"])
    rows = [(name, f"{values[-1]:.4g}") for name, values in _theorem4(state, P, _times(state)).items()]
    if worked is not None:
        rows.append(("flow of training", f"{np.exp(worked.flow[-1, best]):.4g}"))
        last = np.exp(worked.simulated[:, -1, best]).mean()
        at = "" if worked.steps[-1] == int(end) else f", at step {worked.steps[-1]:,}"
        rows.append((f"simulated training{at}", f"{last:.4g}"))
    return TextTable(
        f"Growth of the dominant token's weight at step {end:,.0f}", ("", "growth"), tuple(rows), numbers=(1,)
    )


def _python(state: State, places: Places) -> str:
    return (
        "from foretrain.explore.views.scan_snap import probabilities\n"
        "from foretrain.papers.scan_snap import theory\n\n"
        f"state = {dict(state)!r}\n"
        "P = probabilities(state)  # P(token | class)\n"
        'rates = {"eta_y": state["eta_y"], "eta_z": state["eta_z"]}\n'
        f'print(theory.applies(P, **rates, length=state["length"], batch={BATCH}))\n'
        'z = theory.predicted_logits(P, **rates, times=[state["until"]])[-1]\n'
        "print(z[P[0] > 0])  # attention logits of the tokens of class 1 at the end\n\n"
        + python_call(VIEW.path, controls(places), state)
    )


VIEW = View(
    path="scan-snap",
    title="Scan and Snap",
    question="What will attention do in a one-layer transformer, and does the theory say so?",
    controls=controls,
    draw=draw,
    work=work,
)
