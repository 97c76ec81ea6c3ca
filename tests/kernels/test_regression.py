"""Kernel ridge regression and the template matrix against direct n by n algebra and brute force."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import ndarray as Array

from foretrain.data.template_tasks import aba_abb, majority, print_symbol, same_different, word_problems
from foretrain.data.templates import Template, TemplateTask
from foretrain.errors import InputError
from foretrain.kernels.regression import (
    ideal_predictions,
    ideal_weights,
    measured_errors,
    ridge_coefficients,
    ridge_predictions,
    targets,
    unseen_strings,
)
from foretrain.kernels.template_matrix import template_matrix


def incidence_kernel(X: Array, Y: Array) -> Array:
    """A token-symmetric positive kernel that sees which positions inside a string are equal."""
    inside = [(Z[:, :, None] == Z[:, None, :]).reshape(len(Z), -1).astype(float) for Z in (X, Y)]
    apart = inside[0].sum(axis=1)[:, None] + inside[1].sum(axis=1) - 2 * inside[0] @ inside[1].T
    return np.exp((X[:, None] == Y[None]).mean(axis=2) - 1 - apart / 4)


def product_kernel(X: Array, Y: Array) -> Array:
    """An inner-product kernel κ(Σ 1(x_i = y_i)), as from an MLP."""
    return np.exp((X[:, None] == Y[None]).sum(axis=2) - X.shape[1])


def test_coefficients_solve_the_ridge_equation() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 40))
    gram, labels = root @ root.T, rng.normal(size=(30, 2))
    kept = gram.copy()
    found = ridge_coefficients(gram, labels, 0.3)
    assert np.allclose((gram + 0.3 * np.eye(30)) @ found, labels, atol=1e-10)
    assert (gram == kept).all()


@given(st.integers(1, 5), st.integers(0, 1000), st.floats(1e-3, 100))
@settings(max_examples=30)
def test_idealised_estimator_is_eq_15(r: int, seed: int, ridge: float) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(r, r + 1))
    N = root @ root.T
    block = rng.integers(0, r, size=25)  # some template may have no sample
    y = rng.normal(size=25)
    B = np.eye(r)[block]
    whole = np.linalg.inv(B @ N @ B.T + ridge * np.eye(25))
    counts = B.sum(axis=0)
    means = B.T @ y / np.maximum(counts, 1)
    assert np.allclose(ideal_predictions(N, counts, means, ridge), N @ B.T @ whole @ y, atol=1e-8)
    assert np.allclose(B @ ideal_weights(N, counts, ridge), whole @ B @ N, atol=1e-8)


def test_samples_without_a_common_token_follow_the_r_by_r_formula_exactly() -> None:
    task = majority(4).with_cls()
    matrix = template_matrix(task, incidence_kernel)
    copies = [task.one_per_template(first=i * 8 * 2) for i in range(7)]
    strings, labels = np.concatenate(copies), np.tile(np.array(task.labels), 7)
    gram = incidence_kernel(strings, strings)
    test = unseen_strings(task, 1000)
    direct = incidence_kernel(test, strings) @ np.linalg.solve(gram + 0.1 * np.eye(56), labels)
    formula = matrix.predictions(np.full(8, 7.0), targets(task), ridge=0.1)[:, 0]
    assert np.allclose(direct, formula, atol=1e-10)


def test_template_matrix_does_not_depend_on_the_substitution() -> None:
    task = word_problems((2, 5)).with_cls()
    matrix = template_matrix(task, incidence_kernel)
    rng = np.random.default_rng(1)
    for _ in range(20):
        i, j = rng.integers(0, 4, size=2)
        x, y = task.one_per_template(first=int(rng.integers(50)))[i], task.one_per_template(first=100)[j]
        assert incidence_kernel(x[None], y[None])[0, 0] == pytest.approx(matrix.N[i, j], rel=1e-12)
    assert matrix.blind_count == 0
    assert matrix.condition == pytest.approx(np.linalg.cond(matrix.N), rel=1e-8)
    assert matrix.inverse_norm == pytest.approx(np.linalg.norm(np.linalg.inv(matrix.N), 2), rel=1e-8)


def test_template_matrix_is_positive() -> None:
    """It is the Gram matrix of mean embeddings, so no eigenvalue is negative."""
    for task in (same_different(), majority(4), print_symbol()):
        assert template_matrix(task.with_cls(), incidence_kernel).eigenvalues[0] >= -1e-12


def test_expected_loss_is_the_mean_over_draws() -> None:
    task = replace(same_different(), noise=0.5).with_cls()
    matrix = template_matrix(task, incidence_kernel)
    for n in (100, 1000):
        drawn = matrix.loss_draws(n, ridge=0.1, draws=4000)
        expected = matrix.loss(np.array([float(n)]), ridge=0.1)[0]
        # counts at their means instead of drawn: a relative difference of order 1/n
        assert abs(drawn.mean() - expected) < 5 * drawn.std() / np.sqrt(4000) + 5 * expected / n


def test_loss_formula_agrees_with_the_estimator() -> None:
    task = majority(4).with_cls()
    matrix = template_matrix(task, incidence_kernel)
    bias = matrix.predictions(np.full(8, 5.0), targets(task), ridge=0.2) - targets(task)
    assert matrix.loss(np.array([40.0]), ridge=0.2)[0] == pytest.approx((bias**2).mean(), rel=1e-10)


def test_error_falls_as_one_over_n_without_noise_and_half_as_fast_with_it() -> None:
    quiet = template_matrix(same_different().with_cls(), incidence_kernel)
    noisy = template_matrix(replace(same_different(), noise=1.0).with_cls(), incidence_kernel)
    n = np.array([1e5, 1e7])
    for matrix, rate in ((quiet, -2), (noisy, -1)):  # of the squared error
        loss = matrix.loss(n, ridge=0.1)
        assert np.log(loss[1] / loss[0]) / np.log(100) == pytest.approx(rate, abs=0.02)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_samples_needed_is_where_the_loss_stays_within(noise: float) -> None:
    matrix = template_matrix(replace(aba_abb(), noise=noise).with_cls(), incidence_kernel)
    n = matrix.samples_needed(0.01, ridge=0.1)
    later = matrix.loss(n * np.geomspace(1, 1e4, 50), ridge=0.1)
    assert (later <= 0.01 * (1 + 1e-9)).all()
    assert matrix.loss(np.array([0.97 * n]), ridge=0.1)[0] > 0.01
    assert matrix.samples_needed(100.0, ridge=0.1) == 1


def test_inner_product_kernel_is_blind_and_says_between_what() -> None:
    matrix = template_matrix(same_different().with_cls(), product_kernel)
    assert matrix.blind_count == 1
    assert matrix.groups == [[0, 1]]
    assert matrix.faint_direction() in ("1 αα − 1 αβ", "1 αβ − 1 αα")
    assert matrix.inverse_norm == matrix.condition == matrix.samples_needed(0.5, ridge=0.1) == float("inf")
    assert matrix.limit_loss() == pytest.approx(1)


def test_blind_kernel_still_learns_labels_that_agree() -> None:
    """N is singular, yet the labels do not vary along the direction it cannot see."""
    rows = tuple(Template.parse(s) for s in ("ααS", "αβS", "ααT", "αβT"))
    task = TemplateTask(rows, (1.0, 1.0, -1.0, -1.0)).with_cls()
    matrix = template_matrix(task, product_kernel)
    assert matrix.blind_count == 2
    assert matrix.limit_loss() == pytest.approx(0, abs=1e-12)
    assert matrix.samples_needed(0.01, ridge=0.1) < 1000


def test_limit_loss_is_the_loss_of_endless_samples() -> None:
    rows = tuple(Template.parse(s) for s in ("αα", "αβ"))
    task = TemplateTask(rows, (3.0, 0.0), (0.25, 0.75)).with_cls()
    matrix = template_matrix(task, product_kernel)
    assert matrix.limit_loss() == pytest.approx(matrix.loss(np.array([1e9]), ridge=0.1)[0], rel=1e-5)
    assert matrix.limit_loss() == pytest.approx(9 * 0.25 * 0.75)  # the variance: only the mean is learned


def test_measured_errors_fall_and_follow_the_formula_when_tokens_rarely_repeat() -> None:
    task = same_different().with_cls()
    measured = measured_errors(task, incidence_kernel, samples=[30, 120], alphabets=[20_000], ridge=0.1, seeds=4)
    assert measured.sizes == {"n": 2, "alphabet": 1, "seed": 4, "template": 2, "output": 1}
    expected = template_matrix(task, incidence_kernel).loss(np.array([30.0, 120.0]), ridge=0.1)
    assert np.allclose(measured.loss.mean("seed").squeeze(), expected, rtol=0.15)
    assert (measured.loss_low <= measured.loss_high).all()


def test_ridge_may_depend_on_samples_and_diversity() -> None:
    task = same_different().with_cls()
    by_rule = measured_errors(task, incidence_kernel, samples=[16], ridge=lambda n, rho: n / rho, seeds=2)
    by_value = measured_errors(task, incidence_kernel, samples=[16], ridge=2.0, seeds=2)
    assert np.array_equal(by_rule.loss, by_value.loss)
    assert by_rule.diversity.item() == 8


def test_next_token_targets_ask_for_the_answer() -> None:
    assert targets(print_symbol()).tolist() == [[1, 0], [0, 1]]
    task = print_symbol()
    train = task.sample(60, 1, alphabet=500)
    out = ridge_predictions(incidence_kernel, train, unseen_strings(task, 500), 0.01)
    assert out.shape == (2, 2)
    assert (out.argmax(axis=1) == [0, 1]).all()


def test_four_thousand_samples_fit_in_memory() -> None:
    n = 4000
    points = np.linspace(0, 1, n)
    gram = np.exp(-abs(points[:, None] - points))
    tracemalloc.start()
    found = ridge_coefficients(gram, np.sin(points)[:, None], 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * gram.nbytes
    rows = slice(0, n, 400)
    assert np.allclose(gram[rows] @ found + found[rows], np.sin(points)[rows, None], atol=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: measured_errors(t, product_kernel, samples=[4], ridge=0.0), "ridge must be a finite number above 0"),
        (lambda t: measured_errors(t, product_kernel, samples=[4], ridge=1.0, interval=1.0), "interval"),
        (lambda t: template_matrix(t, product_kernel, accuracy=0.0), "accuracy must be above 0"),
        (lambda t: template_matrix(t, product_kernel).samples_needed(-1.0, ridge=1.0), "error must be"),
        (lambda t: template_matrix(t, product_kernel).loss(np.ones(1), ridge=-1.0), "ridge must be"),
    ],
)
def test_bad_input_is_refused(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call(same_different().with_cls())  # type: ignore[operator]
