"""Lemmas G.3 to G.8: truncated series against autograd and exact functions, and the bounds on them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrain.papers.abstract_symbols.theory import series


def polynomial(seed: int, orders: int = 4, variables: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(orders,) * variables)


def value(coefficients: np.ndarray, at: np.ndarray) -> float:
    powers = itertools.product(*(range(n) for n in coefficients.shape))
    return sum(float(coefficients[p]) * float(np.prod(at ** np.array(p))) for p in powers)


@given(st.integers(0, 50), st.integers(0, 50))
@settings(max_examples=20)
def test_products_and_sums_have_the_bounds_of_lemma_g4(seed: int, other: int) -> None:
    """Lemma G.4: with τ2 + σ2 for the sum; and the product of series is that of the functions."""
    f, g = (np.pad(polynomial(s, 3), ((0, 2), (0, 2))) for s in (seed, 100 + other))
    radius = 0.3
    tau, sigma = (series.absolute_sum(s, radius) for s in (f, g))
    fg = series.product(f, g)
    at = np.array([0.1, -0.2])
    assert value(fg, at) == pytest.approx(value(f, at) * value(g, at), rel=1e-9)
    assert series.absolute_sum(f + g, radius) <= (tau + sigma) * (1 + 1e-12)
    bound = series.product_total(tau, sigma, f[0, 0], g[0, 0])
    assert series.absolute_sum(fg, radius) <= bound * (1 + 1e-12)


def test_the_printed_sum_rule_fails() -> None:
    """Lemma G.4 as printed, τ2 + τ2: f = 0 has τ2 as small as one likes, and f + g = g has not."""
    f, g = np.zeros((3, 3)), polynomial(1, 3)
    assert series.absolute_sum(f + g, 0.3) > 2 * series.absolute_sum(f, 0.3) + 0.1


@given(st.integers(0, 100), st.floats(0.2, 2.0))
@settings(max_examples=20)
def test_composition_has_the_type_of_lemma_g3(seed: int, y: float) -> None:
    """Lemma G.3 with g(y) = 1/y, whose type at y is (y/2, 1/y)."""
    inner = np.zeros((9, 9))
    inner[:2, :2] = 0.3 * polynomial(seed, 2)
    inner[0, 0] = y
    total = series.absolute_sum(inner, 1.0)
    radius = series.composition_radius(1.0, total, y / 2)
    assert series.absolute_sum(series.reciprocal(inner), radius) <= 1 / y + 1e-9


def test_reciprocal_series_has_the_sign_of_the_function() -> None:
    """Lemma G.6, its proof: 1/y = Σ(−1)^k (Δy)^k/y^(k+1), and not −1/y."""
    coefficients = series.reciprocal_series(2.0, 40)
    assert sum(c * 0.3**k for k, c in enumerate(coefficients)) == pytest.approx(1 / 2.3, rel=1e-12)


@pytest.mark.parametrize("tokens", [2, 3])
def test_softmax_series_has_the_derivatives_of_autograd(tokens: int) -> None:
    """Lemma G.6: the first and mixed second derivatives, and the absolute sum at radius 1/(2e²), which is below 1."""
    point = np.random.default_rng(tokens).normal(size=tokens)
    coefficients = series.softmax_series(point, 1, 4)

    def softmax(at: torch.Tensor) -> torch.Tensor:
        return torch.softmax(at, dim=0)[1]

    leaf = torch.tensor(point)
    assert coefficients.flat[0] == pytest.approx(float(softmax(leaf)), rel=1e-12)
    first = torch.autograd.functional.jacobian(softmax, leaf)
    second = torch.autograd.functional.hessian(softmax, leaf)
    for i, j in itertools.product(range(tokens), repeat=2):
        place = [0] * tokens
        place[i] += 1
        assert coefficients[tuple(place)] == pytest.approx(float(first[i]), rel=1e-10)
        place[j] += 1
        factor = 2.0 if i == j else 1.0
        assert factor * coefficients[tuple(place)] == pytest.approx(float(second[i, j]), rel=1e-9, abs=1e-12)
    assert series.absolute_sum(coefficients, 1 / (2 * math.e**2)) < 1


@given(st.integers(0, 200))
@settings(max_examples=30)
def test_derivatives_are_bounded_from_the_first_on(seed: int) -> None:
    """Lemma G.5, for |μ| ≥ 1; the constant term of a type is free, so nothing bounds it."""
    coefficients = polynomial(seed)
    powers = np.add.outer(np.arange(4), np.arange(4))
    bound = series.coefficient_bound(powers, 0.4, series.absolute_sum(coefficients, 0.4))
    assert (np.abs(coefficients) <= bound * (1 + 1e-12))[powers > 0].all()
    coefficients[0, 0] = 1e3
    assert np.abs(coefficients[0, 0]) > series.absolute_sum(coefficients, 0.4)


@given(st.floats(-3, 3))
def test_gamma_squared_has_type_1_and_1_plus_2_gamma(gamma: float) -> None:
    """Lemma G.8, its proof."""
    shifted = np.array([gamma**2, 2 * gamma, 1.0])
    assert series.absolute_sum(shifted, 1.0) == pytest.approx(series.positions_total(gamma))
    assert series.absolute_sum(shifted, 1.0) > gamma
