"""Lemma 4 with Fig 9, and Theorem 3: where critical points are, and the dynamics near them.

The measurements integrate over the plane (simulations/plane.py) and do not use θ, F or G.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close, every, positive
from foretrain.ledger.tolerances import EXACT, FLOW, SLOPE
from foretrain.papers import figure_of
from foretrain.papers.joma import theory
from foretrain.papers.joma.experiments.theory import fig9
from foretrain.papers.joma.quantities import DENSITIES
from foretrain.papers.joma.simulations.plane import ORDER_8, plane_flow, plane_moments, slope_by_differences
from foretrain.papers.joma.tolerances import CONDITION, QUADRATURE

SHAPES: dict[str, theory.RadialDensity] = {
    "gaussian": theory.gaussian(2),
    "uniform_ball": theory.uniform_ball(2),
    "laplace": theory.laplace(2),
    "student_t": theory.student_t(2),
    "student_t_1.5": theory.student_t(2, 1.5),
    "gaussian_mixture": theory.gaussian_mixture(2),
}
X_PLUS = np.array([1.2, 1.6])
DISTANCE = 2.0  # ‖x̄₊‖
LEVELS = np.linspace(0.1, 0.9, 9)


def stationary_points(
    density: str, places: Sequence[float] = (1.0,), weights: Sequence[float] = (1.0,), distance: float = DISTANCE
) -> list[tuple[float, float]]:
    """(ξ, a₋) at which v = x̄₊/‖x̄₊‖ does not move, by root search on the measured flow.

    The means of the components are `places`·x̄₊, with these weights; one more component, of weight −a₋, has mean 0. For
    every ξ the condition ξ̇ = 0 gives a₋; v̇ then points along v, and changes sign at a stationary point.
    """
    from scipy.optimize import brentq  # a tenth of a second to load, which listing claims can save

    v = X_PLUS / DISTANCE

    def balance(bias: float) -> tuple[float, float]:
        at_zero, share = plane_moments(np.zeros(2), v, bias, density, theory.RELU)
        dv, dbias = plane_flow(v, bias, [p * distance * v for p in places], weights, density, theory.RELU)
        a_minus = dbias / share
        return float(v @ (dv - a_minus * at_zero)), a_minus

    grid = np.linspace(-3 - distance, 2.5, 31)
    values = [balance(b)[0] for b in grid]
    crossings = [i for i in range(len(grid) - 1) if values[i] * values[i + 1] < 0]
    roots = [float(brentq(lambda b: balance(b)[0], grid[i], grid[i + 1], xtol=1e-14)) for i in crossings]
    return [(b, balance(b)[1]) for b in roots]


# Lemma 4 and Fig 9


def _lemma4_on_paper(densities: Sequence[str]) -> xr.Dataset:
    """ΣaF = 0, and the slope θ1/p_n of G."""
    slopes = []
    for density in densities:
        r = theory.theta1_inverse(LEVELS, SHAPES[density])
        slopes.append(LEVELS / SHAPES[density].marginal(r))
    return trajectory(
        {"balance": 0.0, "G_slope": (("density", "y"), np.array(slopes))},
        {"density": [DENSITIES[name] for name in densities], "y": LEVELS},
    )


def _lemma4_measured(densities: Sequence[str], off: float = 0.0) -> xr.Dataset:
    """The largest |ΣaF| over all stationary points with two and with three components; `off` moves ξ away from them."""
    sums = []
    for density in densities:
        for places, weights in (((1.0,), (1.0,)), ((1.0, 0.4), (1.0, 0.3))):
            for bias, a_minus in stationary_points(density, places, weights):
                r = DISTANCE * np.array([*places, 0.0]) + bias + off
                sums.append(float(theory.stationary_function(r, SHAPES[density]) @ np.array([*weights, -a_minus])))
    slopes = [
        slope_by_differences(partial(theory.critical_function, density=SHAPES[density]), LEVELS, 0.001)
        for density in densities
    ]
    F = [theory.stationary_function(np.linspace(-4, 4, 41), SHAPES[density]) for density in densities]
    return trajectory(
        {
            "balance": float(np.abs(sums).max(initial=0.0)),
            "points": len(sums),
            "G_slope": (("density", "y"), np.array(slopes)),
            "F_step": (("density", "r"), np.diff(F, axis=1)),
        },
        {"density": [DENSITIES[name] for name in densities], "y": LEVELS},
    )


lemma4 = Claim(
    id="joma/lemma4_fig9",
    source="Lemma 4, eq. 54 and 57, Fig 9",
    whose="the paper's statement",
    says="Stationary points under a homogeneous activation satisfy Σ_j a_jF(ρ_j) = 0 with F rising (ρ_j the distance "
    "of Lemma 1 corrected), and G(y) = F(θ1⁻¹(y)) has the slope θ1/p_n.",
    predict=_lemma4_on_paper,
    observe=_lemma4_measured,
    compare=every(
        positive("points"),
        close("balance", QUADRATURE, seen="in the flow"),
        close("G_slope", FLOW, by="as θ1/p", seen="by differences"),
        positive("F_step"),
    ),
    figure=lambda *_: figure_of("joma/fig9")(fig9()),
    settings={
        "fast": {"densities": ("student_t", "student_t_1.5")},
        "full": {"densities": ("student_t", "student_t_1.5", "gaussian_mixture")},
    },
    control=Control("the points are not stationary: ξ is off by .01", {"off": 0.01}),
)


# Theorem 3


def _matrices(
    density: str, norms: Sequence[float], coefficients: Callable[..., tuple[float, float]] = theory.linear_coefficients
) -> xr.Dataset:
    points = theory.critical_points(DISTANCE, SHAPES[density])
    rows = [
        [
            theory.linear_matrix(coefficients(point, DISTANCE, SHAPES[density], norm=norm), point.at(X_PLUS, norm)[0])
            for norm in norms
        ]
        for point in points
    ]
    C = np.array(rows) if points else np.full((1, len(norms), 2, 2), np.nan)
    return trajectory({"C": (("point", "norm", "row", "column"), C)})


def _form(density: str, norms: Sequence[float]) -> xr.Dataset:
    """What the theorem says of C and of its stability, which is judged by C itself."""
    C = _linearised(density, norms)["C"]
    known = bool(C.notnull().all())
    smallest = np.linalg.eigvals(C.values).real.min(-1) if known else np.full(C.shape[:2], np.nan)
    axes = ("point", "norm")
    return trajectory(
        {
            "off_form": (axes, np.zeros(C.shape[:2])),
            "stable": (axes, (smallest > 0).astype(float)),
            "remainder_order": (axes, np.ones(C.shape[:2])),
        },
        {"norm": list(norms)},
    )


@lru_cache(maxsize=4)
def _linearised(density: str, norms: tuple[float, ...], off: float = 0.0) -> xr.Dataset:
    """−∂v̇/∂v of the measured flow at every critical point, and the order of the remainder in the distance γ.

    For a control, `off`·‖μ‖ moves ξ away from where the point is critical.

    `off_form` is the largest entry of C that I and μμᵀ cannot give, `across` is s·uᵀCu for u across μ, and `stable` is
    1 if the flow at fixed ξ leads back to μ from all of 12 directions.
    """
    points = theory.critical_points(DISTANCE, SHAPES[density])
    shape = (max(len(points), 1), len(norms))
    C, stable, order = np.full((*shape, 2, 2), np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    angles = np.arange(12) * np.pi / 6
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    for i, point in enumerate(points):
        for j, norm in enumerate(norms):
            mu, bias = point.at(X_PLUS, norm)
            bias += off * norm

            def flow(v: np.ndarray, bias: float = bias, a_minus: float = point.weight_ratio) -> np.ndarray:
                return plane_flow(v, bias, [X_PLUS, np.zeros(2)], [1.0, -a_minus], density, theory.RELU)[0]

            C[i, j] = -_jacobian(flow, mu, 0.02 * norm)
            stable[i, j] = all(d @ flow(mu + 1e-5 * norm * d) < 0 for d in circle)
            gammas = norm * np.array([2e-3, 1e-3])
            d = circle[1]
            left = [
                np.linalg.norm(flow(mu + g * d) + C[i, j] @ (g * d)) / np.linalg.norm(C[i, j] @ (g * d)) for g in gammas
            ]
            order[i, j] = np.log2(left[0] / left[1])
    along = X_PLUS / DISTANCE
    across = np.array([-along[1], along[0]])
    signs = np.array([float(point.sign) for point in points] or [np.nan])[:, None]
    mixed = [np.einsum("i,pnij,j->pn", first, C, second) for first, second in ((along, across), (across, along))]
    return trajectory(
        {
            "C": (("point", "norm", "row", "column"), C),
            "off_form": (("point", "norm"), np.abs(mixed).max(0)),
            "across": (("point", "norm"), signs * np.einsum("i,pnij,j->pn", across, C, across)),
            "stable": (("point", "norm"), stable),
            "remainder_order": (("point", "norm"), order),
            "points": len(points),
        },
        {"norm": list(norms)},
    )


def _jacobian(flow: Callable[[np.ndarray], np.ndarray], at: np.ndarray, h: float) -> np.ndarray:
    """The Jacobian of the flow by central differences of order 8."""
    terms = list(enumerate(ORDER_8, start=1))
    columns = [sum(w * (flow(at + k * h * e) - flow(at - k * h * e)) for k, w in terms) / h for e in np.eye(at.size)]
    return np.stack(columns, axis=1)


_SIZES = {
    "fast": {"density": "student_t_1.5", "norms": (1.0, 0.5)},
    "full": {"density": "gaussian_mixture", "norms": (1.0, 0.5, 2.0)},
}

theorem3 = Claim(
    id="joma/theorem3",
    source="Theorem 3, eq. 5",
    whose="the paper's statement",
    says="Near a critical point μ ≠ 0, at fixed ξ, v̇ = C(μ)(1 + λ)(μ − v) with C = s(β1·I + β2·μμᵀ), β1 > 0 and λ → 0; "
    "where C is positive definite, μ is stable. (Heavy-tailed inputs: Gaussian ones have no such point.)",
    predict=_form,
    observe=lambda density, norms: _linearised(density, norms),
    compare=every(
        positive("points"),
        close("off_form", FLOW, seen="in the flow"),
        positive("across"),
        close("stable", QUADRATURE),
        close("remainder_order", SLOPE, by="by the theorem", seen="in the flow"),
    ),
    settings=_SIZES,
    control=Control("Gaussian components: there is no critical point", {"density": "gaussian"}),
)

coefficients = Claim(
    id="joma/theorem3_coefficients",
    whose="a step of the paper's proof",
    source="Proof of Theorem 3, eq. 73 and 74",
    says="The matrix C(μ) of Theorem 3 has β1 = s·a₊‖x̄₊‖θ1(ρ₊)/‖μ‖ and β2 = −[β1 + ρ₋²(a₊p_n(ρ₊) − a₋p_n(ρ₋))/‖μ‖]/‖μ‖²"
    ", where s is the sign of μᵀx̄₊.",
    predict=_matrices,
    observe=lambda density, norms, off=0.0: _linearised(density, norms, off)[["C"]].drop_vars("norm"),
    compare=close("C", FLOW, by="by the formula", seen="in the flow"),
    settings=_SIZES,
    control=Control("not a critical point: ξ is off by .05‖μ‖", {"off": 0.05}),
    erratum=Erratum(
        changes={"coefficients": theory.linear_coefficients_printed},
        prints="The matrix C(μ) of Theorem 3 has β1 and β2 of eq. 73 and 74 as printed.",
        says="Eq. 73 and 74 follow from Lemma 1 as printed. With Lemma 1 corrected, for Student-t(1.5) inputs, ‖x̄₊‖ "
        "= 2 and ‖μ‖ = 1 the eigenvalue of C along μ is .172, the printed one −1.803: μ, which is stable, would not "
        "be. Eq. 73 also calls β1 positive although it carries the sign s, which is −1 for the critical points "
        "opposite to x̄₊; the theorem, which has s in front of both, is right.",
        formulas=(
            r"\beta_2=s\frac{a_+\lVert\bar x_+\rVert}{\lVert\mu\rVert^4}"
            r"\Big(\xi^*\theta_1'(r_+)-2\theta_1(r_+)\Big)",
            r"\beta_2=-\frac{1}{\lVert\mu\rVert^2}\Big(\beta_1+\frac{\rho_-^2}{\lVert\mu\rVert}"
            r"\big(a_+p_n(\rho_+)-a_-p_n(\rho_-)\big)\Big)",
        ),
        consequence="Stability read off the printed coefficients comes out wrong.",
    ),
)


def _premise_measured(density: str) -> xr.Dataset:
    """The critical points by root search on the measured flow, the left side of eq. 58, and the least rise of F/θ1."""
    r = np.linspace(-4, 4, 161)
    r = r[theory.theta1(r, SHAPES[density]) > 0]
    return trajectory(
        {
            "points": len(stationary_points(density)),
            "condition": theory.critical_condition(SHAPES[density]),
            "least_rise_of_ratio": float(np.diff(theory.critical_ratio(r, SHAPES[density])).min()),
        }
    )


premise = Claim(
    id="joma/theorem3_premise",
    source="Theorem 3 and eq. 56, 58",
    whose="our own expectation",
    says="Two Gaussian components have no critical point μ ≠ 0, so Theorem 3 says nothing about them: F/θ1 rises "
    "everywhere, and so eq. 56 has no solution; the left side of eq. 58 is below ¼; and the flow has no such point.",
    predict=lambda: trajectory({"points": 0}),
    observe=_premise_measured,
    compare=every(
        close("points", EXACT, by="by eq. 56", seen="in the flow"),
        bounded("condition", high=CONDITION),
        positive("least_rise_of_ratio"),
    ),
    settings={"fast": {"density": "gaussian"}},
    control=Control("heavy tails: Student-t with 1.5 degrees of freedom", {"density": "student_t_1.5"}),
    finding="Theorem 3 is about critical points that Gaussian inputs do not have, nor any with a log-concave density, "
    "for which F/θ1 never falls. Eq. 58 asks for ¼: Gaussian .159, uniform ball .125, Student-t(3) .203, Laplace "
    "exactly .25 (one dimension; in the plane the ball has .135 and e^(−radius) .203). Student-t below 2 degrees of "
    "freedom (.348 at 1.5) and a Gaussian mixture of scales 1 and 10 (.481) meet it. It is enough, not needed: every "
    "Student-t has F/θ1 falling in its left tail, so Student-t(3) has critical points as well.",
)

CLAIMS = [lemma4, theorem3, coefficients, premise]
