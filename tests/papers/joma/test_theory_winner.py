"""Theorems 1 and 2 on paper, against flows integrated step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp

from foretrain import InputError
from foretrain.papers.joma import theory


def test_corrected_trajectory_solves_the_flow():
    """Theorem 2, corrected: v_l(t) solves eq. 20."""
    delta = np.array([1.0, 0.6, -0.3, 0.0])
    times = np.linspace(0, 1.2, 13)
    solved = solve_ivp(
        lambda t, v: delta * np.exp(v**2 / 2), (0, 1.2), np.zeros(4), "DOP853", times, rtol=1e-13, atol=1e-14
    )
    assert np.abs(theory.winner_take_all(delta, times) - solved.y.T).max() < 1e-10


def test_the_numbers_of_the_erratum():
    """Theorem 2: the corrected invariant is the same for both tokens, the printed one is not."""
    v = theory.winner_take_all([1.0, 0.6], 1.2)
    assert theory.winner_invariant(v, [1.0, 0.6]) == pytest.approx([0.957461, 0.957461], abs=1e-6)
    assert theory.winner_invariant_printed(v, [1.0, 0.6]) == pytest.approx([0.848, 0.711], abs=1e-3)
    assert theory.blow_up_time([1.0, 0.6]) == pytest.approx(np.sqrt(np.pi / 2))
    assert theory.loser_limits([1.0, 0.6])[1] == pytest.approx(0.8416, abs=1e-4)


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=6), st.floats(0, 0.999), st.floats(0.1, 5))
def test_signs_order_and_scale(delta, share, normalizer):
    """Theorem 2: v has the signs and the order of Δ, and depends on Δ·t alone."""
    delta = np.array(delta)
    if np.abs(delta).max() < 1e-3:
        return
    t = share * float(theory.blow_up_time(delta, normalizer=normalizer))
    v = theory.winner_take_all(delta, t, normalizer=normalizer)
    order = np.argsort(delta)
    assert np.all(np.diff(v[order]) >= 0)
    assert np.all(v * delta >= 0)
    assert np.allclose(v, theory.winner_take_all(2 * delta, t / 2, normalizer=normalizer), rtol=1e-9)
    limits = theory.loser_limits(delta)
    assert np.all(np.abs(v) <= np.abs(limits) + 1e-12)


def test_blow_up_time_is_the_integral_to_infinity():
    """Theorem 2, corrected: ∫₀^∞ e^{−v²/2} dv is finite."""
    exact = quad(lambda v: np.exp(-(v**2) / 2), 0, np.inf)[0]
    assert theory.blow_up_time([-2.0, 1.0], normalizer=3.0) == pytest.approx(3 * exact / 2, rel=1e-12)


def test_axes_of_time_come_first():
    assert theory.winner_take_all([1.0, 0.5, 0.2], np.zeros((2, 4))).shape == (2, 4, 3)
    assert theory.winner_take_all(np.ones((5, 3)), np.zeros(5)).shape == (5, 3)
    assert theory.winner_take_all_printed([1.0, 0.5], [0.1, 0.2, 0.3]).shape == (3, 2)


@pytest.mark.parametrize(("t", "words"), [(-0.1, "must not be negative"), (1.3, "blow-up time 1.25331")])
def test_times_outside_are_refused(t, words):
    with pytest.raises(InputError, match=words):
        theory.winner_take_all([1.0, 0.6], t)


def test_all_zero_delta_has_no_winner():
    with pytest.raises(InputError, match="not 0"):
        theory.loser_limits([0.0, 0.0])
    assert theory.blow_up_time([0.0, 0.0]) == np.inf


def _joint_flow(attention: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """v [time, node, token], z [time, token] and b̄ along eq. 2 with φ = sin and a fixed g, by a plain solver."""
    draw = np.random.default_rng(seed)
    samples, nodes, tokens = 7, 2, 4
    x, g = draw.random((samples, tokens)), draw.standard_normal((samples, nodes))
    v, z = draw.standard_normal((nodes, tokens)) / 2, 0.2 + draw.random(tokens) / 4

    def scores(z):
        raw = x * (z if attention == "linear" else np.exp(z))
        return raw / raw.sum(1, keepdims=True) if attention == "softmax" else raw

    def field(_, flat):
        v, z = flat[: nodes * tokens].reshape(nodes, tokens), flat[nodes * tokens :]
        b = scores(z)
        push = g * np.cos(b @ v.T)  # g·φ′(h)
        into_b = push @ v
        if attention == "softmax":
            dz = (b * (into_b - (b * into_b).sum(1, keepdims=True))).mean(0)
        else:
            dz = ((x if attention == "linear" else b) * into_b).mean(0)
        return np.concatenate([(push.T @ b / samples).ravel(), dz])

    start = np.concatenate([v.ravel(), z])
    solved = solve_ivp(field, (0, 0.3), start, "DOP853", np.linspace(0, 0.3, 5), rtol=1e-12, atol=1e-13)
    assert solved.success
    path = solved.y.T
    return path[:, : nodes * tokens].reshape(-1, nodes, tokens), path[:, nodes * tokens :], scores(z).mean(0)


def test_linear_attention_invariant_along_the_flow():
    """Theorem 1, linear attention: z² − Σ_k v_k² is constant."""
    v, z, _ = _joint_flow("linear")
    c = z[0] ** 2 - (v[0] ** 2).sum(0)
    assert np.abs(theory.attention_from_mlp_linear(v, c) - z).max() < 1e-9
    assert np.abs(z[-1] - z[0]).max() > 1e-3


def test_exp_attention_invariant_along_the_flow():
    """Theorem 1, exp attention: z − ½Σ_k v_k² is constant."""
    v, z, _ = _joint_flow("exp")
    c = z[0] - theory.attention_from_mlp_exp(v[0])
    assert np.abs(theory.attention_from_mlp_exp(v, c) - z).max() < 1e-9
    assert np.abs(z[-1] - z[0]).max() > 1e-3


def test_softmax_form_sums_to_a_constant():
    """Theorem 1, softmax attention: adding to all logits changes nothing, so their sum does not move."""
    v = np.random.default_rng(1).standard_normal((3, 2, 4))
    mean = np.full(4, 0.25)
    assert np.abs(theory.attention_from_mlp_softmax(v, mean).sum(-1)).max() < 1e-14


def test_an_impossible_square_is_refused():
    with pytest.raises(InputError, match="cannot be negative"):
        theory.attention_from_mlp_linear(np.ones((1, 2)), -2.0)
    with pytest.raises(InputError, match="last two axes"):
        theory.attention_from_mlp_exp(np.ones(2))
