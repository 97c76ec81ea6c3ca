"""Deep linear networks: formulas against integration, each other and limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from foretrain.core.errors import InputError
from foretrain.papers.deep_linear import theory

strengths = st.floats(0.2, 5)
small = st.floats(1e-6, 0.1)


@given(strengths, small, st.floats(0.1, 8))
def test_eq8_solves_its_equation(s: float, start: float, until: float) -> None:
    solved = solve_ivp(lambda _, u: 2 * u * (s - u), (0, until), [start], rtol=1e-10, atol=1e-14)
    assert theory.learned(np.array(until), np.array(s), np.array(start)) == pytest.approx(solved.y[0, -1], rel=1e-7)


@given(strengths, small, st.floats(0.15, 0.99))
def test_eq7_is_the_inverse_of_eq8(s: float, start: float, share: float) -> None:
    start, end = start * s, share * s
    time = theory.time_to_learn(np.array(s), np.array(start), np.array(end))
    assert theory.learned(time, np.array(s), np.array(start)) == pytest.approx(end, rel=1e-9)
    assert theory.deep_time(s, start, end, 3) == pytest.approx(float(time), rel=1e-6)


@given(strengths, small)
def test_eq17_has_both_shallow_cases_in_it(s: float, start: float) -> None:
    time = np.linspace(0.1, 4, 7)
    one_hidden = theory.learned(time, np.array(s), np.array(start))
    np.testing.assert_allclose(theory.deep_learned(time, s, start, 3), one_hidden, rtol=1e-6)
    none = theory.learned_without_hidden(time, np.array(s), start)
    np.testing.assert_allclose(theory.deep_learned(time, s, start, 2), none, rtol=1e-6)


def test_deeper_networks_approach_the_limit() -> None:
    limit = theory.infinitely_deep_time(2.0, 0.5, 1.8)
    errors = [abs(n * theory.deep_time(2.0, 0.5, 1.8, n) / limit - 1) for n in (100, 200, 400)]
    assert errors[0] < 0.02
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.05)


def test_the_start_that_counts_is_exact_while_weights_are_small() -> None:
    """Linear growth by itself: a' = s·b, b' = s·a, so a·b approaches |(a + b)/2|²·e^{2st}."""
    draw = np.random.default_rng(1)
    a, b = draw.normal(size=(2, 16)) * 1e-6
    s, time = 1.3, 4.0
    grown, died = (a + b) / 2 * np.exp(s * time), (a - b) / 2 * np.exp(-s * time)
    product = float((grown + died) @ (grown - died))
    curve = theory.learned(np.array(time), np.array(s), theory.start_of(a, b))
    assert product == pytest.approx(float(curve), rel=1e-4)


def test_a_mode_that_starts_at_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="stays there"):
        theory.learned(np.array(1.0), np.array(1.0), np.array(0.0))
    with pytest.raises(InputError, match="at least 2 layers"):
        theory.deep_speed(np.array(0.5), np.array(1.0), 1)
