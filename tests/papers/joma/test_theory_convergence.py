"""Theorem 4 with Lemmas 6 and 7, and section 5, on paper."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp
from scipy.optimize import minimize_scalar

from foretrain import InputError
from foretrain.papers.joma import theory

RHO = st.floats(-1, 1)


@pytest.mark.parametrize("mu", [0.1, 1.0, -2.0, 5.0, 30.0])
@pytest.mark.parametrize("delta", [0.9, 1e-3, 1e-300])
def test_salient_time_by_plain_quadrature(mu, delta):
    """Theorem 4, eq. 79: in s = ln(1/δ) the time is ∫ e^{−μ²(1−e^{−s})²/2} ds."""
    cuts = sorted({0.0, *(min(-np.log(delta), c / abs(mu)) for c in (1, 3, 9)), -np.log(delta)})
    exact = sum(
        quad(lambda s: np.exp(-(mu**2) * np.expm1(-s) ** 2 / 2), a, b, epsabs=1e-16, epsrel=1e-12, limit=500)[0]
        for a, b in pairwise(cuts)
    )
    assert theory.salient_time(mu, delta) == pytest.approx(exact, rel=1e-11)


def test_salient_time_is_when_the_flow_gets_there():
    """Theorem 4, eq. 79, against eq. 6 solved step by step."""
    mu = np.array([0.5, 1.0, 2.0])
    times = theory.salient_time(mu, 0.01)
    for component, t in zip(mu, times, strict=True):
        solved = solve_ivp(lambda _, v, m=component: theory.attention_flow(v, m), (0, t), [0.0], rtol=1e-11, atol=1e-12)
        assert 1 - solved.y[0, -1] / component == pytest.approx(0.01, rel=1e-7)
    assert np.all(np.diff(times) < 0)  # salient components first


@given(st.floats(0.05, 4), st.floats(1e-3, 50))
def test_log_distance_inverts_the_time(mu, log_inverse):
    """Theorem 4: ln(1/δ(t)) is the inverse of eq. 79."""
    t = theory.time_to_distance(mu, log_inverse)
    assert theory.log_distance(mu, t) == pytest.approx(log_inverse, rel=1e-7)


@given(st.floats(0.05, 20), st.floats(0, 1e4))
def test_time_excess_keeps_the_bound_88(mu, log_inverse):
    """Theorem 4, eq. 88."""
    assert 0 <= theory.time_excess(mu, log_inverse) < np.sqrt(np.pi / 2) + 1


def test_corrected_bound_follows_from_the_excess_and_the_printed_one_is_below_it():
    """Theorem 4, eq. 7: the corrected and the printed bound on Λ differ by e^{3μ²/2}."""
    slow, left = np.array([1.0, 2.0]), 5e3
    assert np.all(
        theory.speed_ratio_error_bound(slow, left)
        == pytest.approx(np.exp(1.5 * slow**2) * theory.speed_ratio_error_bound_printed(slow, left))
    )
    assert theory.speed_ratio(2.0, 1.0) == pytest.approx(np.exp(1.5))


def test_lemmas_6_and_7_bound_but_do_not_touch():
    """Lemma 6 and Lemma 7: the maxima of g and G are below their bounds."""
    best = minimize_scalar(lambda y: -float(theory.lemma6_function(y)), bounds=(0.1, 3), method="bounded")
    assert -best.fun == pytest.approx(0.6382, abs=1e-4)
    best = minimize_scalar(lambda y: -float(theory.lemma7_function(y)), bounds=(0.1, 3), method="bounded")
    assert -best.fun == pytest.approx(0.7651, abs=1e-4)
    y = 2.3
    exact = np.exp(-(y**2) / 2) * quad(lambda x: np.exp(x**2 / 2), 0, y)[0]
    assert theory.lemma7_function(y) == pytest.approx(exact, rel=1e-12)
    assert theory.lemma6_function([0.0, 1.0]) == pytest.approx([0.0, 1 - np.exp(-1)])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.salient_time([1.0, 0.0], 0.1), "not 0"),
        (lambda: theory.salient_time(1.0, 0.0), "above 0"),
        (lambda: theory.salient_time(1.0, 1.5), "at most 1"),
        (lambda: theory.log_distance(1.0, -1.0), "must not be negative"),
        (lambda: theory.time_to_distance(1.0, -1.0), "must not be negative"),
        (lambda: theory.cooccurrence(1.2, 5, 2, 0.9), "between −1 and 1"),
        (lambda: theory.cooccurrence(0.5, 5, 5, 0.9), "ancestor_depth"),
        (lambda: theory.cooccurrence(0.5, 5, 2, 1.9), "probability"),
        (lambda: theory.transition(-2.0), "between −1 and 1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, words):
    with pytest.raises(InputError, match=words) as refusal:
        call()
    assert "\n" not in str(refusal.value)


@given(RHO, RHO)
def test_lemma8(first, second):
    """Lemma 8, eq. 90 and 91: M is symmetric, its rows sum to 1, and correlations multiply."""
    M, p = theory.transition, theory.distribution
    assert np.array_equal(M(first), M(first).T)
    assert np.abs(M(first) @ np.ones(2) - 1).max() <= 1e-15
    assert np.abs(M(first) @ M(second) - M(first * second)).max() <= 1e-15
    assert np.abs(M(first) @ p(second) - p(first * second)).max() <= 1e-15


@given(st.lists(RHO, min_size=1, max_size=10))
def test_lemma9(chain):
    """Lemma 9: the product along a chain."""
    product = np.linalg.multi_dot([np.eye(2), np.eye(2), *theory.transition(chain)])
    assert np.abs(product - theory.transition(theory.chain_correlation(chain))).max() <= 1e-14


@given(st.floats(-0.99, 0.99), st.integers(2, 8), st.data(), st.floats(0, 1))
def test_cooccurrence_is_a_probability_and_falls_with_the_distance_of_the_ancestor(rho, depth, data, p_zero):
    """Theorem 5, corrected."""
    low = data.draw(st.integers(0, depth - 1))
    value = theory.cooccurrence(rho, depth, low, p_zero)
    assert -1e-12 <= value <= 1 + 1e-12
    if low + 1 < depth:
        assert theory.cooccurrence(rho, depth, low + 1, p_zero) <= value + 1e-12
    assert theory.cooccurrence(rho, depth, 0, p_zero) == pytest.approx(1.0)


def test_numbers_of_theorem5_and_the_order_of_eq8():
    """Theorem 5 and eq. 8: the numbers of their errata."""
    assert theory.cooccurrence(0.9, 5, 2, 0.9) == pytest.approx(0.6381, abs=5e-5)
    assert theory.cooccurrence_printed(0.9, 5, 2, 0.9) == pytest.approx(0.5801, abs=5e-5)
    small = np.array([1e-3, 1e-4, 1e-5])
    off = theory.cooccurrence(1 - small, 7, 2, 1 - small / 2) - theory.cooccurrence_limit(7, 2)
    assert off / small == pytest.approx([-(2 / 7) * (7 - 4) / 2] * 3, rel=1e-2)
