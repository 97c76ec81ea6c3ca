"""Appendix G: is the attention kernel analytic in β and γ? Lemma G.1, and Lemmas G.7 and G.9."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.kernels.attention import attention_kernel
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, slope
from foretrain.papers.abstract_symbols import theory
from foretrain.papers.abstract_symbols.tolerances import TAYLOR_ORDER


def _coefficient_roots(orders: int, center: float = 0.0) -> xr.Dataset:
    """|a_n|^{1/n} of κ = Σ a_n(β − center)^n for x = y = AB at γ = 0."""
    if center == 0:
        n = 2 * np.arange(1, orders + 1)
        logs = theory.two_token_series_at_0(orders)
    else:
        n = np.arange(1, 33)
        logs = theory.two_token_series(center, len(n), 0.8 * center)
    last_quarters = n >= n[-1] / 4
    return trajectory({"root": ("coefficient", np.exp(logs / n)[last_quarters])}, {"coefficient": n[last_quarters]})


def _power(power: float = 0.5) -> xr.Dataset:
    """|a_n|^{1/n} grows like n^{1/2}, as the n-th root of a Gaussian's n-th moment does; as printed it is bounded."""
    return trajectory({"power": power})


lemmaG = Claim(
    id="abstract_symbols/lemmaG",
    source="Lemma G.1",
    whose="the paper's statement",
    says="The kernel κ is not analytic at β = 0: its Taylor coefficients there have |a_n|^{1/n} growing as n^{1/2}.",
    predict=_power,
    observe=_coefficient_roots,
    compare=slope("root", "coefficient", "power"),
    settings={"fast": {"orders": 60}, "full": {"orders": 100}},
    control=Control("the series around β = 1, where κ is analytic", {"center": 1.0}),
    erratum=Erratum(
        changes={"power": 0.0},
        prints="The kernel κ is real-analytic on ℝ², so the Taylor coefficients of κ(β, 0) at 0 have |a_n|^{1/n} "
        "bounded.",
        says="At β = 0 the Taylor series diverges for every β > 0. For x = y = AB and γ = 0 its coefficients have "
        "|a_n|^{1/n} = 1.65 at n = 30 and 3.10 at n = 120. The proof puts C^n for the expectation of ‖Xζ‖^n, which "
        "grows as n^{n/2}.",
        formulas=(
            r"\kappa \text{ is analytic on } \mathbb{R}^2: \quad |a_n|^{1/n} = O(1)",
            r"\kappa \text{ is analytic where } \beta\gamma \neq 0; "
            r"\text{ at } \beta = 0: \quad |a_n|^{1/n} \sim n^{1/2}",
        ),
        consequence="Lemma 3.7 survives. κ is analytic where βγ ≠ 0 and smooth everywhere, so if two sums agreed on "
        "an open set they would agree for all β, γ > 0, and so would their one-sided derivatives at 0, which is what "
        "the proof uses.",
    ),
)


def _taylor_prediction(orders: int) -> xr.Dataset:
    return trajectory({"order": orders + 2})


def _taylor_remainder(
    x: str, y: str, gamma: float, betas: Sequence[float], orders: int, kernel_gamma: float | None = None
) -> xr.Dataset:
    """|κ(β, γ) − Σ_{i ≤ orders} Σ_j κ^{(i,j)}(0, 0) β^i γ^j/(i! j!)|; at β^i no power of γ above i + 2 occurs."""
    gammas = range(0, orders + 3, 2)
    parts = {
        (i, j): float(theory.derivative_value(i, j, x, y)) / (math.factorial(i) * math.factorial(j))
        for i in range(0, orders + 1, 2)
        for j in gammas
    }
    at = gamma if kernel_gamma is None else kernel_gamma
    remainder = [
        abs(
            attention_kernel(x, y, beta=beta, gamma=at, tolerance=1e-11)
            - sum(c * beta**i * gamma**j for (i, j), c in parts.items())
        )
        for beta in betas
    ]
    return trajectory({"remainder": ("beta", remainder)}, {"beta": list(betas)})


lemmaG_taylor = Claim(
    id="abstract_symbols/lemmaG_taylor",
    source="appendix F.1 and Lemma G.1",
    whose="a step of the paper's proof",
    says="The derivatives of appendix F are those of the kernel: its Taylor polynomial of order 6 in β errs by O(β⁸).",
    predict=_taylor_prediction,
    observe=_taylor_remainder,
    compare=slope("remainder", "beta", "order", TAYLOR_ORDER),
    settings={"fast": {"x": "AAB*", "y": "CAC*", "gamma": 0.7, "betas": (0.125, 0.15, 0.2), "orders": 6}},
    control=Control("the kernel has another γ than the polynomial", {"kernel_gamma": 0.71}),
)


