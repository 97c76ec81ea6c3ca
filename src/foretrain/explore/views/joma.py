"""JoMA: how attention gets sparse and then spreads again while the lower weights of an MLP grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import xarray as xr
from numpy import ndarray as Array
from scipy.special import softmax

from foretrain.explore.figure_theme import BELOW
from foretrain.explore.sliders import Slider, State, from_parameter
from foretrain.explore.view import Formula, Picture, Places, TextTable, View, python_call
from foretrain.ledger.parameters import Parameter, about, parameters_of
from foretrain.papers.joma import theory
from foretrain.papers.joma.experiments.parameters import Activation
from foretrain.papers.joma.experiments.theory import PORTRAITS, attention_steps, fig4, phase
from foretrain.papers.joma.figures.theory import phase as phase_figure
from foretrain.show.plotting import measurement_marks, new_figure, prediction_line

EXP, NORMALISED, LINEAR = "exp, eq. 6", "softmax", "linear attention"
NAMES = ("μ1", "μ2", "μ3", "μ4", "μ5", "μ6")
POINTS, MARKS = 121, 31
START = 0.05  # of v under linear attention, which does not leave 0
RATE = 0.002  # of a step: a unit of time is 500 steps
RANK_STEPS = 4000

FORMULAS = {
    EXP: Formula(
        r"\dot v = (\mu - v)\circ e^{v^2/2},\qquad t = \int_0^{1-\delta}\frac{e^{-\mu^2x^2/2}}{1-x}\,dx",
        "Eq. 6, and the time after which a component has the share δ of its way left (eq. 79): the lines.",
        "joma/theorem4",
    ),
    NORMALISED: Formula(
        r"\dot v = (\mu - v)\circ \mathrm{softmax}(v^2/2)",
        "Eq. 6 with attention that sums to 1, as in the published figure. It is followed by steps; there is no closed "
        "form.",
        "joma/fig4",
    ),
    LINEAR: Formula(
        r"\dot v = (\mu - v)\circ |v|,\qquad v = \frac{\mu}{1 + (\mu/v_0 - 1)\,e^{-\mu t}}",
        "With linear attention a component grows like a logistic curve.",
        "joma/theorem4_linear_attention",
    ),
}
ALONG = {  # with a linear activation
    EXP: Formula(
        r"\dot v = \Delta\circ e^{v^2/2}",
        "With a linear activation, Δ pulls forever and the largest component takes all (eq. 3).",
        "joma/theorem2_corrected",
    ),
    NORMALISED: Formula(
        r"\dot v = \Delta\circ \mathrm{softmax}(v^2/2)",
        "With a linear activation, Δ pulls forever. How far this describes training with softmax attention:",
        "joma/theorem2_softmax",
    ),
    LINEAR: Formula(
        r"\dot v = \Delta\circ |v|",
        "A linear activation with linear attention: every component grows exponentially. No claim of the paper is "
        "about this; the nearest is",
        "joma/theorem4_linear_attention",
    ),
}


@dataclass(frozen=True)
class FollowedPaths:
    """v after steps [time, component], the paths of a phase portrait, and the stable rank of a trained layer."""

    times: Array
    v: Array
    portrait: xr.Dataset
    rank: xr.Dataset


def controls(_: Places) -> Sequence[Slider]:
    targets = parameters_of(fig4)["targets"]
    activation = Parameter("activation", Annotated[Activation, about("Activation of the MLP.")], "relu")
    return (
        Slider("targets", "targets μ", "bars", (3.0, 2.5, 2.0, 1.5, 1.2, 0.8), low=0.2, high=3.2, names=NAMES,
                says=targets.says),
        Slider("attention", "attention", "choice", EXP, options=(EXP, NORMALISED, LINEAR),
                says="How attention depends on v."),
        from_parameter(activation, label="activation"),
        Slider("until", "time", "number", 3.0, low=0.1, high=20, log=True, says="How long v moves."),
    )  # fmt: skip


def closed_form(state: State, times: Array) -> Array | None:
    """v [time, component] by the theory, where it has a closed form."""
    mu = np.asarray(state["targets"], dtype=float)
    if state["activation"] == "linear":
        return None
    if state["attention"] == EXP:
        return np.asarray(mu * -np.expm1(-theory.log_distance(mu, times[:, None])))
    if state["attention"] == LINEAR:
        left = theory.linear_attention_log_distance(mu, times[:, None], start=START)
        # ln(1/δ) is measured from v = 0, and v starts at START
        return np.asarray(mu * -np.expm1(-left))
    return None


def entropy(v: Array, state: State) -> Array:
    """Entropy of attention, in nats."""
    weights = np.abs(v) + 1e-300 if state["attention"] == LINEAR else softmax(v**2 / 2, axis=-1)
    share = weights / weights.sum(axis=-1, keepdims=True)
    return np.asarray(-(share * np.log(np.maximum(share, 1e-300))).sum(axis=-1))


def work(state: State, _: Places) -> FollowedPaths:
    mu = tuple(float(each) for each in state["targets"])
    times, v = _steps(state, mu)
    first, second = sorted(mu, reverse=True)[:2]
    return FollowedPaths(times, v, _portrait((first, second)), _rank(state["activation"]))


def _steps(state: State, mu: tuple[float, ...]) -> tuple[Array, Array]:
    """Small steps of the same rule, as training makes them."""
    steps = max(1, round(state["until"] / RATE))
    linear = state["activation"] == "linear"
    if state["attention"] == LINEAR:
        v = np.full((steps + 1, len(mu)), START)
        for k in range(steps):
            v[k + 1] = v[k] + RATE * (np.asarray(mu) - (0 if linear else v[k])) * np.abs(v[k])
    else:
        v, _ = attention_steps(
            mu, steps=steps, rate=RATE, start=0.0, normalised=state["attention"] == NORMALISED, linear=linear
        )
    with np.errstate(over="ignore"):
        last = int(np.isfinite(np.exp(v**2 / 2)).all(axis=-1).sum()) - 1  # with a linear activation, v may blow up
    picked = np.unique(np.linspace(0, last, MARKS).round().astype(int))
    return picked * RATE, v[picked]


@lru_cache(maxsize=64)
def _portrait(targets: tuple[float, float]) -> xr.Dataset:
    return phase(targets=targets, grid=11, starts=5)


@lru_cache(maxsize=2)
def _rank(activation: str) -> xr.Dataset:
    """A layer that is really trained; it takes seconds, once."""
    from foretrain.papers.joma.experiments.rank import layer_rank

    return layer_rank([activation], seeds=(1,), steps=RANK_STEPS)  # type: ignore[list-item]


def draw(state: State, worked: FollowedPaths | None, places: Places) -> Picture:
    times = np.linspace(0, state["until"], POINTS)
    predicted = closed_form(state, times)
    figures = {"entropy": _entropy_figure(state, times, predicted, worked)}
    figures["components"] = _components_figure(state, times, predicted, worked)
    slow = {}
    if worked is not None:
        if state["attention"] != LINEAR:  # whose paths are others
            slow["phase"] = _phase_figure(state, worked.portrait)
        slow["rank"] = _rank_figure(worked.rank)
    main = (ALONG if state["activation"] == "linear" else FORMULAS)[state["attention"]]
    return Picture(
        answer=_answer(state, times, predicted, worked),
        figures=figures,
        slow_figures=slow,
        tables=() if worked is None else (_table(state, times, predicted, worked),),
        formulas=(main,),
        python=_python(state, places),
        waiting="" if worked else "Following v step by step, and training a layer …",
    )


def _curve(
    state: State, times: Array, predicted: Array | None, worked: FollowedPaths | None
) -> tuple[Array, Array] | None:
    """The entropy over time: predicted where that is possible, else by steps."""
    if predicted is not None:
        return times, entropy(predicted, state)
    return None if worked is None else (worked.times, entropy(worked.v, state))


def _answer(state: State, times: Array, predicted: Array | None, worked: FollowedPaths | None) -> str:
    curve = _curve(state, times, predicted, worked)
    if curve is None:
        return "There is no closed form for this setting; v is followed step by step."
    at, values = curve
    lowest, start, end = int(np.argmin(values)), values[0], values[-1]
    where = f"from {start:.2f} to {values[lowest]:.2f} nats at time {at[lowest]:.2g}"
    if values[lowest] > start - 0.005:
        return f"Attention does not get sparser: its entropy goes from {start:.2f} to {end:.2f} nats."
    if end > values[lowest] + 0.15 * (start - values[lowest]):
        return f"Attention gets sparse and then spreads again: its entropy falls {where}, then rises to {end:.2f}."
    why = "; with a linear activation it never spreads again" if state["activation"] == "linear" else " so far"
    end_of_v = ", where v blows up" if at[-1] < 0.99 * state["until"] else ""
    return f"Attention only gets sparser{why}: its entropy falls {where}{end_of_v}."


def _entropy_figure(state: State, times: Array, predicted: Array | None, worked: FollowedPaths | None) -> go.Figure:
    figure = new_figure("Entropy of attention", x="time", y="entropy (nats)")
    if predicted is not None:
        figure.add_trace(prediction_line(times, entropy(predicted, state), "closed form", 0))
    if worked is not None:
        figure.add_trace(measurement_marks(worked.times, entropy(worked.v, state), "step by step", 1))
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(range=[0, state["until"]])
    return figure.update_layout(height=370, showlegend=True, **BELOW)


def _components_figure(state: State, times: Array, predicted: Array | None, worked: FollowedPaths | None) -> go.Figure:
    linear = state["activation"] == "linear"
    figure = new_figure("Components of v", x="time", y="v" if linear else "share of the way, v/μ")
    mu = np.ones(len(NAMES)) if linear else np.asarray(state["targets"])
    for k, target in enumerate(state["targets"]):
        name = f"μ = {target:g}"
        if predicted is not None:
            figure.add_trace(prediction_line(times, predicted[:, k] / mu[k], name, k))
        if worked is not None:
            marks = measurement_marks(worked.times, worked.v[:, k] / mu[k], name, k, showlegend=predicted is None)
            figure.add_trace(marks.update(marker={"size": 4}))
    figure.update_xaxes(range=[0, state["until"]])
    return figure.update_layout(height=390, showlegend=True, **BELOW)


def _phase_figure(state: State, data: xr.Dataset) -> go.Figure:
    """The two largest components, beside uniform attention; exp and softmax attention share their paths."""
    uniform, exponential, linear = list(PORTRAITS)
    shown = linear if state["activation"] == "linear" else exponential
    figure = phase_figure(data.sel(portrait=[shown, uniform]))
    return figure.update_layout(title="Phase portrait of the two largest components", height=450, **BELOW)


def _rank_figure(data: xr.Dataset) -> go.Figure:
    layer = f"a trained layer ({data.activation.item()}, softmax attention)"
    figure = new_figure(f"Stable rank of the MLP's lower matrix in {layer}", x="step", y="stable rank")
    rank = data["stable_rank"].isel(activation=0)
    figure.add_trace(measurement_marks(rank.time, rank.isel(seed=0), "trained layer", 1))
    figure.update_yaxes(rangemode="tozero")
    return figure.update_layout(height=320, showlegend=False)


def _table(state: State, times: Array, predicted: Array | None, worked: FollowedPaths) -> TextTable:
    rows = [("step by step", *_ends(entropy(worked.v, state), worked.times))]
    if predicted is not None:
        rows.insert(0, ("closed form", *_ends(entropy(predicted, state), times)))
    return TextTable(
        "Entropy of attention", ("", "start", "lowest", "at time", "end"), tuple(rows), numbers=(1, 2, 3, 4)
    )


def _ends(values: Array, times: Array) -> tuple[str, ...]:
    lowest = int(np.argmin(values))
    return f"{values[0]:.3f}", f"{values[lowest]:.3f}", f"{times[lowest]:.2f}", f"{values[-1]:.3f}"


def _python(state: State, places: Places) -> str:
    mu: Any = list(state["targets"])
    lines = ""
    if closed_form(state, np.zeros(1)) is not None and state["attention"] == EXP:
        lines = (
            "import numpy as np\nfrom foretrain.papers.joma import theory\n\n"
            f"mu, times = np.array({mu}), np.linspace(0, {state['until']!r}, {POINTS})\n"
            "v = mu * -np.expm1(-theory.log_distance(mu, times[:, None]))  # eq. 79\n"
            "print(v[-1])\n\n"
        )
    return lines + python_call(VIEW.path, controls(places), state)


VIEW = View(
    path="joma",
    title="JoMA",
    question="Does attention get sparse and then spread again?",
    controls=controls,
    draw=draw,
    work=work,
)
