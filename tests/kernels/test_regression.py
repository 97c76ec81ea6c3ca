"""Kernel ridge regression and the template matrix against direct n by n algebra and brute force."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.simple import incidence_kernel, product_kernel

from foretrain.core.errors import InputError
from foretrain.data.template_examples import majority, print_symbol, same_different, word_problems
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
    formula = ideal_predictions(matrix.N, np.full(8, 7.0), np.array(task.labels), 0.1 + matrix.own - np.diag(matrix.N))
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


def test_measured_errors_fall_with_samples() -> None:
    task = same_different().with_cls()
    measured = measured_errors(task, incidence_kernel, samples=[30, 120], alphabets=[20_000], ridge=0.1, seeds=4)
    assert measured.sizes == {"n": 2, "alphabet": 1, "seed": 4, "template": 2, "output": 1}
    assert (measured.loss.mean("seed").diff("n") < 0).all()
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
    ],
)
def test_bad_input_is_refused(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call(same_different().with_cls())  # type: ignore[operator]
