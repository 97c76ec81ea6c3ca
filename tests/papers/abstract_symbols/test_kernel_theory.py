"""Appendices E, F, G and J on paper: against exact Gaussian sums, direct matrix products and autograd."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import roots_hermitenorm

from foretrain.kernels import Cosine, attention_kernel
from foretrain.papers.abstract_symbols import theory

# Appendix F.1, as printed; "" is the constant term.
TABLE = {
    (0, 0): ["1 XY 1"],
    (2, 2): ["1 XY 1", "tr XY"],
    (4, 0): [
        "1 XY 1", "1 XX XY 1", "1 XY YY 1", "1 XX XX XY 1", "1 XY 1 * 1 XX 1", "1 XY YX XY 1", "1 XY 1 * 1 XY 1",
        "1 YX XY YY 1", "1 XY 1 * 1 YY 1", "1 XX XY 1 * 1 XX 1", "1 XY YY 1 * 1 XX 1", "1 XY 1 * 1 XX XY 1",
        "1 XY YY 1 * 1 XY 1", "1 XX XY 1 * 1 YY 1", "1 XY YY 1 * 1 YY 1", "1 XY 1 * 1 XX 1 * 1 XX 1",
        "1 XY 1 * 1 XX XX 1", "1 XY 1 * 1 XY 1 * 1 XX 1", "1 XY 1 * 1 XY 1 * 1 XY 1", "1 XY 1 * 1 XX 1 * 1 YY 1",
        "1 XY 1 * 1 XY 1 * 1 YY 1", "1 XY 1 * 1 YY 1 * 1 YY 1", "1 XY 1 * 1 YY YY 1",
    ],
    (4, 2): [
        "1 XY 1", "tr XY", "1 XX XY 1", "tr XX XY", "1 XY YY 1", "tr XY YY", "1 XY 1 * 1 XX 1", "tr XY * 1 XX 1",
        "1 XY 1 * 1 XY 1", "1 XY 1 * tr XY", "1 XY 1 * 1 YY 1", "1 XY XY 1", "tr XY * 1 YY 1", "1 YX YY 1",
        "1 XX YX 1", "1 XX YY 1", "1 YY 1 * 1 XX 1",
    ],
    (6, 4): [
        "1 XY 1", "tr XY", "1 XX XY 1", "tr XX XY", "1 XY YY 1", "tr XY YY", "1 XY 1 * 1 XX 1", "tr XY * 1 XX 1",
        "tr XY * 1 XY 1", "1 XY 1 * 1 YY 1", "1 XY 1 * 1 XY 1", "1 XY XY 1", "tr XY * 1 YY 1", "1 XX YX 1",
        "1 YX YY 1", "tr XY XY", "tr XY * tr XY", "", "1 XX 1", "1 XX XX 1", "1 XX YY 1", "1 YY 1", "1 XX 1 * 1 XX 1",
        "1 YY 1 * 1 XX 1", "tr XX YY", "1 YY YY 1", "1 YY 1 * 1 YY 1",
    ],
}  # fmt: skip


@pytest.mark.parametrize("orders", TABLE)
def test_expansion_has_exactly_the_printed_terms(orders: tuple[int, int]) -> None:
    """Appendix F.1, the table of derivatives."""
    printed = {theory.invariant(*term.split(" * ")) if term else () for term in TABLE[orders]}
    assert set(theory.kernel_derivative(*orders)) == printed


def matrix_value(word: str, x: str, y: str) -> int:
    tokens = sorted(set(x + y))
    hot = {name: np.array([[t == u for u in tokens] for t in s], dtype=int) for name, s in (("X", x), ("Y", y))}
    kind, *steps = word.removesuffix(" 1").split(" ")
    product = np.eye(len(x), dtype=int)
    for step in steps:
        product = product @ hot[step[0]] @ hot[step[1]].T
    return int(np.trace(product) if kind == "tr" else product.sum())


@given(st.text("ABC", min_size=3, max_size=3), st.text("ABCD", min_size=3, max_size=3))
@settings(max_examples=20)
def test_invariants_are_the_matrix_products_they_are_named_after(x: str, y: str) -> None:
    for words in itertools.chain.from_iterable(TABLE.values()):
        if words:
            parts = words.split(" * ")
            expected = math.prod(matrix_value(part, x, y) for part in parts)
            assert theory.invariant_value(theory.invariant(*parts), x, y) == expected


@pytest.mark.parametrize("orders", [(0, 0), (0, 2), (2, 0), (2, 2), (4, 0), (4, 2), (3, 2)])
def test_derivatives_are_gaussian_means_of_pointwise_ones(orders: tuple[int, int]) -> None:
    """At (0, 0) they are polynomials in ζ and p of degree at most 5, so three nodes per Gaussian are exact."""
    x, y = (0, 0), (1, 0)
    z, w = roots_hermitenorm(3)
    total = 0.0
    for nodes in itertools.product(range(3), repeat=4):
        pointwise = theory.pointwise_derivatives(
            x, y, beta=0.0, gamma=0.0, zeta=z[list(nodes[:2])], p=z[list(nodes[2:])], order=max(orders)
        )
        total += float(np.prod(w[list(nodes)]) / w.sum() ** 4) * pointwise[orders]
    assert float(theory.derivative_value(*orders, x, y)) == pytest.approx(total, abs=1e-10)


def test_pointwise_derivatives_are_those_of_autograd() -> None:
    """Lemmas G.7 to G.9: the derivatives that they bound."""
    x, y = [0, 0, 2], [1, 0, 2]
    draw = np.random.default_rng(4)
    zeta, p = draw.standard_normal(3), draw.standard_normal(3)
    point = torch.tensor([0.6, 0.9], dtype=torch.float64, requires_grad=True)
    first, second = (
        torch.softmax(point[0] * (torch.tensor(zeta)[s] + point[1] * torch.tensor(p)), dim=0) for s in (x, y)
    )
    product = torch.tensor(np.equal.outer(x, y), dtype=torch.float64) + point[1] ** 2 * torch.eye(
        3, dtype=torch.float64
    )
    value = first @ product @ second
    derivatives = theory.pointwise_derivatives(x, y, beta=0.6, gamma=0.9, zeta=zeta, p=p, order=2)
    assert derivatives[0, 0] == pytest.approx(float(value.detach()), rel=1e-12)
    (slope,) = torch.autograd.grad(value, point, create_graph=True)
    assert derivatives[1, 0] == pytest.approx(float(slope[0].detach()), rel=1e-10)
    assert derivatives[0, 1] == pytest.approx(float(slope[1].detach()), rel=1e-10)
    (curve,) = torch.autograd.grad(slope[0], point, create_graph=True)
    assert derivatives[2, 0] == pytest.approx(float(curve[0].detach()), rel=1e-10)
    assert derivatives[1, 1] == pytest.approx(float(curve[1].detach()), rel=1e-10)
    (third,) = torch.autograd.grad(curve[1], point)
    assert derivatives[2, 1] == pytest.approx(float(third[0]), rel=1e-10)


@pytest.mark.parametrize(("positions", "holds"), [(0.0, False), (1.0, True)])
def test_the_bound_on_derivatives_needs_the_mixed_term_of_positions(positions: float, holds: bool) -> None:
    """Lemmas G.7 to G.9: without the term (Δβ)(Δγ)p the bound is 108 at β = γ = 0, and ∂β∂γf is over 1000."""
    strings = {"x": (0, 0, 2), "y": (1, 0, 2)}
    p = 1e4 * np.array([0.7, -1.1, 0.4])
    at_0 = {**strings, "beta": 0.0, "gamma": 0.0, "zeta": np.full(3, 1e-3), "p": p, "order": 1}
    derivative = abs(theory.pointwise_derivatives(**at_0)[1, 1])
    bound = np.exp(theory.log_derivative_bound(**at_0, positions=positions)[1, 1])
    assert derivative > 1000
    assert (derivative <= bound) is np.bool_(holds)
    assert holds or bound == pytest.approx(108)


def test_odd_derivatives_vanish() -> None:
    assert theory.kernel_derivative(3, 0) == {}
    assert theory.kernel_derivative(2, 1) == {}


def test_two_tokens_have_a_known_series_and_kernel() -> None:
    """Lemma G.1: the series at β = 0 from the exact derivatives, and that around 1 from differences."""
    logs = theory.two_token_series_at_0(3)
    for n, log in zip((2, 4, 6), logs, strict=True):
        exact = theory.derivative_value(n, 0, "AB", "AB") / math.factorial(n)
        assert math.exp(log) == pytest.approx(abs(float(exact)), rel=1e-12)
    for beta in (0.5, 1.0, 2.0):
        assert theory.two_token_kernel(np.array(beta)).real == pytest.approx(
            attention_kernel("AB", "AB", beta=beta, gamma=0), abs=1e-8
        )
    around_1 = np.exp(theory.two_token_series(1.0, 2, 0.5))
    h = 1e-3
    values = theory.two_token_kernel(np.array([1 - h, 1.0, 1 + h])).real
    assert around_1[0] == pytest.approx((values[2] - values[0]) / (2 * h), rel=1e-5)
    assert around_1[1] == pytest.approx(abs(values[2] - 2 * values[1] + values[0]) / (2 * h * h), rel=1e-4)


def test_eq_4_by_sobol_is_the_exact_kernel() -> None:
    for x, y in (("AB*", "BA*"), ("AAC*", "BDC*")):
        sampled = theory.attention_expectation(x, y, beta=1.2, gamma=0.6)
        assert sampled == pytest.approx(attention_kernel(x, y, beta=1.2, gamma=0.6), abs=3e-4)
    apart = theory.attention_expectation("AB*", "AB*", beta=1.2, gamma=0.6, same_scores=False)
    assert apart < attention_kernel("AB*", "AB*", beta=1.2, gamma=0.6) - 0.1


def test_closed_forms() -> None:
    """Claim E.2, and appendix F at β = 0."""
    # Appendix F at β = 0: 1ᵀXYᵀ1/k² + γ²/k; AAB and ACB share A twice and B once.
    assert attention_kernel("AAB", "ACB", beta=0, gamma=2.0) == pytest.approx(3 / 9 + 4 / 3)
    closed = theory.cosine_expectation(0.5, 0.8, -0.3, k=1.1, c=0.4)
    assert float(closed) == pytest.approx(float(Cosine(1.1, 0.4).expectation(0.5, 0.8, -0.3)), abs=1e-15)


def test_velocities_of_copying_follow_from_the_kernels() -> None:
    """Theorems 4.1 and J.2, Theorems 4.2 and J.3: their sums, term by term, with the limits of the kernels."""
    m, n, gamma = 6, 3, 0.7
    residual = 1 / m - np.eye(m)

    def velocity(i: int, j: int, own: float, shared: float) -> float:
        return -float(residual[i] @ residual[j]) * (own * (i == j) + shared)

    kernels = [(1, gamma**2), (1, gamma**2), (0, gamma**2), (2, gamma**2)]  # O, V, P, E
    train = np.mean([velocity(i, j, *k) for i in range(n) for j in range(n) for k in kernels]) * 4
    test = np.mean([velocity(i, m - 1, *k) for i in range(n) for k in kernels]) * 4
    assert theory.train_velocity(gamma, m, n) == pytest.approx(train)
    assert theory.unseen_velocity(gamma, m, dict.fromkeys("VOPE", True)) == pytest.approx(test)
    assert theory.identity_velocity(m) == pytest.approx(-(residual[0, 0] * residual[1, 1]))


@pytest.mark.parametrize(
    ("orders", "words", "coefficient"),
    [
        ((0, 0), ("1 XY 1",), {-2: 1}),
        ((2, 2), ("tr XY",), {-2: 8}),
        ((4, 0), ("1 XY 1", "1 XX 1", "1 YY 1"), {-6: 24}),
        ((4, 2), ("1 XX YY 1",), {-4: 48}),
        ((6, 4), ("tr XX YY",), {-4: 17280}),
    ],
)
def test_coefficients_are_exact(orders: tuple[int, int], words: tuple[str, ...], coefficient: dict[int, int]) -> None:
    """Claims F.2 to F.6: the coefficient that each stage of the proof rests on."""
    assert theory.kernel_derivative(*orders)[theory.invariant(*words)] == coefficient
    assert theory.derivative_value(0, 0, "AB", "BC") == Fraction(1, 4)
