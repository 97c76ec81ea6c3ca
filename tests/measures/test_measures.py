"""Measures against their definitions, and the same for numpy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from foretrain.measures import effective_rank, entropy, normalized_correlation, stable_rank

weights = arrays(np.float64, st.integers(2, 8), elements=st.floats(1e-3, 1e3))
matrices = arrays(np.float64, (4, 3), elements=st.floats(-10, 10).map(lambda x: round(x, 3))).filter(
    lambda a: np.abs(a).max() > 0.01
)


@given(weights)
def test_entropy_is_scipys(w: np.ndarray) -> None:
    assert entropy(w) == pytest.approx(stats.entropy(w), abs=1e-13)


def test_entropy_counts_zeros_as_nothing_and_refuses_what_is_no_distribution() -> None:
    assert entropy(np.array([0.0, 1.0, 1.0])) == pytest.approx(np.log(2), abs=1e-15)
    assert np.isnan(entropy(np.zeros(3)))
    assert np.isnan(entropy(np.array([1.5, -0.5])))
    assert np.isnan(entropy(np.array([-1.0, -1.0])))


def test_entropy_without_normalising_is_the_plain_sum() -> None:
    assert entropy(np.array([0.5, 0.25]), normalize=False) == pytest.approx(-0.5 * np.log(0.5) - 0.25 * np.log(0.25))


@given(matrices)
def test_ranks_follow_their_definitions_and_bounds(a: np.ndarray) -> None:
    values = np.linalg.svd(a, compute_uv=False)
    assert stable_rank(a) == pytest.approx(np.linalg.norm(a) ** 2 / np.linalg.norm(a, 2) ** 2)
    p = values / values.sum()
    p = p[p > 0]
    assert effective_rank(a) == pytest.approx(np.exp(-(p * np.log(p)).sum()))
    full = np.linalg.matrix_rank(a, tol=1e-13)
    for rank in (stable_rank(a), effective_rank(a)):
        assert 1 - 1e-9 <= rank <= full + 1e-3


def test_stable_and_effective_rank_are_different_things() -> None:
    a = np.diag([2.0, 1.0])
    assert stable_rank(a) == pytest.approx(1.25)
    assert effective_rank(a) == pytest.approx(np.exp(stats.entropy([2, 1])))


@given(matrices, st.floats(0.1, 10), st.floats(-5, 5))
def test_ranks_ignore_scale_and_correlation_ignores_scale_and_shift(a: np.ndarray, scale: float, shift: float) -> None:
    assert stable_rank(scale * a) == pytest.approx(stable_rank(a))
    x, y = a[:, 0], a[:, 1]
    if np.ptp(x) > 0.1 and np.ptp(y) > 0.1:
        r = normalized_correlation(x, y)
        assert r == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
        assert normalized_correlation(scale * x + shift, y) == pytest.approx(r, abs=1e-9)


def test_correlation_of_a_constant_is_not_a_number() -> None:
    assert np.isnan(normalized_correlation(np.ones(4), np.arange(4.0)))


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_whole_numbers_are_numbers(kind) -> None:
    matrix = kind([[2, 0], [0, 1]])
    assert float(stable_rank(matrix)) == pytest.approx(1.25)
    assert float(entropy(matrix)[0]) == 0
    assert float(normalized_correlation(kind([1, 2, 3]), kind([2, 4, 6]))) == pytest.approx(1)


@pytest.mark.parametrize("measure", [entropy, stable_rank, effective_rank])
def test_torch_in_torch_out(measure) -> None:
    a = np.random.default_rng(0).uniform(0.1, 1, (2, 4, 3))
    out = measure(torch.from_numpy(a))
    assert isinstance(out, torch.Tensor)
    assert isinstance(measure(a), np.ndarray)
    np.testing.assert_allclose(out.numpy(), measure(a), rtol=1e-13)
