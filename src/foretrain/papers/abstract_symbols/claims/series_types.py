"""Lemmas G.3 to G.6, and the proof of Lemma G.8: rules for how fast power series converge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import bounded, close
from foretrain.ledger.tolerances import ALGEBRA, Tolerance
from foretrain.papers.abstract_symbols.theory import series
from foretrain.papers.abstract_symbols.tolerances import TRUNCATED

ORDERS = 8  # of a series in each variable
TYPE_OF_SOFTMAX = 1 / (2 * math.e**2)  # Lemma G.6
SECOND = Tolerance(1.0, "the second number of the type in Lemma G.6")


def _functions(draws: int, orders: int = 3) -> list[np.ndarray]:
    """Random polynomials of small degree, in arrays that also hold their products and compositions."""
    random = np.random.default_rng(7)
    drawn = []
    for size in np.geomspace(0.1, 10, draws):
        coefficients = np.zeros((ORDERS, ORDERS))
        coefficients[:orders, :orders] = size * random.normal(size=(orders, orders))
        drawn.append(coefficients)
    return drawn


def _per_draw(**quantities: Sequence[float]) -> xr.Dataset:
    return trajectory({name: ("draw", list(values)) for name, values in quantities.items()})


# Lemma G.3 with g(y) = 1/y, which has type (y/2, 1/y): the case that Lemma G.6 needs.
def _inner(draws: int) -> list[np.ndarray]:
    functions = _functions(draws, orders=2)
    for f in functions:
        f[0, 0] = 1 + abs(f[0, 0])
    return functions


def _composed_bound(draws: int) -> xr.Dataset:
    return _per_draw(allowed=[1 / float(f[0, 0]) for f in _inner(draws)])


def _composed_sum(draws: int, shrunk: bool = True) -> xr.Dataset:
    """Σ|a_μ|r^|μ| of 1/f at the radius of the lemma; without `shrunk` at τ1, for the control."""
    totals = []
    for f in _inner(draws):
        radius = series.composition_radius(1.0, series.absolute_sum(f, 1.0), float(f[0, 0]) / 2)
        totals.append(series.absolute_sum(series.reciprocal(f), radius if shrunk else 1.0))
    return _per_draw(total_composed=totals)


lemmaG3 = Claim(
    id="abstract_symbols/lemmaG3",
    source="Lemma G.3",
    whose="the paper's statement",
    says=(
        "If f has type (τ1, τ2) and g has type (σ1, σ2), g∘f has type (min(τ1, (σ1∘f)τ1/τ2), σ2∘f). (Tried on 1/f for "
        "random polynomials f.)"
    ),
    predict=_composed_bound,
    observe=_composed_sum,
    compare=bounded("total_composed", high="allowed", slack=TRUNCATED),
    settings={"fast": {"draws": 10}, "full": {"draws": 60}},
    control=Control("the radius τ1 of f itself", {"shrunk": False}),
)


def _sum_rule(draws: int, first_twice: bool = False) -> xr.Dataset:
    """τ2 + σ2 of neighbouring functions, or τ2 + τ2 as printed."""
    totals = [series.absolute_sum(f, 0.5) for f in _functions(draws)]
    return _per_draw(allowed=[2 * a if first_twice else a + b for a, b in itertools.pairwise(totals)])


def _sum_measured(draws: int, factor: float = 1.0) -> xr.Dataset:
    """Σ|a_μ|r^|μ| of f + g; `factor` enlarges g, for the control."""
    functions = _functions(draws)
    totals = [series.absolute_sum(f + factor * g, 0.5) for f, g in itertools.pairwise(functions)]
    return _per_draw(total_of_sum=totals)


lemmaG4 = Claim(
    id="abstract_symbols/lemmaG4",
    source="Lemma G.4",
    whose="the paper's statement",
    says="If f has type (τ1, τ2) and g has type (σ1, σ2), f + g has type (min(τ1, σ1), τ2 + σ2).",
    predict=_sum_rule,
    observe=_sum_measured,
    compare=bounded("total_of_sum", high="allowed", slack=ALGEBRA),
    settings={"fast": {"draws": 10}, "full": {"draws": 60}},
    control=Control("ten times g in place of g", {"factor": 10.0}),
    erratum=Erratum(
        changes={"first_twice": True},
        prints="If f has type (τ1, τ2) and g has type (σ1, σ2), f + g has type (min(τ1, σ1), τ2 + τ2).",
        says="A slip of the pen: for f = 0, τ2 may be as small as one likes, and f + g = g has σ2. In our draws, with "
        "g 1.7 times as large as f, the printed bound is exceeded by up to 80 %. The product rule beside it is right.",
        formulas=(
            r"f + g \text{ has type } (\min(\tau_1, \sigma_1),\; \tau_2 + \tau_2)",
            r"f + g \text{ has type } (\min(\tau_1, \sigma_1),\; \tau_2 + \sigma_2)",
        ),
        consequence="None: Lemma G.8 uses the corrected rule.",
    ),
)


def _product_bound(draws: int) -> xr.Dataset:
    functions = _functions(draws)
    totals = [series.absolute_sum(f, 0.5) for f in functions]
    bounds = [
        series.product_total(totals[i], totals[i + 1], functions[i].flat[0], functions[i + 1].flat[0])
        for i in range(draws - 1)
    ]
    return _per_draw(allowed=bounds)


def _product_measured(draws: int, factor: float = 1.0) -> xr.Dataset:
    functions = _functions(draws)
    pairs = itertools.pairwise(functions)
    totals = [series.absolute_sum(series.product(f, factor * g), 0.5) for f, g in pairs]
    return _per_draw(total_of_product=totals)


lemmaG4_product = Claim(
    id="abstract_symbols/lemmaG4_product",
    source="Lemma G.4",
    whose="the paper's statement",
    says="If f has type (τ1, τ2) and g has type (σ1, σ2), fg has type (min(τ1, σ1), τ2σ2 + τ2|g| + |f|σ2).",
    predict=_product_bound,
    observe=_product_measured,
    compare=bounded("total_of_product", high="allowed", slack=ALGEBRA),
    settings={"fast": {"draws": 10}, "full": {"draws": 60}},
    control=Control("ten times g in place of g", {"factor": 10.0}),
)


def _derivative_bound(first: int = 1) -> xr.Dataset:
    """1 for every order |μ| from `first` on, in units of μ!·τ2/τ1^|μ|; lower orders are not bounded."""
    return _orders({"allowed": ("order", np.where(np.arange(5) < first, np.inf, 1.0))})


def _derivatives(draws: int, factor: float = 1.0) -> xr.Dataset:
    """The largest |∂^μf| of each order |μ| over μ!·τ2/τ1^|μ| at τ1 = 1/2; `factor` enlarges them, for the control."""
    powers = np.add.outer(np.arange(3), np.arange(3))
    shares = []
    for f in _functions(draws):
        f[0, 0] *= 5  # of which a type says nothing
        bound = series.coefficient_bound(np.arange(5), 0.5, series.absolute_sum(f, 0.5))
        shares.append([factor * np.abs(f[:3, :3][powers == n]).max() / bound[n] for n in range(5)])
    return _orders({"derivative": (("draw", "order"), shares)})


def _orders(variables: dict[str, Any]) -> xr.Dataset:
    return trajectory(variables, {"order": list(range(5))})


lemmaG5 = Claim(
    id="abstract_symbols/lemmaG5",
    source="Lemma G.5",
    whose="the paper's statement",
    says="If f has type (τ1, τ2), |∂^μf| ≤ μ!·τ2/τ1^|μ| for every multi-index μ but 0.",
    predict=_derivative_bound,
    observe=_derivatives,
    compare=bounded("derivative", high="allowed", slack=ALGEBRA),
    settings={"fast": {"draws": 10}, "full": {"draws": 60}},
    control=Control("derivatives ten times as large", {"factor": 10.0}),
    erratum=Erratum(
        changes={"first": 0},
        prints="If f has type (τ1, τ2), |∂^μf| ≤ μ!·τ2/τ1^|μ| for every multi-index μ.",
        says="Definition G.2 leaves the constant term out of the sum, so nothing bounds f itself: f = 1 + x/10 has "
        "type (1, 1/10), and |f| = 1 at 0. The proof has |μ| ≥ 1.",
        formulas=(
            r"|\partial^\mu f| \le \mu!\,\tau_2/\tau_1^{|\mu|} \text{ for every } \mu",
            r"|\partial^\mu f| \le \mu!\,\tau_2/\tau_1^{|\mu|} \text{ for every } |\mu| \ge 1",
        ),
        consequence="None: Lemma G.9 at order 0 follows from |f| ≤ 1 + γ².",
    ),
)


def _softmax_sums(tokens: Sequence[int], draws: int, radius: float = TYPE_OF_SOFTMAX) -> xr.Dataset:
    """Σ|a_μ|r^|μ| of a softmax around random points, for logits of size .1 to 10."""
    random = np.random.default_rng(9)
    totals = [
        [
            series.absolute_sum(series.softmax_series(size * random.normal(size=m), 0, ORDERS if m < 3 else 6), radius)
            for size in np.geomspace(0.1, 10, draws)
        ]
        for m in tokens
    ]
    return trajectory({"total_of_softmax": (("tokens", "draw"), totals)}, {"tokens": list(tokens)})


lemmaG6 = Claim(
    id="abstract_symbols/lemmaG6",
    source="Lemma G.6",
    whose="the paper's statement",
    says="Each entry of a softmax is real-analytic of type (1/(2e²), 1).",
    observe=_softmax_sums,
    compare=bounded("total_of_softmax", high=SECOND),
    settings={"fast": {"tokens": (2, 3), "draws": 6}, "full": {"tokens": (2, 3, 4), "draws": 20}},
    control=Control("a radius of 1.4, about 20 times as large", {"radius": 1.4}),
)


POINTS = (0.5, 1.0, 2.0)


def _reciprocal_series(sign: int = 1) -> xr.Dataset:
    values = [sum(sign * c * (0.2 * y) ** k for k, c in enumerate(series.reciprocal_series(y, 60))) for y in POINTS]
    return _reciprocals(values)


def _reciprocal_itself(offset: float = 0.2) -> xr.Dataset:
    """1/(y + offset·y)."""
    return _reciprocals([1 / (y * (1 + offset)) for y in POINTS])


def _reciprocals(values: Sequence[float]) -> xr.Dataset:
    return trajectory({"reciprocal": ("y", list(values))}, {"y": list(POINTS)})


lemmaG6_series = Claim(
    id="abstract_symbols/lemmaG6_series",
    source="Lemma G.6, its proof",
    whose="a step of the paper's proof",
    says="1/y = Σ_k (−1)^k(y − y0)^k/y0^(k+1).",
    predict=_reciprocal_series,
    observe=_reciprocal_itself,
    compare=close("reciprocal", ALGEBRA, by="by the series", seen="by division"),
    settings={"fast": {}},
    control=Control("1/y farther from y0", {"offset": 0.4}),
    erratum=Erratum(
        changes={"sign": -1},
        prints="1/y = Σ_k (−1)^(k+1)(y − y0)^k/y0^(k+1).",
        says="The printed series is −1/y: at y = y0 = 1 it gives −1, not 1.",
        formulas=(
            r"\frac1y = \sum_{k \ge 0} \frac{(-1)^{k+1}}{y_0^{k+1}} (y - y_0)^k",
            r"\frac1y = \sum_{k \ge 0} \frac{(-1)^{k}}{y_0^{k+1}} (y - y_0)^k",
        ),
        consequence="None: only the absolute values of the terms are used.",
    ),
)


def _positions(gammas: Sequence[float], printed: bool = False) -> xr.Dataset:
    """The second part of the type; the printed one is γ, and |γ| for the benefit of the doubt."""
    return _by_gamma(gammas, "allowed", [abs(g) if printed else series.positions_total(g) for g in gammas])


def _positions_sum(gammas: Sequence[float], power: int = 2) -> xr.Dataset:
    """Σ|a_k| of γ^power around γ, within a radius of 1."""
    shifted = [np.array([math.comb(power, k) * g ** (power - k) for k in range(power + 1)]) for g in gammas]
    return _by_gamma(gammas, "total", [series.absolute_sum(s, 1.0) for s in shifted])


def _by_gamma(gammas: Sequence[float], name: str, values: Sequence[float]) -> xr.Dataset:
    return trajectory({name: ("gamma", list(values))}, {"gamma": list(gammas)})


lemmaG8 = Claim(
    id="abstract_symbols/lemmaG8",
    source="Lemma G.8, its proof",
    whose="a step of the paper's proof",
    says="Each entry of XX̃ᵀ + γ²I is real-analytic in γ, of type (1, 1 + 2|γ|).",
    predict=_positions,
    observe=_positions_sum,
    compare=bounded("total", high="allowed", slack=ALGEBRA),
    settings={"fast": {"gammas": (-2.0, -0.5, 0.0, 0.5, 1.0, 4.0)}},
    control=Control("γ³ in place of γ²", {"power": 3}),
    erratum=Erratum(
        changes={"printed": True},
        prints="Each entry of XX̃ᵀ + γI is real-analytic in γ, of type (1, γ).",
        says="The kernel has γ²I, and (γ + Δ)² − γ² = 2γΔ + Δ²: at γ = 0 the sum is 1, and the printed bound 0.",
        formulas=(
            r"X\tilde X^\top + \gamma I \text{ has type } (1, \gamma)",
            r"X\tilde X^\top + \gamma^2 I \text{ has type } (1,\; 1 + 2|\gamma|)",
        ),
        consequence="None: C(1 + γ²) in the lemma covers 1 + 2|γ|.",
    ),
)

CLAIMS = [lemmaG3, lemmaG4, lemmaG4_product, lemmaG5, lemmaG6, lemmaG6_series, lemmaG8]
