"""Appendix D on paper: every bound against direct n by n algebra, the limits against large n."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, multinomial

from foretrain.kernels.regression import ideal_predictions
from foretrain.papers.abstract_symbols.theory import generalisation as theory

Array = NDArray[np.float64]


def positive_matrix(r: int, seed: int) -> Array:
    root = np.random.default_rng(seed).normal(size=(r, r + 2))
    return root @ root.T


def setup(r: int, seed: int) -> tuple[Array, NDArray[np.int64], Array, Array]:
    """N, the template of each of 30 samples (every template occurs), labels f*, and the indicator B."""
    rng = np.random.default_rng(seed)
    template = np.concatenate([np.arange(r), rng.integers(0, r, size=30 - r)])
    return positive_matrix(r, seed), template, rng.normal(size=r), np.eye(r)[template]


@given(st.integers(1, 5), st.integers(0, 200), st.floats(0.01, 0.95))
@settings(max_examples=30)
def test_weights_are_within_claim_d3(r: int, seed: int, share: float) -> None:
    """Claim D.3: both bounds, against direct algebra."""
    N, template, _, B = setup(r, seed)
    counts = B.sum(axis=0)
    ridge = share * theory.threshold(N, counts)
    for a in range(r):
        w = np.linalg.solve(B @ N @ B.T + ridge * np.eye(30), N[template, a])
        norm, distance = (bound[a] for bound in theory.weight_bounds(N, counts, ridge))
        assert np.linalg.norm(w) <= norm * (1 + 1e-9)
        assert np.linalg.norm(B[:, a] / counts[a] - w) <= distance * (1 + 1e-9)


@given(st.integers(1, 5), st.integers(0, 200), st.floats(0.001, 100))
@settings(max_examples=30)
def test_shrinkage_is_within_claim_d4_corrected(r: int, seed: int, ridge: float) -> None:
    """Claim D.4, corrected."""
    N, _, labels, B = setup(r, seed)
    counts = B.sum(axis=0)
    error = abs(ideal_predictions(N, counts, labels, ridge) - labels).max()
    assert error <= theory.shrinkage_bound(N, counts, labels, np.full(r, ridge)) * (1 + 1e-9)


def test_growing_ridge_tends_to_its_limit_and_not_to_the_labels() -> None:
    """Lemma D.1, corrected: with λ = .1n the estimator does not tend to the labels."""
    N, _, labels, _ = setup(3, 5)
    weights = np.array([0.2, 0.3, 0.5])
    for n in (10, 1000, 100_000):  # λ = .1n: not a matter of n at all when each template has its share
        shrunk = ideal_predictions(N, n * weights, labels, 0.1 * n)
        assert np.allclose(shrunk, theory.proportional_ridge_limit(N, weights, labels, 0.1), atol=1e-10)
    assert abs(shrunk - labels).max() > 0.01
    fixed = [abs(ideal_predictions(N, n * weights, labels, 0.1) - labels).max() for n in (10, 1000, 100_000)]
    assert fixed[2] < fixed[1] / 50 < fixed[0] / 1000


@given(st.integers(1, 4), st.integers(0, 200), st.floats(0.01, 1.0))
@settings(max_examples=20)
def test_error_without_common_tokens_is_within_lemma_d6_corrected(r: int, seed: int, ridge: float) -> None:
    """Lemma D.6, corrected: with noise in 95 % of draws, without noise always."""
    N, template, labels, B = setup(r, seed)
    rng = np.random.default_rng(seed)
    shift = ridge + rng.uniform(0, 1, size=r)
    counts = B.sum(axis=0)
    noise = 0.3 * rng.normal(size=(400, 30))
    A = B @ N @ B.T + np.diag(shift[template])
    predictions = (N @ B.T @ np.linalg.solve(A, (labels[template] + noise).T)).T
    bound = theory.disjoint_error_bound(N, counts, labels, shift, noise=0.3, delta=0.05)
    within = (abs(predictions - labels) <= bound).mean(axis=0)
    assert (within >= binom.ppf(1e-4, 400, 0.95) / 400).all()
    quiet = theory.disjoint_error_bound(N, counts, labels, shift, noise=0.0, delta=0.05)
    exact = N @ B.T @ np.linalg.solve(A, labels[template])
    assert (abs(exact - labels) <= quiet * (1 + 1e-9)).all()


@given(st.integers(0, 200), st.floats(0.05, 10))
@settings(max_examples=20)
def test_difference_of_regressions_is_within_claim_d5(seed: int, ridge: float) -> None:
    """Claim D.5: the perturbation bound, for any two kernel matrices."""
    rng = np.random.default_rng(seed)
    ideal = positive_matrix(6, seed)
    gram = ideal + 0.3 * positive_matrix(6, seed + 1)
    v, v_ideal, y = rng.normal(size=(3, 6))
    weights = np.linalg.solve(ideal + ridge * np.eye(6), v_ideal)
    difference = abs(y @ np.linalg.solve(gram + ridge * np.eye(6), v) - y @ weights)
    bound = theory.regression_difference_bound(
        float(np.linalg.norm(y)),
        ridge,
        np.array([np.linalg.norm(v - v_ideal)]),
        float(np.linalg.norm(gram - ideal, 2)),
        np.array([np.linalg.norm(weights)]),
    )
    assert difference <= bound[0] * (1 + 1e-9)


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.2, 0.3, 0.5)])
@pytest.mark.parametrize("n", [20, 60])
def test_all_templates_are_represented_as_often_as_said(weights: tuple[float, ...], n: int) -> None:
    """Claim D.2, event E1: as printed and corrected, over all ways to split n samples."""
    mu = np.array(weights)
    law = multinomial(n, mu)
    splits = [c for c in itertools.product(range(n + 1), repeat=len(mu) - 1) if sum(c) <= n]
    counts = np.array([[*c, n - sum(c)] for c in splits])
    chances = law.pmf(counts)
    half = chances[(counts >= n * mu / 2).all(axis=1)].sum()
    assert half >= theory.all_represented_probability(n, mu) - 1e-12
    whole = counts[(counts >= n * mu - 1e-9).all(axis=1)]  # as printed: nothing but exact equality is left
    assert np.allclose(whole, n * mu)
    assert chances[(counts >= n * mu - 1e-9).all(axis=1)].sum() < 0.2


def test_rates_have_their_exponents() -> None:
    """Theorem 3.4, Lemma D.6 and Claim D.2: the bounds up to their constants."""
    n = np.array([1e2, 1e4])
    assert np.log10(theory.error_rate(n, np.inf, 0.05)) @ [-1, 1] == pytest.approx(-1)
    assert np.log10(theory.error_rate(np.inf, n, 0.05)) @ [-1, 1] == pytest.approx(-1)
    assert theory.error_rate(n, n, 0.05)[0] == pytest.approx(math.sqrt(math.log(20) / 100) + 0.1)
    assert theory.inverse_norm_rate(100, 7.0, math.exp(-1)) == pytest.approx(0.1 + 0.07)
    assert theory.idealisation_rate(100, 25, 4.0) == pytest.approx(0.25 + 5)


def test_principal_angle() -> None:
    """Fig 4: a plane that is turned by 30 degrees."""
    turn = math.radians(30)
    one = np.array([[1.0, 0], [0, 1], [0, 0]])
    two = np.array([[1.0, 0], [0, math.cos(turn)], [0, math.sin(turn)]])
    assert theory.principal_angle(one, two) == pytest.approx(30)
    assert theory.principal_angle(one, one[:, ::-1]) == pytest.approx(0, abs=1e-6)
