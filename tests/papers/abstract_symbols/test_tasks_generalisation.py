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

from foretrain.data.template_examples import same_different
from foretrain.kernels.architectures import MLP_XX, TRANSFORMER
from foretrain.kernels.regression import ideal_predictions, unseen_strings
from foretrain.kernels.template_matrix import template_matrix
from foretrain.papers.abstract_symbols.setting import KernelSetting
from foretrain.papers.abstract_symbols.theory import generalisation as theory
from foretrain.papers.abstract_symbols.theory import templates as theory_of_templates

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


@pytest.mark.parametrize("architecture", [MLP_XX, TRANSFORMER])
def test_many_samples_from_few_tokens_tend_to_the_solution_of_r_equations(architecture: str) -> None:
    """Theorem 3.4 at n → ∞: regression on every string of six tokens, each often, against N·M⁻¹f*."""
    task, kernel = same_different().with_cls(), KernelSetting(architecture).kernel
    own = len(task.vocabulary)
    cls = task.one_per_template()[0, -1]
    strings = np.array([(a, b, cls) for a, b in itertools.product(range(own, own + 6), repeat=2)])
    same = strings[:, 0] == strings[:, 1]
    # Each template has half of the samples: a string of αα is drawn five times as often as one of αβ.
    often = np.where(same, 0.5 / 6, 0.5 / 30) * 1e9
    gram = kernel(strings, strings)
    unseen = unseen_strings(task, 6)
    direct = kernel(unseen, strings) @ np.linalg.solve(gram + np.diag(0.01 / often), np.where(same, 1.0, -1.0))
    mean = np.array([[gram[np.ix_(one, two)].mean() for two in (same, ~same)] for one in (same, ~same)])
    N = template_matrix(task, kernel).N
    estimate = theory.many_samples_estimate(N, mean, np.array([1.0, -1.0]))
    assert estimate == pytest.approx(direct, abs=1e-5)
    assert abs(estimate - [1.0, -1.0]).max() > 0.05  # six tokens are not enough


def test_the_error_of_many_samples_is_of_order_one_over_rho() -> None:
    """Theorem 3.4: M = N + O(1/ρ), and so is the error, not of order √(1/ρ)."""
    N, _, labels, _ = setup(3, 7)
    extra = positive_matrix(3, 8)
    errors = [abs(theory.many_samples_estimate(N, N + extra / rho, labels) - labels).max() for rho in (1e4, 1e5)]
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.05)


@given(st.integers(1, 4), st.integers(0, 100))
@settings(max_examples=15)
def test_the_printed_chain_needs_a_ridge_between_two_powers_of_rho(r: int, seed: int) -> None:
    """Lemma D.1, its proof: D.2 plus D.4 at the best λ falls as ρ^(−1/4); at a fixed λ it grows with n."""
    N, _, labels, _ = setup(r, seed)
    weights = np.full(r, 1 / r)

    def best(diversity: float) -> float:
        n = 1e3 * diversity
        ridges = n * np.geomspace(1e-9, 1e2, 400)
        return min(theory.chain_bound(N, weights, labels, n=n, diversity=diversity, ridge=x) for x in ridges)

    power = math.log(best(1e24) / best(1e22)) / math.log(100)
    assert power == pytest.approx(-0.25, abs=0.02)
    fixed = [theory.chain_bound(N, weights, labels, n=n, diversity=n, ridge=1.0) for n in (1e8, 1e10)]
    assert fixed[1] > 9 * fixed[0]


def test_majority_templates_are_counted_by_enumeration() -> None:
    """Section 1.1: equality patterns of strings over two symbols with a majority; 5 for k = 4, not 8."""
    for k in range(1, 10):
        strings = ["".join(s) for s in itertools.product("ab", repeat=k)]
        with_majority = [s for s in strings if 2 * s.count("a") > k]  # a is the majority; b the other symbol
        assert theory_of_templates.majority_templates(k) == len(with_majority)
    assert theory_of_templates.majority_templates(4) == 5
    assert all(theory_of_templates.majority_templates(k) == 2 ** (k - 1) for k in (1, 3, 5, 7, 9))
