"""Remarks of JoMA on paper: Theorem 2's Δ, Theorem 4 with linear attention, Theorem 5 by edge, section 7."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp
from scipy.special import expit

from foretrain import InputError
from foretrain.data import LatentTree
from foretrain.papers.joma import theory


def test_delta_is_discriminancy_times_frequency():
    """Theorem 2, footnote 1: E[g·x_l] = E[g | l]·P(l), against tokens that are drawn."""
    draw = np.random.default_rng(3)
    x, g = draw.dirichlet(np.ones(4), 5), draw.standard_normal(5)
    discriminancy, frequency = theory.token_pull(x, g)
    np.testing.assert_allclose(discriminancy * frequency, (g[:, None] * x).mean(0), rtol=1e-14)
    draws = 200_000
    sample = draw.integers(5, size=draws)
    token = (draw.random(draws)[:, None] > np.cumsum(x, axis=1)[sample]).sum(1)
    for each in range(4):
        own = g[sample[token == each]]
        assert own.mean() == pytest.approx(discriminancy[each], abs=4 * own.std() / np.sqrt(own.size))
        assert own.size / draws == pytest.approx(frequency[each], abs=4 * 0.5 / np.sqrt(draws))
    with pytest.raises(InputError, match="one number per sample"):
        theory.token_pull(x, g[:-1])


@given(st.floats(0.1, 5), st.floats(0, 30), st.floats(0.01, 0.09))
def test_linear_attention_log_distance_solves_its_flow(mu, t, start):
    """Theorem 4, remark on linear attention: the closed form, put into its own differential equation."""
    h = 1e-5
    ahead, behind = (
        theory.linear_attention_log_distance(mu, max(t, h) + s * h, start=start) for s in (1, -1)
    )  # d ln(1/δ)/dt = |v|
    v = mu * -np.expm1(-theory.linear_attention_log_distance(mu, max(t, h), start=start))
    assert (ahead - behind) / (2 * h) == pytest.approx(float(v), rel=1e-4, abs=1e-7)
    assert theory.linear_attention_flow(v, mu) == pytest.approx((mu - v) * abs(v))


def test_linear_attention_against_z_and_v_that_move_together():
    """Theorem 4, remark: v̇ = (μ − v)∘z with zż = vv̇ (eq. 14), z(0) = v(0), and its ratio of speeds."""
    mu, start, times = np.array([2.5, 1.0]), 0.05, np.array([1.0, 5.0, 20.0])

    def field(_, state):
        v, z = state.reshape(2, 2)
        speed = (mu - v) * z
        return np.concatenate([speed, speed * v / z])

    solved = solve_ivp(field, (0, 20), np.full(4, start), "DOP853", times, rtol=1e-12, atol=1e-14)
    left = theory.linear_attention_log_distance(mu, times[:, None], start=start)
    np.testing.assert_allclose(solved.y.T[:, :2], -mu * np.expm1(-left), atol=1e-10)
    far = theory.linear_attention_log_distance(mu, 1e5, start=start)
    assert far[0] / far[1] == pytest.approx(float(theory.linear_attention_speed_ratio(2.5, 1.0)), rel=1e-4)
    with pytest.raises(InputError, match="start must lie between 0"):
        theory.linear_attention_log_distance(mu, times, start=0.0)


def test_the_printed_excess_of_theorem4_grows_without_bound():
    """Theorem 4, the line below eq. 88: with e^{−μ²} for e^{−μ²/2} the excess is unbounded."""
    left = np.array([1.0, 1e2, 1e4])
    printed, right = theory.time_excess_printed(1.5, left), theory.time_excess(1.5, left)
    assert right.max() < np.sqrt(np.pi / 2) + 1 < printed[-1]
    assert printed[-1] / printed[-2] > 50
    by_hand = quad(lambda x: np.exp(-(1.5**2) * x**2 / 2) / (1 - x), 0, 1 - np.exp(-1.0))[0] - np.exp(-(1.5**2))
    assert printed[0] == pytest.approx(by_hand, rel=1e-10)


@given(st.integers(0, 1000))
def test_cooccurrence_with_any_rho_per_edge(seed):
    """Theorem 5 by edge (eq. 98): two branches below a stem, every ρ drawn, against the enumeration of all states."""
    draw = np.random.default_rng(seed)
    rho, p_zero = draw.uniform(-0.95, 0.95, 5), draw.uniform(0.05, 0.95)
    tree = LatentTree([-1, 0, 1, 1, 3], rho, p_zero=np.array([[p_zero]]), class_weights=[1.0])
    states, probability = tree.enumerate_states()
    total = probability.sum(axis=0)
    token, query = tree.tokens  # node 2 hangs on the ancestor, node 4 on node 3
    exact = total @ (states[:, token] & states[:, query]) / (total @ states[:, query])
    ancestor = rho[1] * (2 * p_zero - 1)
    formula = theory.cooccurrence_by_edge(rho[2], theory.chain_correlation(rho[3:]), ancestor)
    assert formula == pytest.approx(exact, abs=1e-12)


def test_cooccurrence_by_edge_agrees_with_theorem5():
    """Theorem 5, corrected, is the case of equal ρ."""
    rho, L, H, p_zero = 0.8, 6, 2, 0.7
    by_edge = theory.cooccurrence_by_edge(rho**H, rho**H, rho ** (L - 1 - H) * (2 * p_zero - 1))
    assert by_edge == pytest.approx(float(theory.cooccurrence(rho, L, H, p_zero)), abs=1e-15)


def test_shared_logits_take_over_each_others_speed():
    """Section 7: n tokens that pull alike, with inner product c, move 1 + (n − 1)c times as fast as free ones."""
    n, c = 4, 0.5
    gram = np.full((n, n), c) + (1 - c) * np.eye(n)
    context = np.linalg.cholesky(gram).T
    speed = theory.shared_logit_speed(np.ones((1, n)), np.eye(n)[:, :1], context)
    np.testing.assert_allclose(speed, 1 + (n - 1) * c)
    A = torch.zeros(n, n, dtype=torch.float64, requires_grad=True)
    U = torch.from_numpy(context)
    (torch.eye(n, dtype=torch.float64)[:, :1].T @ A @ U).sum().backward()
    np.testing.assert_allclose((A.grad[:1] @ U).numpy(), speed)
    with pytest.raises(InputError, match="a row per query"):
        theory.shared_logit_speed(np.ones((1, 3)), np.eye(n)[:, :1], context)


@pytest.mark.parametrize("name", ["gaussian", "student_t", "laplace"])
@pytest.mark.parametrize("psi", [theory.RELU, expit], ids=["step", "logistic"])
def test_theta_of_a_rising_psi(name, psi):
    """Lemma 1, second half: θ1 rises from 0 to 1 and θ2 is above 0, if the density is above 0 everywhere."""
    r = np.linspace(-6, 6, 25)
    first = theory.theta1(r, name, psi)
    assert np.all(np.diff(first) > 0)
    assert theory.theta1(-300.0, name, psi) < 1e-3
    assert theory.theta1(300.0, name, psi) > 1 - 1e-3
    assert np.all(theory.theta2(r, name, psi) > 0)


def test_theta2_vanishes_beyond_a_bounded_support():
    """Lemma 1, second half, as printed says θ2 > 0; where the hyperplane misses the support, θ2 = 0."""
    assert theory.theta2(1.5, "uniform_ball") == 0
    assert theory.theta2(0.5, "uniform_ball") > 0


def test_limits_of_the_stationary_function():
    """Lemma 3: F(−∞) = 0 and F → r for ReLU; for |x| it rises on both sides, for leaky ReLU it falls below 0."""
    far = 1e4
    assert theory.stationary_function(-far, "student_t") == pytest.approx(0, abs=1e-3)
    assert theory.stationary_function(far, "student_t") == pytest.approx(far, rel=1e-7)
    assert theory.stationary_function(-far, "gaussian", (-1.0, 1.0)) == pytest.approx(far)
    assert theory.stationary_function(-far, "gaussian", (0.2, 1.0)) == pytest.approx(-0.2 * far)


def test_critical_points_do_not_come_from_underflow():
    """Lemma 4: far in a light tail F/θ1 is 0/0, which is no crossing."""
    assert theory.critical_points(32.0, theory.gaussian_mixture(2), reach=480.0) == []


def test_weights_are_put_together_with_the_sign_of_eq60():
    """Appendix A.4, eq. 60, by hand: two contexts, one query, three dimensions."""
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    w0, moved, bias = np.array([0.1, 0.2, 0.3]), np.array([1.0, -2.0]), np.array([0.5])
    w = theory.weights_from_parts(w0, moved, bias, U[:, :2], U[:, 2:])
    np.testing.assert_allclose(U.T @ (w - w0), [1.0, -2.0, 0.5], atol=1e-15)