DRAWS = ((0.0, 0.0), (0.5, 0.5), (1.0, 2.0))  # β, γ
SIZES = ((1.0, 1.0), (1.0, 100.0), (1e-3, 1e4))  # of ζ and of p


def _bound(order: int, draws: int, alone: float = 1.0, positions: bool = True) -> xr.Dataset:
    """The bound for a size with (`alone` + |β| + |γ|)·‖p‖, where print has no 1; without `positions` it has no ‖p‖."""

    def bound(arguments: dict[str, Any]) -> np.ndarray:
        share = (alone + abs(arguments["beta"]) + abs(arguments["gamma"])) if positions else 0.0
        return theory.log_derivative_bound(**arguments, positions=share)

    return _over_draws(order, draws, bound, "log_bound")


def _derivatives(order: int, draws: int) -> xr.Dataset:
    def measure(arguments: dict[str, Any]) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(np.abs(theory.pointwise_derivatives(**arguments))), -700.0)

    return _over_draws(order, draws, measure, "log_derivative")


def _over_draws(order: int, draws: int, measure: Callable[[dict[str, Any]], np.ndarray], name: str) -> xr.Dataset:
    random = np.random.default_rng(11)
    values = np.zeros((len(DRAWS), len(SIZES), draws, order + 1, order + 1))
    for place in np.ndindex(values.shape[:3]):
        (beta, gamma), (size_zeta, size_p) = DRAWS[place[0]], SIZES[place[1]]
        zeta, p = size_zeta * random.standard_normal(4), size_p * random.standard_normal(3)
        values[place] = measure(
            {"x": (0, 0, 3), "y": (1, 0, 3), "beta": beta, "gamma": gamma, "zeta": zeta, "p": p, "order": order}
        )
    coordinates = {
        "point": [f"β={b:g}, γ={g:g}" for b, g in DRAWS],
        "size": [f"ζ·{z:g}, p·{p:g}" for z, p in SIZES],
        "beta_order": np.arange(order + 1),
        "gamma_order": np.arange(order + 1),
    }
    axes = ("point", "size", "draw", "beta_order", "gamma_order")
    return trajectory({name: (axes, values)}, coordinates)


lemmaG9 = Claim(
    id="abstract_symbols/lemmaG9",
    source="Lemmas G.7 and G.9",
    whose="the paper's statement",
    says=(
        "For given ζ and p every derivative of f(β, γ) is at most C(1 + γ²)·k1!·k2!·max(1, (2e²·size)^{k1+k2}), "
        "size = ‖Xζ‖ + ‖X̃ζ̃‖ + (1 + |β| + |γ|)‖p‖, with C = 12·length² from the rules of Lemma G.4."
    ),
    predict=_bound,
    observe=_derivatives,
    compare=bounded("log_derivative", high="log_bound"),
    settings={"fast": {"order": 3, "draws": 4}, "full": {"order": 5, "draws": 20}},
    control=Control("the bound leaves positions out", {"positions": False}),
    erratum=Erratum(
        changes={"alone": 0.0},
        prints="For given ζ and p every derivative of f(β, γ) is at most C(1 + γ²)·k1!·k2!·max(1, "
        "(2e²·size)^{k1+k2}), size = ‖Xζ‖ + ‖X̃ζ̃‖ + (|β| + |γ|)‖p‖, with C = 12·length² from the rules of Lemma G.4.",
        says="Lemma G.7 takes βXζ + βγp to be of type (1, ‖Xζ‖ + (|β| + |γ|)‖p‖), but its series around (β, γ) also "
        "has the term (Δβ)(Δγ)p. At β = γ = 0 with ζ near 0 and ‖p‖ = 10⁴ the derivative ∂β∂γf is over 1000; the "
        "printed bound is 108 whatever p is.",
        formulas=(
            r"\|X\zeta\|_\infty + \|\tilde X\tilde\zeta\|_\infty + (|\beta| + |\gamma|)\,\|p\|_\infty",
            r"\|X\zeta\|_\infty + \|\tilde X\tilde\zeta\|_\infty + (1 + |\beta| + |\gamma|)\,\|p\|_\infty",
        ),
        consequence="None beyond a larger constant.",
    ),
)

CLAIMS = [lemmaG, lemmaG_taylor, lemmaG9]
