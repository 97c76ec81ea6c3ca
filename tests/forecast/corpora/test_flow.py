"""The flow of the training rows: against plain descent with tiny steps, and as a sum of contributions of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.integrate import solve_ivp

from foretrain.data.tokens import TokenTexts
from foretrain.forecast.corpora.flow import STIFF, dense_kernel, flow, grid, sparse_kernel
from foretrain.forecast.corpora.rows import answers
from foretrain.forecast.corpora.scores import SCALES, TrainingSet, alike, architectures, last_of, targets
from foretrain.kernels import features, label_flow
from foretrain.kernels.tangent import cnn_window_kernel, mlp_kernel


def texts(count: int, seed: int = 0, vocab: int = 12) -> TokenTexts:
    draw = np.random.default_rng(seed)
    return TokenTexts.of_lists([draw.integers(0, vocab, draw.integers(3, 9)).tolist() for _ in range(count)], vocab)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("time", [3.0, 100.0])
def test_the_flow_is_descent_with_tiny_steps(classes: int, time: float) -> None:
    draw = np.random.default_rng(1)
    root = draw.standard_normal((20, 30))
    kernel = root @ root.T
    target = targets(draw.integers(0, classes, 20), classes)
    setup = dense_kernel(kernel, kernel, 0.25 if classes == 2 else 0.5)
    pulls = last_of(flow(setup, target, grid(time)))
    span = time / setup.unit
    exact = label_flow.kernel_descent(kernel, np.eye(20), target, rate=span / 40_000, steps=40_000)
    exact = exact.reshape(20, -1)
    np.testing.assert_allclose(kernel @ pulls, kernel @ exact, atol=2e-3 * np.abs(kernel @ exact).max())


@pytest.mark.parametrize("time", [1.0, 64.0])
@pytest.mark.parametrize("shared", [0.0, 2.0, 3.0, 30.0])
def test_a_flow_that_all_texts_share_in_is_that_of_an_implicit_solver(shared: float, time: float) -> None:
    """Column 0, which all texts share, makes one direction up to 1000 times as fast as the others."""
    draw = np.random.default_rng(3)
    table = np.column_stack([np.full(40, shared * 3), draw.poisson(0.5, (40, 25))]).astype(float)
    target = targets((table[:, 1] + draw.random(40) > 1).astype(int), 2)
    setup = sparse_kernel(sparse.csr_array(table), 0.25)
    assert (setup.largest > STIFF * setup.others) == (shared > 2)
    pulls = last_of(flow(setup, target, grid(time)))[:, 0]
    kernel, span = table @ table.T, time / setup.unit
    exact = solve_ivp(
        lambda _, at: label_flow.residual(target, kernel @ at) / 40,
        (0, span),
        np.zeros(40),
        "Radau",
        rtol=1e-9,
        atol=1e-13,
    ).y[:, -1]
    assert np.abs(kernel @ (pulls - exact)).max() < 1e-3 * np.abs(kernel @ exact).max()


def test_an_implicit_direction_saves_most_of_the_products() -> None:
    draw = np.random.default_rng(4)
    table = np.column_stack([np.full(60, 100.0), draw.poisson(0.5, (60, 25))]).astype(float)
    target = targets(draw.integers(0, 2, 60), 2)
    setup = sparse_kernel(sparse.csr_array(table), 0.25)
    products: list[int] = []

    def counted(pulls: np.ndarray) -> np.ndarray:
        products.append(1)
        return setup.times(pulls)

    last_of(flow(replace(setup, times=counted), target, grid(256.0)))
    implicit = len(products)
    last_of(flow(replace(setup, times=counted, others=setup.largest), target, grid(256.0)))
    assert implicit < 0.2 * (len(products) - implicit)


def test_recording_more_often_changes_nothing_but_the_steps() -> None:
    draw = np.random.default_rng(2)
    root = draw.standard_normal((15, 15))
    setup = dense_kernel(root @ root.T, root @ root.T, 0.25)
    target = targets(draw.integers(0, 2, 15), 2)
    often = list(flow(setup, target, grid(64.0)))
    assert len(often) == len(grid(64.0)) == 7
    twice = list(flow(setup, target, np.sort(np.concatenate([grid(64.0), grid(64.0)[1:] * 0.75]))))
    np.testing.assert_allclose(twice[-1], often[-1], atol=1e-3 * np.abs(often[-1]).max())


@given(st.floats(0.01, 1e5))
def test_the_grid_doubles_and_ends_at_the_time(time: float) -> None:
    moments = grid(time)
    assert moments[-1] == time
    assert np.all(np.diff(moments) > 0)
    assert np.all(moments[1:] <= 2 * moments[:-1] * (1 + 1e-12))


@pytest.mark.parametrize("name", architectures(2))
@pytest.mark.parametrize("classes", [2, 3])
def test_contributions_of_training_rows_sum_to_the_score(name: str, classes: int) -> None:
    """Exactly: the score is kernel × residuals, and the kernel is that between the two texts themselves."""
    train, further = texts(30, 1), texts(5, 2)
    labels = np.random.default_rng(3).integers(0, classes, 30)
    kinds = {name: architectures(2)[name]}
    said = answers(kinds, TrainingSet(train, labels, classes), further, {name: 50.0})[name]
    assert np.abs(said.logits).max() > 1e-3
    for text in range(5):
        own = said.contributions(text)
        np.testing.assert_allclose(own.sum(axis=0), said.logits[text], atol=1e-10 * max(1, np.abs(own).sum()))
        row, adds = said.drivers(text, 0)[0]
        assert np.abs(own[:, 0]).max() == pytest.approx(abs(adds))
        assert own[np.flatnonzero(said.setup.chosen == row)[0], 0] == adds
    np.testing.assert_allclose(said.probabilities.sum(axis=1), 1)


def test_a_removed_row_would_have_pulled_what_it_contributes_at_first() -> None:
    """At the start residuals do not depend on each other, so dropping a row takes away its contribution."""
    train, further = texts(20, 4), texts(3, 5)
    labels = np.arange(20) % 2
    kind = {"m": architectures(2)["MLP tanh"]}
    early = answers(kind, TrainingSet(train, labels, 2, adaptive=False), further, {"m": 1e-4})["m"]
    kept = np.arange(1, 20)
    target = targets(labels, 2)
    unit = early.setup.kernel.unit
    expected = sum(early.setup.between(0)[k] * target[k] / 2 * 1e-4 / unit / 20 for k in kept)
    got = early.logits[0, 0] - early.contributions(0)[0, 0]
    assert got == pytest.approx(expected, rel=1e-3)


def test_rates_of_tokens_enter_the_kernel_once_per_shared_token() -> None:
    """MLP: Σ ρ r(e) n n′ + β T T′. CNN: windows that agree in one place have that token's rate, in both their mean."""
    two = TokenTexts.of_lists([[0, 1, 1], [1, 2]], 4)
    rates = np.array([4.0, 0.25, 9.0, 1.0])
    own, shared = mlp_kernel("relu", SCALES)
    got = features.mlp_features(two, "relu", SCALES, rates).kernel()
    expected = [[own * (4 + 0.25 * 4) + shared * 9, own * 0.25 * 2 + shared * 6]]
    np.testing.assert_allclose(got[:1], expected, rtol=1e-12)
    theta = cnn_window_kernel("relu", 2, SCALES)
    one, both = theta[1] - theta[0], theta[2] - 2 * theta[1] + theta[0]
    windows = TokenTexts.of_lists([[0, 1], [0, 1], [0, 2]], 4)
    kernel = features.window_features(windows, 2, "relu", SCALES, rates).kernel()
    assert kernel[0, 1] == pytest.approx(theta[0] + one * (4 + 0.25) + both * (4 + 0.25) / 2)
    assert kernel[0, 2] == pytest.approx(theta[0] + one * 4)
    plain = features.window_features(windows, 2, "relu", SCALES, np.ones(4)).kernel()
    np.testing.assert_allclose(plain, features.window_features(windows, 2, "relu", SCALES).kernel(), rtol=1e-12)


def test_the_rate_of_a_token_is_adagrads() -> None:
    """Adagrad's step at the n-th gradient of size g is 1/√n, however large g is; up to N steps they add up to 2√n, so
    per occurrence a token with n of N gradients moves √(N/n) times as far as one with all N."""
    rates = features.token_rates(TokenTexts.of_lists([[0, 1], [0], [0, 2], [0]], 4))
    np.testing.assert_allclose(rates[:3], [1, 2, 2])

    def moved(gradients: int) -> float:
        return sum(1 / np.sqrt(k) for k in range(1, gradients + 1)) / gradients

    assert moved(100) / moved(10_000) == pytest.approx(np.sqrt(10_000 / 100), rel=0.1)


def test_networks_share_a_forecast_only_if_their_kernels_agree() -> None:
    sample = texts(50, 6)
    first = alike(architectures(2), TrainingSet(sample, np.zeros(50, dtype=int), 2, adaptive=False))
    assert first["MLP SiLU"] == first["MLP tanh"] == "MLP GeLU"
    assert first["MLP ReLU"] == "MLP ReLU"
    assert len({first[name] for name in ("MLP ReLU", "CNN ReLU", "CNN linear", "matrix-vector", "linear RNN")}) == 5
