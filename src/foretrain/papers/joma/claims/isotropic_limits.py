"""Appendix A.3.1: signs and limits of θ1, θ2 and F (the second halves of Lemma 1 and Lemma 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import close, every, positive
from foretrain.papers.joma import theory
from foretrain.papers.joma.quantities import DENSITIES
from foretrain.papers.joma.tolerances import FAR_TAIL

R = np.linspace(-5, 5, 21)
MIDDLE = (R[1:] + R[:-1]) / 2
FAR = 1e4  # in units of the density's scale: a t distribution with 3 degrees of freedom has 1e-12 beyond it


def _swish_slope(u: np.ndarray) -> np.ndarray:
    """The derivative of u·σ(u): it rises to 1.1 at u = 2.4 and falls to 1 from there."""
    return np.asarray(expit(u) * (1 + u * (1 - expit(u))))


RISING: dict[str, theory.Derivative] = {
    "step": theory.RELU,
    "logistic": expit,
    "hard sigmoid": theory.Kinked(lambda u: np.clip(u + 0.5, 0, 1), (-0.5, 0.5)),
}
PSI: dict[str, theory.Derivative] = {**RISING, "swish": _swish_slope}


def _shapes(densities: Sequence[str], dimension: int) -> list[theory.RadialDensity]:
    return [theory.radial_density(name, dimension) for name in densities]


def _called(densities: Sequence[str]) -> list[str]:
    return [DENSITIES[name] for name in densities]


def _ends_promised(densities: Sequence[str], psi: Sequence[str]) -> xr.Dataset:
    ends = np.broadcast_to([0.0, 1.0], (len(densities), len(psi), 2))
    return trajectory(
        {"theta1_ends": (("density", "psi", "side"), ends)},
        {"density": _called(densities), "psi": list(psi), "side": ["left", "right"]},
    )


def _theta_measured(densities: Sequence[str], psi: Sequence[str], dimension: int) -> xr.Dataset:
    """θ1 from r to r and far out, and θ2, by quadrature for every density and ψ."""
    pairs = [[(shape, PSI[name]) for name in psi] for shape in _shapes(densities, dimension)]

    def over(function: Callable[..., Any], r: np.ndarray) -> np.ndarray:
        return np.array([[function(r, shape, p) for shape, p in row] for row in pairs])

    axes = ("density", "psi", "r")
    return trajectory(
        {
            "theta1_step": (("density", "psi", "middle"), np.diff(over(theory.theta1, R), axis=-1)),
            "theta2": (axes, over(theory.theta2, R)),
            "theta1_ends": (("density", "psi", "side"), over(theory.theta1, np.array([-FAR, FAR]))),
        },
        {"density": _called(densities), "psi": list(psi), "side": ["left", "right"], "r": R, "middle": MIDDLE},
    )


WHOLE_SPACE = ("gaussian", "student_t", "laplace")

lemma1_signs = Claim(
    id="joma/lemma1_signs",
    source="Lemma 1, its last sentence",
    whose="the paper's statement",
    says="If ψ rises from 0 to 1, so does θ1, and θ2 is above 0: for a step, the logistic function and a hard sigmoid, "
    "and for Gaussian, Student-t and Laplace inputs.",
    predict=_ends_promised,
    observe=_theta_measured,
    compare=every(
        positive("theta1_step"),
        positive("theta2"),
        close("theta1_ends", FAR_TAIL, by="by the lemma", seen="by quadrature"),
    ),
    settings={
        "fast": {"densities": WHOLE_SPACE[:2], "psi": tuple(RISING), "dimension": 1},
        "full": {"densities": WHOLE_SPACE, "psi": tuple(RISING), "dimension": 3},
    },
    control=Control("a ψ that does not only rise: the slope of swish overshoots 1", {"psi": ("swish",)}),
    finding="θ2 > 0 needs a density that is above 0 everywhere. For inputs from a ball of radius 1 and a step ψ, θ2 is "
    "exactly 0 once the hyperplane misses the ball (|r| ≥ 1), and θ1 no longer rises.",
)


def _F_measured(densities: Sequence[str], slopes: tuple[float, float]) -> xr.Dataset:
    shapes = _shapes(densities, 3)
    F = np.array([theory.stationary_function(R, shape, slopes) for shape in shapes])
    far = np.array([theory.stationary_function(np.array([-FAR, FAR]), shape, slopes) for shape in shapes])
    return trajectory(
        {
            "F_step": (("density", "middle"), np.diff(F, axis=1)),
            "F_left": ("density", far[:, 0]),
            "F_far": ("density", far[:, 1] / FAR),
        },
        {"density": _called(densities), "middle": MIDDLE},
    )


lemma3_limits = Claim(
    id="joma/lemma3_limits",
    source="Lemma 3 and Lemma 4, the limits of F",
    whose="the paper's statement",
    says="For ReLU F = θ2 + rθ1 rises from F(−∞) = 0 to F(+∞) = +∞ (F/r goes to 1), so F is never negative.",
    predict=lambda densities: trajectory(
        {"F_left": ("density", np.zeros(len(densities))), "F_far": ("density", np.ones(len(densities)))},
        {"density": _called(densities)},
    ),
    observe=_F_measured,
    compare=every(
        positive("F_step"),
        close("F_left", FAR_TAIL, by="in the limit", seen="at r = −10⁴"),
        close("F_far", FAR_TAIL, by="in the limit", seen="at r = 10⁴"),
    ),
    settings={
        "fast": {"densities": WHOLE_SPACE, "slopes": theory.RELU},
        "full": {"densities": (*WHOLE_SPACE, "gaussian_mixture"), "slopes": theory.RELU},
    },
    control=Control("φ(x) = |x|, which is homogeneous too: F rises to both sides", {"slopes": (-1.0, 1.0)}),
    finding='Lemmas 3 and 4 call F "monotonous increasing" for every homogeneous φ; that needs 0 ≤ c₋ and 0 < c₊. For '
    "φ = |x| F falls on the left of 0. The condition rθ1(r) → 0 for F(−∞) = 0 needs c₋ = 0: for a leaky ReLU F(−∞) is "
    "minus infinity.",
)

CLAIMS = [lemma1_signs, lemma3_limits]
