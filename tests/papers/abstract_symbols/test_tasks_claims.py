"""What the claims on tasks rest on: the reduction of condition (10), the enumeration, the experiments' numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrain.data.template_task import Template, TemplateTask, equality_pattern
from foretrain.kernels.architectures import MLP, MLP_XX, TRANSFORMER, architecture_kernel, mlp_kernel
from foretrain.papers.abstract_symbols.claims.nonsingular import pair_gap, permutation_gaps
from foretrain.papers.abstract_symbols.claims.tasks import restricted_growth
from foretrain.papers.abstract_symbols.experiments import tasks as experiments


@given(st.integers(2, 6), st.integers(1, 6), st.integers(0, 500))
@settings(max_examples=60)
def test_exchanges_decide_condition_10(r: int, rank: int, seed: int) -> None:
    """Lemmas 3.6 and 3.7: for a Gram matrix the smallest gap over all permutations is that of the best exchange."""
    root = np.random.default_rng(seed).normal(size=(r, rank))
    N = root @ root.T
    gaps = permutation_gaps(N)
    by_hand = [
        np.trace(N) - sum(N[i, tau[i]] for i in range(r))
        for tau in itertools.permutations(range(r))
        if tau != tuple(range(r))
    ]
    assert sorted(gaps) == pytest.approx(sorted(by_hand), abs=1e-9)
    assert pair_gap(N) == pytest.approx(gaps.min(), abs=1e-9)


@pytest.mark.parametrize(("length", "bell"), [(1, 1), (4, 15), (6, 203), (8, 4140)])
def test_equality_patterns_are_counted_by_bell_numbers(length: int, bell: int) -> None:
    """Fig 1: the patterns among which the templates of a task are counted."""
    patterns = list(restricted_growth(length))
    assert len(set(patterns)) == len(patterns) == bell
    assert all(equality_pattern(p) == p for p in patterns)


def test_templates_match_as_defined() -> None:
    """Definition 2.1, Definition 3.2, Definition 3.3: matching, disjoint templates, and the diversity ρ."""
    one, two = Template.parse("αα"), Template.parse("αβ")
    assert one.disjoint(two)
    assert not one.disjoint(Template.parse("ββ"))  # the names of wildcards do not matter
    assert not Template.parse("aα").disjoint(Template.parse("aβ"))
    assert Template.parse("aα").disjoint(Template.parse("bα"))
    assert TemplateTask((one, two), (1.0, -1.0)).diversity(10) == pytest.approx(10 / 2)  # the likeliest fills two of αβ


@pytest.mark.parametrize("relations", [0.0, 1.5])
def test_mlp_kernel_is_the_limit_of_wide_layers(relations: float) -> None:
    """Monte Carlo over one hidden layer of random Gaussian weights, cos activation."""
    X = np.array([[0, 0, 1], [2, 3, 3]])
    Y = np.array([[0, 1, 1], [4, 4, 4]])
    exact = mlp_kernel(X, Y, relations=relations)

    def inputs(Z: np.ndarray) -> np.ndarray:
        onehot = np.eye(5)[Z].reshape(len(Z), -1)
        inside = (Z[:, :, None] == Z[:, None, :]).reshape(len(Z), -1)
        return np.concatenate([onehot, relations * inside], axis=1) / np.sqrt(3)

    width = 400_000
    W = np.random.default_rng(0).normal(size=(inputs(X).shape[1], width))
    features = [np.cos(inputs(Z) @ W + np.pi / 4) for Z in (X, Y)]
    assert np.allclose(features[0] @ features[1].T / width, exact, atol=5 / np.sqrt(width))


@pytest.mark.parametrize("name", [TRANSFORMER, MLP, MLP_XX])
def test_kernels_are_token_symmetric(name: str) -> None:
    """Lemma C.3 (Lemma 3.5): what it asks of a kernel."""
    rng = np.random.default_rng(1)
    X, Y = rng.integers(0, 5, size=(2, 4, 3))
    renaming = rng.permutation(5)
    kernel = architecture_kernel(name)
    assert np.allclose(kernel(X, Y), kernel(renaming[X], renaming[Y]), atol=1e-8)
    assert np.allclose(kernel(X, Y), kernel(Y, X).T, atol=1e-8)


def test_blocks_are_what_the_kernel_matrix_is_mostly() -> None:
    """Fig 4: the kernel matrix and its blocks."""
    blocks = experiments.fig4(samples=(64,), per_sample=64.0, architecture=MLP_XX, seeds=1, shown=30)
    off = ~np.eye(30, dtype=bool)
    equal = np.isclose(blocks.gram, blocks.blocks, atol=1e-9)[off]
    assert equal.mean() > 0.97
    assert not np.isclose(blocks.gram, blocks.blocks)[~off].any()  # the diagonal is an exception


def test_idealised_curve_is_flat_where_the_ridge_grows() -> None:
    """Theorem 3.4 with a fixed ridge, Lemma D.1 with one that grows."""
    experiment = next(e for e in experiments.EXPERIMENTS if e.cell is experiments.kernel_regression)
    errors = experiment.run(rule=("0.01", "0.01n"), n=(32, 128), alphabet=(4096,), architecture=MLP_XX, seeds=2)
    errors = errors.isel(alphabet=0)
    growing = errors.sel(rule="0.01n")
    assert growing.ideal.values == pytest.approx([growing.ideal.values[0]] * 2)
    fixed = errors.sel(rule="0.01")
    assert fixed.ideal[1] < fixed.ideal[0] / 10
    measured = fixed.loss.mean("seed")
    assert np.allclose(measured, fixed.apart, rtol=0.3)  # nearly no token is shared
