"""Lemmas 1 to 5 and Theorem 3 on paper, against closed forms, Monte Carlo, plain quadrature and differences."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit, gamma, kv

from foretrain import InputError
from foretrain.papers.joma import theory

R = np.array([-6.0, -2.5, -1.0, -0.3, 0.0, 0.01, 0.3, 0.7, 1.0, 2.5, 6.0])
NAMED = ["gaussian", "uniform_ball", "student_t", "laplace", "gaussian_mixture"]


@pytest.mark.parametrize("dimension", [1, 2, 3, 7])
def test_marginals_have_their_closed_forms(dimension):
    """Eq. 35: marginals, tails and moments of the named densities."""
    normal, t, half = stats.norm(scale=2.5), stats.t(1.5), (dimension + 1) / 2
    ball = stats.beta(half, half, loc=-1, scale=2)
    for density, law, moment in (
        (theory.gaussian(dimension, 2.5), normal, 2.5**2 * normal.pdf(R)),
        (theory.student_t(dimension, 1.5), t, (1.5 + R**2) / 0.5 * t.pdf(R)),
        (theory.uniform_ball(dimension), ball, np.clip(1 - R**2, 0, None) ** half / (2 * half) * ball.pdf(0)),
    ):
        assert np.abs(density.marginal(R) - law.pdf(R)).max() < 1e-12
        assert np.abs(density.tail(R) - law.sf(R)).max() < 1e-12
        assert np.abs(density.tail_moment(R) - moment).max() < 1e-12
    y = np.abs(R[R != 0])
    bessel = y ** (dimension / 2) * kv(dimension / 2, y) / (2 ** (dimension / 2) * gamma((dimension + 1) / 2))
    assert np.abs(theory.laplace(dimension).marginal(y) - bessel / np.sqrt(np.pi)).max() < 1e-12


@pytest.mark.parametrize("name", NAMED)
def test_thetas_by_plain_quadrature(name):
    """Lemma 1, eq. 40 and 41."""
    shape = theory.radial_density(name)
    reach = min(shape.support, 200.0)
    for r in (-0.4, 0.2, 0.9):
        cuts = [c for c in (-r, 0.0) if abs(c) < reach]
        edges = sorted({-reach, *cuts, reach})
        leaky = (0.2, 1.0)
        exact = [0.0, 0.0]
        for a, b in pairwise(edges):
            slope = leaky[int((a + b) / 2 > -r)]
            for power in (0, 1):
                exact[power] += quad(
                    lambda y, power=power, slope=slope: slope * y**power * float(shape.marginal(y)),
                    a,
                    b,
                    epsabs=1e-12,
                    limit=200,
                )[0]
        loose = 1e-3 if name == "student_t" else 1e-9  # the cut at 200 leaves this much of its first moment
        assert theory.theta1(r, name, leaky) == pytest.approx(exact[0], abs=loose)
        assert theory.theta2(r, name, leaky) == pytest.approx(exact[1], abs=loose)


def test_an_activation_given_as_a_function_and_one_given_by_slopes_agree():
    def step(x):
        return np.where(x > 0, 1.0, 0.1)

    def nearly(x):  # not homogeneous to the eye, but so steep that it is one
        return 0.1 + 0.9 * expit(1e7 * x)

    for name in ("gaussian", "laplace", "uniform_ball"):
        for theta in (theory.theta1, theory.theta2):
            slopes = theta(R, name, (0.1, 1.0))
            assert np.array_equal(theta(R, name, step), slopes)
            assert np.abs(theta(R, name, nearly) - slopes).max() < 1e-6


def test_linear_activation_has_constant_thetas():
    assert np.all(theory.theta1(R, "student_t", theory.LINEAR) == pytest.approx(1.0, abs=1e-14))
    assert np.all(theory.theta2(R, "student_t", theory.LINEAR) == 0)


@given(st.floats(-3, 3), st.floats(0.05, 4), st.floats(-2, 2), st.floats(0.2, 3))
def test_lemma1_does_not_change_when_the_hyperplane_is_rescaled(mean, length, bias, factor):
    """Lemma 1, corrected: only the distance to the hyperplane matters."""
    one = theory.hyperplane_moments([mean], [length], bias, "laplace")
    other = theory.hyperplane_moments([mean], [factor * length], factor * bias, "laplace")
    assert np.allclose(one[0], other[0], rtol=1e-9, atol=1e-12)
    assert np.allclose(one[1], other[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("derivative", [theory.RELU, expit], ids=["relu", "softplus"])
def test_lemma1_by_monte_carlo_in_a_subspace(derivative):
    """Lemma 1, eq. 23 corrected."""
    draw = np.random.default_rng(3)
    basis = np.linalg.qr(draw.standard_normal((5, 3)))[0]
    mean, v, bias = basis @ np.array([0.4, -0.2, 0.3]), draw.standard_normal(5), 0.3
    n = 200_000
    t = draw.standard_normal((n, 3)) / np.sqrt(draw.chisquare(3, (n, 1)) / 3)
    x = mean + t @ basis.T
    act = np.asarray((x @ v + bias > 0) if isinstance(derivative, tuple) else derivative(x @ v + bias), float)
    shape = theory.student_t(3, 3.0)
    first, total = theory.hyperplane_moments(mean, v, bias, shape, derivative, basis=basis)
    samples = np.concatenate([x * act[:, None], act[:, None]], axis=1)
    error = samples.std(0) / np.sqrt(n)
    assert np.all(np.abs(samples.mean(0) - [*first, total]) < 4 * error)


def test_the_numbers_of_lemma1_and_lemma5():
    """Lemma 1 and Lemma 5: the numbers of their errata."""
    assert theory.hyperplane_moments([0.0], [0.5], 0.3)[1] == pytest.approx(0.726, abs=5e-4)
    assert theory.hyperplane_moments_printed([0.0], [0.5], 0.3)[1] == pytest.approx(1.236, abs=5e-4)
    assert theory.theta_slopes(0.3, "gaussian", (0.2, 1.0))[0] == pytest.approx(0.3051, abs=5e-5)
    assert theory.theta_slopes_printed(0.3, "gaussian", (0.2, 1.0))[0] == pytest.approx(0.4577, abs=5e-5)


@pytest.mark.parametrize("derivative", [theory.RELU, (0.2, 1.0)], ids=["relu", "leaky"])
def test_uniform_attention_flow_by_monte_carlo(derivative):
    """Lemma 2, eq. 42 and 43: E[g·h′·x] and E[g·h′] over a mixture of two isotropic components."""
    draw, n = np.random.default_rng(5), 200_000
    v, bias, weights = np.array([1.5, -0.8]), 0.4, np.array([0.7, -0.3])  # E[g|j]·P[j]
    means = np.array([[0.5, 0.2], [-0.6, 0.3]])
    x = means[:, None] + draw.standard_normal((2, n, 2))  # [component, sample, coordinate]
    slope = np.where(x @ v + bias > 0, derivative[1], derivative[0])[..., None]
    samples = np.concatenate([x * slope, slope], axis=-1)
    error = np.sqrt((weights**2) @ samples.var(axis=1) / n)
    dv, dbias = theory.uniform_attention_flow(v, bias, means, weights, theory.gaussian(2), derivative)
    assert np.all(np.abs(weights @ samples.mean(axis=1) - [*dv, dbias]) < 4 * error)
    printed, _ = theory.uniform_attention_flow(v, bias, means, weights, theory.gaussian(2), derivative, printed=True)
    assert np.abs(printed - dv).max() > 50 * error.max()


@pytest.mark.parametrize("name", NAMED)
def test_derivative_of_the_stationary_function_is_theta1(name):
    """Lemma 3, eq. 48: dF/dr = θ1, by differences."""
    r = np.array([-0.7, -0.2, 0.4, 0.8])
    errors = []
    for h in (0.04, 0.02):
        high, low = (theory.stationary_function(r + s * h, name, (0.3, 1.0)) for s in (1, -1))
        errors.append(np.abs((high - low) / (2 * h) - theory.theta1(r, name, (0.3, 1.0))).max())
    assert errors[1] < 3e-4
    assert errors[0] / errors[1] > 3.5 or name == "uniform_ball"  # order 2 in h; the ball's F is a parabola
    assert np.all(theory.stationary_function([-3.0, 0.0, 3.0], name) >= -1e-15)


@given(st.floats(0.001, 0.999))
def test_theta1_and_its_inverse(y):
    """Lemma 4: θ1(θ1⁻¹(y)) = y."""
    for name in ("gaussian", "student_t"):
        assert theory.theta1(theory.theta1_inverse(y, name), name) == pytest.approx(y, abs=1e-12)


def test_condition_58_of_every_density():
    """Lemma 4, eq. 58: θ2(0)·p_n(0)."""
    conditions = [theory.critical_condition(d) for d in (*NAMED, theory.student_t(4, 1.5))]
    assert conditions == pytest.approx([1 / (2 * np.pi), 0.125, 2 / np.pi**2, 0.25, 0.4814437, 0.3483], abs=1e-4)
    # 2-dimensional e^{−radius} has lighter marginals than the Laplace distribution
    assert theory.critical_condition(theory.laplace(2)) == pytest.approx(0.2026, abs=1e-4)


@pytest.mark.parametrize("name", ["gaussian", "uniform_ball"])
def test_log_concave_densities_have_no_critical_point(name):
    """Lemma 4, eq. 56: F/θ1 rises strictly, so it takes no value twice."""
    r = np.linspace(-1.9, 3, 50)
    inside = theory.theta1(r, name) > 0
    assert np.all(np.diff(theory.critical_ratio(r[inside], name)) > 0)
    assert theory.critical_points(0.7, name) == []


@pytest.mark.parametrize("shape", [theory.student_t(2, 1.5), theory.student_t(2, 3.0), theory.gaussian_mixture(2)])
def test_critical_points_stand_still_and_have_the_corrected_jacobian(shape):
    """Theorem 3, eq. 72 to 74, and Lemma 4, eq. 56: critical points do not move, and C is minus the Jacobian."""
    x_plus = np.array([1.2, 1.6])
    points = theory.critical_points(2.0, shape)
    assert points
    for point in points:
        for norm in (1.0, 0.6):
            mu, bias = point.at(x_plus, norm)
            means, weights = [x_plus, np.zeros(2)], [1.0, -point.weight_ratio]
            dv, dbias = theory.uniform_attention_flow(mu, bias, means, weights, shape)
            assert np.abs(dv).max() < 1e-12
            assert abs(dbias) < 1e-12
            h = 1e-4
            columns = [
                theory.uniform_attention_flow(mu + h * e, bias, means, weights, shape)[0]
                - theory.uniform_attention_flow(mu - h * e, bias, means, weights, shape)[0]
                for e in np.eye(2)
            ]
            jacobian = np.stack(columns, 1) / (2 * h)
            matrix = theory.linear_matrix(theory.linear_coefficients(point, 2.0, shape, norm=norm), mu)
            printed = theory.linear_matrix(theory.linear_coefficients_printed(point, 2.0, shape, norm=norm), mu)
            assert np.abs(-jacobian - matrix).max() < 1e-6
            assert np.abs(-jacobian - printed).max() > 0.05


def test_a_user_density_is_used_and_a_wrong_one_refused():
    own = theory.RadialDensity(lambda u: 0.75 * (1 - u**2), support=1.0)
    assert theory.theta1(0.5, own) == pytest.approx(0.5 + 0.75 * (0.5 - 0.125 / 3), abs=1e-13)
    with pytest.raises(InputError, match=r"integrate to 1 over R\^1; it integrates to 2\.5066"):
        theory.RadialDensity(lambda u: np.exp(-(u**2) / 2))
    with pytest.raises(InputError, match="must not be negative"):
        theory.RadialDensity(lambda u: np.cos(u), support=3.0)
    with pytest.raises(InputError, match="finite mean"):
        theory.student_t(2, 1.0)
    with pytest.raises(InputError, match="There is no radial density 'gausian'; the nearest names are gaussian"):
        theory.theta1(0.0, "gausian")
    with pytest.raises(InputError, match="dimension"):
        theory.gaussian(0)


@pytest.mark.parametrize(
    "function", [theory.stationary_function, theory.theta_slopes, theory.critical_function, theory.critical_ratio]
)
def test_lemmas_about_homogeneous_activations_refuse_others(function):
    with pytest.raises(InputError, match="needs a homogeneous activation"):
        function(0.5, "gaussian", expit)


def hard_tanh_slope(u: np.ndarray) -> np.ndarray:
    return (np.abs(u) < 1).astype(float)


def test_kinks_away_from_0_are_named_or_refused():
    """φ = hard tanh: θ1 and θ2 have closed forms for a normal coordinate."""
    r, norm, normal = np.array([-0.7, 0.0, 0.4, 3.0]), 1.7, stats.norm()
    low, high = -1 / norm - r, 1 / norm - r
    kinked = theory.Kinked(hard_tanh_slope, (-1.0, 1.0))
    first, second = (f(r, "gaussian", kinked, norm=norm) for f in (theory.theta1, theory.theta2))
    np.testing.assert_allclose(first, normal.cdf(high) - normal.cdf(low), atol=1e-12)
    np.testing.assert_allclose(second, normal.pdf(low) - normal.pdf(high), atol=1e-12)
    moments = theory.hyperplane_moments([0.4], [norm], 0.0, "gaussian", kinked)
    np.testing.assert_allclose(moments[1], theory.theta1(0.4, "gaussian", kinked, norm=norm), atol=1e-13)
    with pytest.raises(InputError, match=r"jump or bend away from 0; name those points with Kinked"):
        theory.theta1(0.4, "gaussian", hard_tanh_slope)
    with pytest.raises(InputError, match="needs a homogeneous activation"):
        theory.stationary_function(0.4, "gaussian", kinked)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.theta1(0.0, lambda u: u), "density must be a name .gaussian, .* or a RadialDensity"),
        (lambda: theory.theta1(0.0, 3), "density must be a name"),
        (lambda: theory.theta1(0.0, "gaussian", "relu"), "derivative must be φ′, a pair .*; got 'relu'"),
        (lambda: theory.theta1(0.0, "gaussian", (0.0,)), r"derivative must be φ′, a pair .*; got \(0.0,\)"),
        (lambda: theory.theta2(0.0, "gaussian", (0.0, np.nan)), "derivative must be φ′, a pair"),
        (lambda: theory.theta1(0.1, "gaussian", expit, norm=-1.0), "norm must be a finite number above 0; got -1.0"),
        (lambda: theory.cooccurrence(0.9, 5.5, 2, 0.9), "whole numbers of layers; got 5.5 and 2"),
        (lambda: theory.cooccurrence_limit(0, 0), "ancestor_depth must lie between 0 and depth − 1 .* got 0 to 0 with"),
        (lambda: theory.cooccurrence_limit(5, -1), "ancestor_depth must lie between 0 and depth − 1"),
        (lambda: theory.cooccurrence_limit(np.inf, 2), "whole numbers of layers; got inf and 2"),
        (lambda: theory.cooccurrence_limit([], 2), "at least one number each; one of them is empty"),
        (lambda: theory.student_t(1, -1.0), "freedom must be a finite number above 0; got -1.0"),
        (
            lambda: theory.student_t(1, 1.2),
            r"finite mean, with a tail that falls faster than radius\^−.dimension \+ 1.3",
        ),
        (
            lambda: theory.student_t(20, 1.5),
            r"^student_t in 20 dimensions is beyond double precision, .* take fewer dimensions, or more than 1.5",
        ),
        (lambda: theory.uniform_ball(600), r"^uniform_ball in 600 dimensions is .* take fewer dimensions\.$"),
        (lambda: theory.student_t(1.5), "dimension must be a whole number of at least 1; got 1.5"),
        (lambda: theory.laplace(0), "dimension must be a whole number of at least 1; got 0"),
        (lambda: theory.uniform_ball(1, 0.0), "radius must be a finite number above 0; got 0.0"),
        (lambda: theory.gaussian(1, -2.0), "scale must be a finite number above 0; got -2.0"),
        (lambda: theory.gaussian_mixture(1, (1.0, 2.0), (1.0,)), "scales and weights must be lists of one length"),
        (lambda: theory.RadialDensity("gaussian"), "density must be a function of an array of radii; got 'gaussian'"),
    ],
)
def test_wrong_kinds_are_refused_in_one_sentence(call, words):
    with pytest.raises(InputError, match=words) as refusal:
        call()
    assert "\n" not in str(refusal.value)


def test_other_refusals():
    with pytest.raises(InputError, match="strictly between"):
        theory.theta1_inverse(1.0)
    with pytest.raises(InputError, match="rises"):
        theory.theta1_inverse(0.5, derivative=theory.LINEAR)
    with pytest.raises(InputError, match="length there is 0"):
        theory.hyperplane_moments([0.0], [0.0], 1.0)
    with pytest.raises(InputError, match="mu must not be 0"):
        theory.linear_matrix((1.0, 1.0), [0.0, 0.0])
    with pytest.raises(InputError, match="one number per mean"):
        theory.uniform_attention_flow([1.0], 0.0, [[1.0], [0.0]], [1.0])


def test_critical_points_have_their_own_hyperplane_within_reach_and_the_other_anywhere():
    for distance in (50.0, 70.0):
        (near,) = theory.critical_points(distance, theory.student_t(1, 1.5))
        wide = theory.critical_points(distance, theory.student_t(1, 1.5), reach=300.0)
        assert any(point.r_minus == pytest.approx(near.r_minus, rel=1e-9) for point in wide)


@pytest.mark.parametrize("spread", [0.5, 0.1])
def test_a_shell_that_the_nodes_do_not_resolve_is_refused_whatever_it_seems_to_integrate_to(spread):
    def shell(u):
        return np.exp(-(((u - 5) / spread) ** 2) / 2)

    seems = 2 * (shell(theory.radial.half_line_nodes()[0]) * theory.radial.half_line_nodes()[1]).sum()
    with pytest.raises(InputError, match="narrow a shell"):
        theory.RadialDensity(lambda u: shell(u) / seems)


def test_a_shell_with_its_support_is_resolved():
    wide = theory.RadialDensity(lambda u: np.exp(-((u - 5) ** 2) / 0.5) / np.sqrt(2 * np.pi), support=11.0)
    assert float(wide.tail(5.0)) == pytest.approx(0.25, abs=1e-7)
