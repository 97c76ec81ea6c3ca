"""Lemmas 13 to 17, Assumption 2 and Theorem 1's coefficients, by brute force on random features."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import softmax

from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.claims.assumptions import assumption2, weak_correlations
from foretrain.papers.scan_snap.simulations.decoder_training import equal_overlaps, paired_overlaps, with_overlaps

entries = st.floats(0, 1).map(lambda x: round(x, 3))


@st.composite
def features(draw, most=6):
    """Non-negative rows of length 1: random weights on shared tokens beside a distinct token each."""
    K = draw(st.integers(2, most))
    shared = draw(arrays(float, (K, draw(st.integers(1, 5))), elements=entries)) * draw(st.floats(0.01, 1.5))
    f = np.hstack([shared, np.eye(K)])
    return f / np.linalg.norm(f, axis=1, keepdims=True)


@given(features())
def test_lemmas_13_to_17(f):
    """Lemmas 13 to 17: (I+E)⁻¹ = I − E', and the bounds on E and E', for random features."""
    E = theory.overlaps(f)
    largest = theory.largest_correlation(E)
    assert E.max() <= largest + 1e-14
    E_ = theory.unmixing(E)
    one = np.eye(len(f))
    np.testing.assert_allclose((one + E) @ (one - E_), one, atol=1e-10)
    np.testing.assert_allclose(theory.unmixing_printed(E), -E_, atol=1e-10)
    assert np.diagonal(E_).max() <= 1e-12
    assert (np.diagonal(E_)[E.max(axis=1) > 1e-4] < 0).all()
    if largest < 1 - 1e-9:
        assert theory.largest_correlation(E_) <= theory.unmixing_bound(largest) * (1 + 1e-9) + 1e-14
        assert abs(E_ - E).max() <= theory.unmixing_distance(largest) * (1 + 1e-9) + 1e-14


def test_series_of_lemma_14_converges_below_1_only():
    for overlap, converges in ((0.2, True), (0.3, False)):  # K = 5: |λ1| = .8 and 1.2
        E = theory.overlaps(equal_overlaps(5, overlap))
        partial = sum((np.linalg.matrix_power(-E, k) for k in range(200)), np.zeros((5, 5)))
        near = abs(partial - (np.eye(5) - theory.unmixing(E))).max() < 1e-10
        assert near == converges


def test_sign_of_the_printed_definition():
    E = theory.overlaps(equal_overlaps(2, 0.3))
    np.testing.assert_allclose(theory.unmixing(E), [[-0.099, 0.330], [0.330, -0.099]], atol=5e-4)
    np.testing.assert_allclose(theory.unmixing_printed(E), [[0.099, -0.330], [-0.330, 0.099]], atol=5e-4)


@given(features(), st.integers(7, 300), st.data())
def test_coefficients_decompose_the_gradient_of_theorem_5(f, vocab, data):
    """Theorem 1, eq. 86 and 88: g_n = Y(e_n − α_n) in the basis of the f_n, for Y of Theorem 5 with any Θ and σ."""
    K = len(f)
    E = theory.overlaps(f)
    assume(np.linalg.cond(np.eye(K) + E) < 1e4)
    theta = data.draw(arrays(float, K, elements=st.floats(-0.5, 0.5)))
    sigma = data.draw(arrays(float, K, elements=st.floats(-0.5, 0.5)))
    zeta = theory.class_directions(K, vocab)
    W = (vocab - 1) * 0.02 * (1 + theta[:, None]) * zeta
    Y = np.linalg.solve(np.eye(K) + E, f).T @ W
    error = (1 + sigma[:, None]) * 0.7 * zeta  # e_n − α_n, of any size along ζ_n
    parts = (error @ Y.T) @ np.linalg.pinv(f) / ((vocab - 1) * 0.02 * 0.7)
    iota, beta = theory.gradient_coefficients(f, vocab=vocab, theta=theta, sigma=sigma)
    np.testing.assert_allclose(np.diag(iota) - beta, parts, atol=1e-9)
    printed = theory.gradient_coefficients_printed(f, vocab=vocab, theta=theta, sigma=sigma)
    np.testing.assert_array_equal(printed[0], iota)
    assert (abs(printed[1] - beta)[~np.eye(K, dtype=bool)] > 1 / (2 * vocab) * 0.2).all()


def test_coefficients_of_many_features_at_once():
    stacked = np.stack([equal_overlaps(3, rho) for rho in (0.1, 0.4)])
    iota, beta = theory.gradient_coefficients(stacked, vocab=50)
    assert iota.shape == (2, 3)
    assert beta.shape == (2, 3, 3)
    np.testing.assert_allclose(beta[1], theory.gradient_coefficients(stacked[1], vocab=50)[1])


def test_numbers_of_the_erratum_to_equation_88():
    """Theorem 1, eq. 88."""
    for overlap, right, printed in ((0.0, 0.00505, -0.00505), (0.45, 0.5734, 0.5633)):
        f = equal_overlaps(2, overlap)
        assert theory.gradient_coefficients(f, vocab=200)[1][0, 1] == pytest.approx(right, abs=6e-5)
        assert theory.gradient_coefficients_printed(f, vocab=200)[1][0, 1] == pytest.approx(printed, abs=6e-5)


def test_error_of_a_softmax_along_a_class_is_along_that_class():
    """Lemma 5: e_n − α_n = (M−1)/(M−1+e^{Mh})·ζ_n at w_n = (M−1)hζ_n."""
    zeta, h = theory.class_directions(4, 9), 0.3
    error = np.eye(4, 9) - softmax(8 * h * zeta, axis=1)
    np.testing.assert_allclose(error, 8 / (8 + np.exp(9 * h)) * zeta, atol=1e-15)


@given(features(), st.integers(7, 1000))
def test_growth_speed_in_closed_form_is_the_sum_of_theorem_1a(f, vocab):
    """Theorem 1(a): the closed form of ξ_n/γ is Σβ_nn'·f_n·f_n'."""
    beta = theory.gradient_coefficients(f, vocab=vocab)[1]
    np.testing.assert_allclose(
        theory.growth_speed_closed_form(f, vocab=vocab), (beta * theory.overlaps(f)).sum(axis=1), atol=1e-10
    )


@given(features(), st.integers(7, 10**6))
def test_growth_speed_is_positive_where_overlaps_sum_to_1_at_most(f, vocab):
    """Theorem 1(a): ξ_n > 0 needs no lower bound on |λ_i(E)|."""
    E = theory.overlaps(f)
    assume(E.sum(axis=1).max() <= 1)
    speed = theory.growth_speed_closed_form(f, vocab=vocab)
    assert (speed[E.max(axis=1) > 1e-3] > 0).all()
    assert speed.min() > -1e-15


def test_assumption_2_is_met_only_inside_its_window():
    assert weak_correlations(classes=2, overlap=0.45, vocab=200)[0]
    assert not weak_correlations(classes=2, overlap=0.42, vocab=200)[0]  # below 6/√200 = .424
    assert not weak_correlations(classes=2, overlap=0.5, vocab=200)[0]  # not below 1/2
    met, words = assumption2(paired_overlaps(4, 0.2475), 600)
    assert met
    assert "0.245" in words
    assert "0.25" in words


@pytest.mark.parametrize("classes", [2, 3, 4, 5])
def test_no_features_need_less_vocabulary_than_the_least(classes):
    """Minimise max|λ|/min|λ| over all E ≥ 0 with zero diagonal, from several starts."""
    upper = np.triu_indices(classes, 1)

    def spread(x):
        E = np.zeros((classes, classes))
        E[upper] = abs(x)
        sizes = abs(np.linalg.eigvalsh(E + E.T))
        return sizes.max() / max(sizes.min(), 1e-9)

    draw = np.random.default_rng(classes)
    best = min(
        minimize(spread, draw.random(len(upper[0])), method="Nelder-Mead", options={"maxiter": 400}).fun
        for _ in range(4)
    )
    assert 36 * classes**2 * best**2 >= theory.least_vocab(classes) * (1 - 1e-9)
    if classes in (2, 3):
        assert 36 * classes**2 * best**2 == pytest.approx(float(theory.least_vocab(classes)), rel=1e-2)


def test_features_made_to_order_have_the_overlaps_asked_for():
    table = np.array([[0, 0.3, 0.1], [0.3, 0, 0.0], [0.1, 0.0, 0]])
    f = with_overlaps(table)
    assert (f >= 0).all()
    np.testing.assert_allclose(f @ f.T, table + np.eye(3), atol=1e-15)
    for K in (2, 5):
        np.testing.assert_allclose(theory.overlaps(equal_overlaps(K, 0.9)), 0.9 * (1 - np.eye(K)))
    np.testing.assert_allclose(theory.overlaps(paired_overlaps(4, 0.5))[0], [0, 0.5, 0, 0])
    with pytest.raises(ValueError, match="sum to at most 1"):
        with_overlaps(np.array([[0, 0.8, 0.5], [0.8, 0, 0], [0.5, 0, 0]]))
    with pytest.raises(ValueError, match="even"):
        paired_overlaps(3, 0.1)
