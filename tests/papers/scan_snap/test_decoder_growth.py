"""Lemmas 5 to 9: the decoder's growth against its own equation, recursions, quadrature and root finding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq

from foretrain.core.errors import InputError
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.theory import decoder

powers_of_ten = st.floats(-300, 12).map(lambda e: 10.0**e)
rates = st.floats(-4, 3).map(lambda e: 10.0**e)
vocabularies = st.floats(np.log10(2), 6).map(lambda e: np.floor(10.0**e + 1e-9))


def residual(h, t, eta_y, vocab):
    """Of eq. 45, relative to Mη_Y·t: e^u − 1 + (M−1)u = Mη_Y·t keeps its digits for small t too."""
    u, drive = vocab * h, vocab * eta_y * t
    return np.max(abs(np.expm1(u) + (vocab - 1) * u - drive) / drive)


@given(powers_of_ten, rates, vocabularies)
def test_growth_solves_its_equation_at_any_time_rate_and_size(t, eta_y, vocab):
    """Lemma 6, eq. 45."""
    h = theory.decoder_growth(t, eta_y=eta_y, vocab=vocab)
    assert isinstance(h, np.float64)
    assert residual(h, t, eta_y, vocab) < 1e-13


@pytest.mark.parametrize("vocab", [2, 3, 30, 1000, 10**6])
@pytest.mark.parametrize("exponents", [(-20, 12), (-4, 2)])
def test_growth_at_many_times_has_the_same_digits(vocab, exponents):
    """Lemma 6: the table of cells is as accurate as the closed form."""
    t = 10 ** np.random.default_rng(0).uniform(*exponents, 2**17)
    t[:3] = decoder.SMALL, np.nextafter(decoder.SMALL, 0), t.max()
    many = theory.decoder_growth(t, eta_y=1.0, vocab=vocab)
    few = theory.decoder_growth(t[: decoder.MANY - 1], eta_y=1.0, vocab=vocab)
    assert residual(many, t, 1.0, vocab) < 1e-13
    np.testing.assert_allclose(many[: decoder.MANY - 1], few, rtol=1e-13)


def test_growth_at_many_times_broadcasts_and_starts_at_zero():
    t, eta_y = np.linspace(0, 50, 2**15), np.array([[0.1], [0.5], [2.0]])
    h = theory.decoder_growth(t, eta_y=eta_y, vocab=[50.0])
    assert h.shape == (3, 2**15)
    assert (h[:, 0] == 0).all()
    np.testing.assert_allclose(h[:, 1:], [theory.decoder_growth(t[1:], eta_y=e, vocab=50) for e in (0.1, 0.5, 2)])
    everything_at_zero = theory.decoder_growth(np.zeros(2**16), eta_y=1.0, vocab=5)
    assert (everything_at_zero == 0).all()


@given(st.floats(0.001, 1e6), rates, vocabularies)
def test_growth_rises_and_bends_down(t, eta_y, vocab):
    """Lemma 6: h rises, is concave and stays below η_Y·t/M."""
    h = theory.decoder_growth([t, 1.5 * t, 2 * t], eta_y=eta_y, vocab=vocab)
    assert h[0] < h[1] < h[2]
    assert h[1] - h[0] >= (h[2] - h[1]) * (1 - 1e-9)
    assert h[0] <= eta_y * t / vocab


def test_growth_of_nothing_is_nothing():
    assert theory.decoder_growth([], eta_y=1.0, vocab=5).shape == (0,)


def naive_recursion(steps, eta_y, vocab):
    h = [0.0]
    for _ in range(steps):
        h.append(h[-1] + eta_y / (vocab - 1 + np.exp(vocab * h[-1])))
    return h


def test_stepped_growth_is_the_recursion_along_a_last_axis():
    """Lemma 5, eq. 33."""
    grid = theory.decoder_growth_discrete(300, eta_y=[[0.1], [2.0]], vocab=[5, 50, 500])
    assert grid.shape == (2, 3, 301)
    np.testing.assert_allclose(grid[1, 2], naive_recursion(300, 2.0, 500), rtol=1e-12)
    np.testing.assert_allclose(grid[0, 0], naive_recursion(300, 0.1, 5), rtol=1e-12)
    assert theory.decoder_growth_discrete(0, eta_y=1.0, vocab=2).tolist() == [0.0]


def test_stepped_growth_stands_still_after_a_huge_first_step():
    h = theory.decoder_growth_discrete(3, eta_y=1e6, vocab=10)
    assert (h[1:] == 1e5).all()


@pytest.mark.parametrize("eta_y", [0.1, 1.0])
def test_gap_between_steps_and_flow_closes_like_half_a_logarithm_over_time(eta_y):
    """Lemma 7 and Remark 2: M·s(h* − h) grows by ½ per unit of ln s, as late steps have an Euler error of ½/(Mt²)."""
    vocab, s = 100, np.array([10_000, 100_000])
    gap = theory.decoder_growth_discrete(100_000, eta_y=eta_y, vocab=vocab)[s] - theory.decoder_growth(
        s, eta_y=eta_y, vocab=vocab
    )
    grown = np.diff(vocab * s * gap)[0] / np.log(10)
    assert grown == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("eta_y", "vocab", "classes"), [(0.1, 1000, 10), (2.0, 30, 2), (0.5, 5, 1)])
def test_speed_integrates_to_the_square_of_growth(eta_y, vocab, classes):
    """Theorem 4, eq. 128: ∫γ = K(M−1)²/(2η_Y)·h²(t/K)."""
    until = 3 * float(theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes))
    integral = quad(lambda t: theory.speed(t, eta_y=eta_y, vocab=vocab, classes=classes), 0, until, epsrel=1e-11)[0]
    h = theory.decoder_growth(until / classes, eta_y=eta_y, vocab=vocab)
    assert integral == pytest.approx(classes * (vocab - 1) ** 2 / (2 * eta_y) * h**2, rel=1e-9)


@given(st.floats(np.log10(4), 9).map(lambda e: np.floor(10.0**e + 1e-9)))
def test_zeros_of_lemma_8(vocab):
    """Lemma 8, eq. 50 and 51, against bracketing."""
    low = vocab ** (theory.omega0(vocab=vocab) - 1)
    high = (1 + theory.omega1(vocab=vocab)) * np.log(vocab)
    for u in (low, high):
        assert np.exp(u) == pytest.approx((vocab - 1) * u, rel=1e-12)
    assert low < high
    assert low == pytest.approx(brentq(lambda u: np.exp(u) - (vocab - 1) * u, 0, 1, xtol=1e-300), rel=1e-11)


def test_snap_time_is_where_the_exponential_takes_over():
    """Lemma 9: before h reaches the larger zero the linear term of eq. 45 dominates, from t0 on the exponential."""
    eta_y, vocab, classes = 0.3, np.array([10.0, 1000.0, 1e5]), 7
    t0 = theory.snap_time(eta_y=eta_y, vocab=vocab, classes=classes)
    for factor, carries in ((0.8, False), (1.0, True), (10.0, True)):
        u = vocab * theory.decoder_growth(factor * t0 / classes, eta_y=eta_y, vocab=vocab)
        assert ((np.exp(u) > (vocab - 1) * u) == carries).all()
    np.testing.assert_allclose(t0, 2 * (1 + theory.omega1(vocab=vocab)) * classes * np.log(vocab) / eta_y)


def test_omega1_tends_to_ln_ln_over_ln():
    """Lemma 8: ω1 = Θ(ln ln M/ln M)."""
    vocab = 10.0 ** np.array([3, 6, 12, 100])
    ratio = theory.omega1(vocab=vocab) * np.log(vocab) / np.log(np.log(vocab))
    assert (np.diff(abs(ratio - 1)) < 0).all()
    assert ratio[-1] == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.decoder_growth(-1.0, eta_y=1, vocab=5), "t must be a finite time of at least 0; got -1"),
        (lambda: theory.decoder_growth([1.0, np.nan], eta_y=1, vocab=5), "got nan"),
        (lambda: theory.decoder_growth(np.inf, eta_y=1, vocab=5), "got inf"),
        (lambda: theory.decoder_growth(1.0, eta_y=0, vocab=5), "eta_y must be a finite number above 0; got 0"),
        (lambda: theory.decoder_growth(1.0, eta_y=np.inf, vocab=5), "eta_y .* got inf"),
        (lambda: theory.decoder_growth(1.0, eta_y=1, vocab=[3, 1]), "vocab must be .* at least 2; got 1"),
        (lambda: theory.decoder_growth(1e200, eta_y=1e200, vocab=5), "below 1e300"),
        (lambda: theory.decoder_growth_discrete(-1, eta_y=1, vocab=5), "steps must be .* at least 0; got -1"),
        (lambda: theory.decoder_growth_discrete(2, eta_y=-1, vocab=5), "eta_y"),
        (lambda: theory.speed(1.0, eta_y=1, vocab=5, classes=0), "classes must be .* at least 1; got 0"),
        (lambda: theory.snap_time(eta_y=1, vocab=3, classes=2), "vocab must be at least 4"),
        (lambda: theory.snap_time(eta_y=np.nan, vocab=30, classes=2), "eta_y .* got nan"),
        (lambda: theory.growth_with_equal_overlaps(3, eta_y=1.0, vocab=5, classes=6, overlap=0.1), "classes must lie"),
        (lambda: theory.growth_with_equal_overlaps(3, eta_y=1.0, vocab=5, classes=2, overlap=1.1), "overlap must lie"),
    ],
)
def test_refusals_name_value_and_range(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_directions_of_classes():
    """Appendix D.1: ζ_n·ζ_n = q1, ζ_n·ζ_n' = q0; eq. 43's Σζ_n is 0 only if K = M."""
    zeta = theory.class_directions(3, 30)
    products = zeta @ zeta.T
    np.testing.assert_allclose(products, np.where(np.eye(3) > 0, 1 + 1 / 29, -30 / 29**2))
    assert np.linalg.norm(theory.class_directions(2, 30).sum(axis=0)) == pytest.approx(1.413, abs=5e-4)
    assert np.linalg.norm(theory.class_directions(30, 30).sum(axis=0)) < 1e-14


def test_equal_overlaps_in_their_two_known_cases():
    """Remark 1: ρ = 0 is Lemma 5; K = M is Lemma 5 at the rate (1−ρ)η_Y, which is not what eq. 43 prints."""
    apart = theory.growth_with_equal_overlaps(50, eta_y=0.5, vocab=20, classes=4, overlap=0.0)
    h = theory.decoder_growth_discrete(50, eta_y=0.5, vocab=20)
    np.testing.assert_allclose(apart, np.outer(h, [19, -1, -1]), rtol=1e-12, atol=1e-15)
    full = theory.growth_with_equal_overlaps(50, eta_y=0.5, vocab=20, classes=20, overlap=0.3)
    slower = theory.decoder_growth_discrete(50, eta_y=0.35, vocab=20)
    np.testing.assert_allclose(full[:, :2], np.outer(slower, [19, -1]), rtol=1e-12, atol=1e-15)
    assert abs(full[-1, 0] / (0.7 * 19 * h[-1]) - 1) > 0.05


def test_late_speed_loses_its_m_in_the_printed_form():
    """Lemma 9 and the numbers of the erratum to Theorem 1(b)."""
    for vocab, at_start, later in ((1000, 5.6, 1.41), (10**6, 9.0, 1.80)):
        t0 = theory.snap_time(eta_y=0.5, vocab=vocab, classes=10)
        for t, ratio in ((t0, at_start), (1e6 * t0, later)):
            printed = np.log(0.5 * t / 10) / (0.5 * t / 10)
            speed = theory.speed(t, eta_y=0.5, vocab=vocab, classes=10)
            assert speed / printed == pytest.approx(ratio, rel=0.01)
