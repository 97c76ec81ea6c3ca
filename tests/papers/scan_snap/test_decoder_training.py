"""Training of the decoder against naive code, and Lemmas 10 to 12 by enumeration of all counts."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.simulations.decoder_training import (
    class_weights,
    drawn_order,
    equal_overlaps,
    shuffled_epochs,
    train_decoder,
    with_overlaps,
)

TABLE = np.array([[0, 0.3, 0.1], [0.3, 0, 0.2], [0.1, 0.2, 0]])


def test_training_by_the_gradient_is_autograd_on_the_loss():
    """Eq. 7, with two classes at a time, over all rows of Y."""
    f, vocab = with_overlaps(TABLE), 8
    order = np.array([[[0, 1], [2, 2], [1, 0], [0, 2]]])
    Y = train_decoder(f, order, eta_y=0.7, vocab=vocab, save_at=[0, 2, 4], unmixed=False)
    assert Y.shape == (3, 1, f.shape[1], vocab)
    assert not Y[0].any()
    y = torch.zeros(f.shape[1], vocab, dtype=torch.float64, requires_grad=True)
    for step in order[0]:
        loss = torch.nn.functional.cross_entropy(torch.tensor(f)[step] @ y, torch.tensor(step), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, y)
        y = (y - 0.7 * gradient).detach().requires_grad_()
    np.testing.assert_allclose(Y[2, 0], y.detach(), atol=1e-14)


def test_unmixed_training_is_equation_26_written_out():
    """Lemma 3, eq. 26, in plain loops."""
    f, vocab, rate = with_overlaps(TABLE), 8, 0.7
    order = drawn_order(np.random.default_rng(0), runs=2, steps=30, classes=3)
    Y = train_decoder(f, order, eta_y=rate, vocab=vocab, save_at=[30])[0]
    F = f.T
    E_ = np.eye(3) - np.linalg.inv(F.T @ F)
    for run in range(2):
        y = np.zeros((len(F), vocab))
        for n in order[run, :, 0]:
            logits = y.T @ F[:, n]
            error = np.eye(vocab)[n] - np.exp(logits) / np.exp(logits).sum()
            y += rate * np.outer(F[:, n] - F @ E_[:, n], error)
        np.testing.assert_allclose(Y[run], y, atol=1e-13)


def test_unmixed_training_moves_one_row_of_W_at_a_time():
    """Lemma 3, eq. 8: a step on class n moves w_n only."""
    f = with_overlaps(TABLE)
    W = f @ train_decoder(f, np.array([[[1]]]), eta_y=1.0, vocab=5, save_at=[1])[0, 0]
    assert abs(W[[0, 2]]).max() < 1e-15
    np.testing.assert_allclose(W[1], [-0.2, 0.8, -0.2, -0.2, -0.2])


def test_rows_with_equal_overlaps_follow_the_three_number_recursion():
    """Remark 1, solved exactly, also if every token is the label of a class."""
    for classes, vocab in ((2, 2), (3, 3), (3, 7)):
        f = equal_overlaps(classes, 0.4)
        order = np.broadcast_to(np.arange(classes), (1, 40, classes))
        W = f @ train_decoder(f, order, eta_y=1.3, vocab=vocab, save_at=range(41), unmixed=False)[:, 0]
        three = theory.growth_with_equal_overlaps(40, eta_y=1.3, vocab=vocab, classes=classes, overlap=0.4)
        np.testing.assert_allclose(W[:, 1, 1], three[:, 0], atol=1e-13)
        np.testing.assert_allclose(W[:, 1, 0], three[:, 1], atol=1e-13)
        np.testing.assert_allclose(W[:, 1, classes:], np.repeat(three[:, 2:], vocab - classes, axis=1), atol=1e-13)


def test_orders_of_classes():
    draw = np.random.default_rng(0)
    epochs = shuffled_epochs(draw, runs=3, epochs=50, classes=4)
    assert epochs.shape == (3, 200, 1)
    assert (np.sort(epochs.reshape(3, 50, 4), axis=-1) == np.arange(4)).all()
    assert len({tuple(row) for row in epochs.reshape(150, 4)}) > 15
    np.testing.assert_allclose(class_weights(4), 0.25)
    np.testing.assert_allclose(class_weights(3, 0.5), [0.5, 0.25, 0.25])
    share = (drawn_order(draw, runs=1, steps=20_000, classes=3, first=0.5) == 0).mean()
    assert share == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("samples", [10, 100, 1001])
@pytest.mark.parametrize("share", [0.5, 0.2, 0.01])
@pytest.mark.parametrize("failure", [0.01, 0.3])
def test_count_radius_covers_by_the_exact_binomial(samples, share, failure):
    """Lemma 10, eq. 58: the count of a class is within the radius with probability 1 − δ at least."""
    k = np.arange(samples + 1)
    inside = abs(k - np.ceil(samples * share)) <= theory.count_radius(samples=samples, failure=failure)
    assert stats.binom.pmf(k, samples, share)[inside].sum() >= 1 - failure - 1e-12


@given(st.integers(50, 10**6), st.integers(2, 10), st.floats(0.01, 0.9), st.floats(-1, 1), st.floats(0.01, 1))
def test_growth_and_error_spread_by_no_more_than_counts_do(samples, classes, eta_y, where, share):
    """Lemma 11 without chance: wherever a count lies within Δ of N̄, h and the error are inside their bounds."""
    failure, vocab = 0.1, 500
    mean = theory.mean_count(samples=samples, classes=classes)
    spread = theory.count_spread(samples=samples, failure=failure) * share
    count = max(mean + where * spread, 0.0)
    h, h_mean = theory.decoder_growth([count, mean], eta_y=eta_y, vocab=vocab)
    assert abs(h / h_mean - 1) <= theory.growth_spread(samples=samples, classes=classes, failure=failure) + 1e-12
    error, error_mean = theory.prediction_error([count, mean], eta_y=eta_y, vocab=vocab)
    off = abs(error / error_mean - 1)
    allowed = np.inf if eta_y * spread > 2000 else theory.error_spread(samples=samples, failure=failure, eta_y=eta_y)
    assert off <= allowed + 1e-12
    late = mean - theory.count_spread(samples=samples, failure=failure)
    if late > theory.snap_time(eta_y=eta_y, vocab=vocab, classes=1):
        assert off <= theory.error_spread_late(samples=samples, classes=classes, failure=failure)


def test_simpler_count_radius_is_the_larger_one_from_where_it_says():
    """Lemma 10, eq. 58: the simpler bound is larger once N·ln(2/δ) > 12."""
    for samples, failure in ((5, 0.1), (40, 0.5), (10**6, 0.9)):
        enough = samples * np.log(2 / failure) > 12
        simple = theory.count_radius_simple(samples=samples, failure=failure)
        assert (simple > theory.count_radius(samples=samples, failure=failure)) or not enough
    assert theory.count_radius_simple(samples=1, failure=0.5) < theory.count_radius(samples=1, failure=0.5)


@pytest.mark.parametrize(("samples", "classes"), [(30, 2), (1001, 2), (60, 3)])
@pytest.mark.parametrize("failure", [0.01, 0.3])
@pytest.mark.parametrize("eta_y", [0.05, 1.0])
def test_theta_bound_covers_by_the_exact_multinomial(samples, classes, failure, eta_y):
    """Lemma 12 and Theorem 5: |θ_n| = |h(N_n)/h(N̄) − 1| is within its bound for all classes at once."""
    k = np.arange(samples + 1)
    counts = np.array(list(product(k, repeat=classes - 1)))
    counts = np.column_stack([counts, samples - counts.sum(axis=1)])
    counts = counts[counts[:, -1] >= 0]
    probability = stats.multinomial.pmf(counts, samples, np.full(classes, 1 / classes))
    mean = theory.mean_count(samples=samples, classes=classes)
    h, h_mean = (theory.decoder_growth(n, eta_y=eta_y, vocab=200) for n in (counts, mean))
    within = (abs(h / h_mean - 1) <= theory.theta_bound(samples=samples, classes=classes, failure=failure)).all(axis=1)
    assert probability.sum() == pytest.approx(1)
    assert probability[within].sum() >= 1 - failure


@given(st.floats(1e-4, 0.5), st.floats(0.01, 1), st.integers(10, 10**5))
def test_steps_of_corollary_1_suffice(error, eta_y, vocab):
    """Corollary 1, eq. 73 with constant 1."""
    steps = theory.steps_to_error(error, eta_y=eta_y, vocab=vocab, classes=1)
    assert theory.prediction_error(steps, eta_y=eta_y, vocab=vocab) <= error


def test_prediction_error_is_the_distance_of_the_softmax():
    """Corollary 1, eq. 71."""
    h = theory.decoder_growth(37.0, eta_y=0.5, vocab=20)
    w = 19 * h * theory.class_directions(1, 20)[0]
    alpha = np.exp(w) / np.exp(w).sum()
    distance = np.linalg.norm(np.eye(20)[0] - alpha)
    assert theory.prediction_error(37.0, eta_y=0.5, vocab=20) == pytest.approx(distance, rel=1e-13)


def test_slope_of_the_error_near_and_far_past_the_transition():
    """Corollary 1's O(1/N) shows from some 6·t0 on; at t0 the slope is −1.6."""
    t0 = theory.snap_time(eta_y=0.5, vocab=1000, classes=1)
    for multiple, slope in ((1, -1.62), (6, -1.1), (1000, -1.0)):
        t = t0 * multiple * np.array([0.999, 1.001])
        error = theory.prediction_error(t, eta_y=0.5, vocab=1000)
        assert np.diff(np.log(error))[0] / np.diff(np.log(t))[0] == pytest.approx(slope, abs=0.01)
