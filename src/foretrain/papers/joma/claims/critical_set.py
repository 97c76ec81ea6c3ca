"""Appendices A.3 and A.4: for which weights there are critical points, where they lie, and where training goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close, every, positive
from foretrain.ledger.tolerances import FLOW
from foretrain.papers.joma import theory
from foretrain.papers.joma.claims.critical import SHAPES, stationary_points
from foretrain.papers.joma.simulations.mixture import train_on_mixture
from foretrain.papers.joma.tolerances import DOUBLES, RATIO_LEAST, RATIO_MOST


def _point(density: str, distance: float) -> tuple[float, float]:
    """(ξ*, a₋/a₊) of the critical point, by root search on the measured flow at ‖v‖ = 1."""
    points = stationary_points(density, distance=distance)
    return points[0] if points else (np.nan, np.nan)


def _ratios(density: str, distances: Sequence[float]) -> xr.Dataset:
    ratios = [_point(density, d)[1] for d in distances]
    return trajectory({"weight_ratio": ("distance", ratios)}, {"distance": list(distances)})


eq59 = Claim(
    id="joma/eq59",
    source="Appendix A.3, the sentence below eq. 59",
    whose="the paper's statement",
    says="Every ratio of weights for which there is a critical point, that is every s in the set S of eq. 59, lies "
    "between ½ and 2.",
    observe=_ratios,
    compare=bounded("weight_ratio", low=RATIO_LEAST, high=RATIO_MOST),
    settings={"fast": {"density": "student_t_1.5", "distances": (2.0, 4.0, 8.0)}},
    control=Control("components that lie closer together", {"distances": (0.2, 0.5, 1.0)}),
    expect="fails",
    erratum=Erratum(
        says="The range comes from looking at y ≥ ½ only, where a line through 0 can meet G at two y whose ratio is "
        "below 2. The lines also meet G below ½. Student-t(1.5) inputs satisfy eq. 58 (.348) and have critical points "
        "at the ratios 2.56, 5.13 and 12.5 if their means are 2, 4 and 8 apart, and larger ones beyond; S is not "
        "bounded.",
        formulas=(
            r"\forall s\in\mathcal{S}:\ s\in(\tfrac12,1)\cup(1,2)",
            r"\mathcal{S}\text{ is unbounded: }2.56,\ 5.13,\ 12.5\in\mathcal{S}",
        ),
        consequence="Critical points exist for strongly unbalanced components too, if these are far enough apart.",
    ),
)


def _levels(
    density: str, distances: Sequence[float], off: float = 0.0, formula: Callable[..., np.ndarray] = theory.theta1
) -> xr.Dataset:
    """a₋/a₊ = y₊/y₋ with the levels y that a formula gives for r₊ = ξ* + ‖x̄₊‖ and r₋ = ξ*; `off` moves ξ* away."""
    ratios = []
    for distance in distances:
        bias = _point(density, distance)[0] + off
        high, low = formula(np.array([bias + distance, bias]), SHAPES[density])
        ratios.append(float(high / low))
    return trajectory({"weight_ratio": ("distance", ratios)}, {"distance": list(distances)})


levels = Claim(
    id="joma/eq57_levels",
    source="Appendix A.3, below eq. 57",
    whose="a step of the paper's proof",
    says="With y₊ = θ1(r₊) and y₋ = θ1(r₋), a critical point has the ratio of weights a₋/a₊ = y₊/y₋ (eq. 56).",
    predict=_levels,
    observe=_ratios,
    compare=close("weight_ratio", FLOW, by="as y₊/y₋", seen="in the flow"),
    settings={"fast": {"density": "student_t_1.5", "distances": (0.2, 0.5)}},
    control=Control("not a critical point: ξ is off by .05", {"off": 0.05}),
    erratum=Erratum(
        changes={"formula": theory.theta1_inverse},
        prints="With y₊ = θ1⁻¹(r₊) and y₋ = θ1⁻¹(r₋), a critical point has the ratio of weights a₋/a₊ = y₊/y₋ (eq. "
        "56).",
        says="Printed, y± is θ1⁻¹(r±); but r± are distances, and θ1⁻¹ takes numbers between 0 and 1. G(y) = "
        "F(θ1⁻¹(y)) and eq. 56 need y± = θ1(r±). For Student-t(1.5) and means .2 apart the ratio is 1.106; where r± "
        "happen to lie between 0 and 1, as here, the printed levels give another number.",
        formulas=(r"y_\pm:=\theta_1^{-1}(r_\pm)", r"y_\pm:=\theta_1(r_\pm)"),
        consequence="A misprint: what follows uses the right definition.",
    ),
)


def _signs(density: str, distances: Sequence[float]) -> xr.Dataset:
    """How far θ1(r₊) is above ½, θ1(r₋) below ½ and ξ* below 0, at ‖v‖ = 1."""
    biases = np.array([_point(density, d)[0] for d in distances])
    high, low = theory.theta1(np.stack([biases + np.array(distances), biases]), SHAPES[density])
    return trajectory(
        {
            "level_plus": ("distance", high - 0.5),
            "level_minus": ("distance", 0.5 - low),
            "bias_below_zero": ("distance", -biases),
        },
        {"distance": list(distances)},
    )


negative_bias = Claim(
    id="joma/appendix_a4_bias",
    source="Appendix A.4, first remark",
    whose="the paper's statement",
    says="At a critical point y₋ < ½ < y₊, so the bias ξ* is negative: the node needs a positive inner product with "
    'its pattern to fire. (The paper says "often"; it holds if the two means are far enough apart.)',
    observe=_signs,
    compare=every(positive("level_plus"), positive("level_minus"), positive("bias_below_zero")),
    settings={
        "fast": {"density": "student_t_1.5", "distances": (1.0, 2.0, 4.0)},
        "full": {"density": "student_t_1.5", "distances": (1.0, 2.0, 4.0, 8.0, 16.0)},
    },
    control=Control("the two means are only .5 apart", {"distances": (0.5,)}),
    finding="The printed reason (G is convex above ½, so a line meets it there at most twice) does not give it: twice "
    "is enough for two points above ½. For Student-t(1.5) both levels are above ½ and ξ* is positive if the means are "
    "less than about .7 apart; for Student-t(3) both are below ½ up to a distance of about .9.",
)


def _median_growth(loss: str, problems: int, steps: int) -> xr.Dataset:
    run = train_on_mixture(loss, problems=problems, steps=steps)
    return trajectory({"median_growth": float(run["growth"].where(run["alive"]).median())})


trained = Claim(
    id="joma/theorem3_trained",
    source="Theorem 3 with Lemma 2 and Assumption 1, in training",
    whose="our own expectation",
    says="With a gradient that stays constant in each component (Lemma 2), training does not bring v to a target μ: "
    "(v, ξ) grows in proportion to time, so its size doubles in the second half. (From Theorem 3 and eq. 6 one might "
    "have expected that it settles.)",
    predict=lambda: trajectory({"median_growth": 2.0}),
    observe=_median_growth,
    compare=close("median_growth", DOUBLES, relative=False),
    settings={
        "fast": {"loss": "fixed", "problems": 40, "steps": 2000},
        "full": {"loss": "fixed", "problems": 200, "steps": 8000},
    },
    control=Control("a squared loss, whose gradient vanishes when the node is right", {"loss": "squared"}),
    finding="Assumption 1 and a target exclude each other. With homogeneous φ and fixed g the flow of (v, ξ) is the "
    "gradient of E[g·h], which has degree 1, so ½ d(‖v‖² + ξ²)/dt = E[g·h], and that never falls: v can stop only "
    "where E[g·h] = 0, which is one ratio of weights. On Student-t(1.5) inputs v grows without end if a₋/a₊ is 5 % "
    "below the critical 2.558 and goes to 0 in finite time if it is 5 % above. What gives eq. 6 its targets is a loss "
    "that can be met, as the squared loss here.",
)

CLAIMS = [eq59, levels, negative_bias, trained]
