"""What the paper derives, one result per function. Time is steps times learning rate."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad, solve_ivp

from foretrain.core.errors import require

Numbers = np.ndarray | np.floating | float


def learned(time: Numbers, strength: Numbers, start: Numbers) -> Numbers:
    """How much of a mode a network with one hidden layer has learned: an S-shaped curve (eq. 8).

    It solves du/dt = 2u(s − u). Shapes of the arguments are broadcast.
    """
    time, s, u0 = np.asarray(time, float), np.asarray(strength, float), np.asarray(start, float)
    require(bool((u0 > 0).all()), "A mode that starts at 0 stays there; give a start above 0.")
    return s / (1 + (s / u0 - 1) * np.exp(-2 * s * time))


def time_to_learn(strength: Numbers, start: Numbers, end: Numbers) -> Numbers:
    """How long one hidden layer takes from `start` to `end` (eq. 7): about ln(s/u_0)/s, so strong modes come first."""
    s, u0, uf = (np.asarray(x, float) for x in (strength, start, end))
    return np.log(uf * (s - u0) / (u0 * (s - uf))) / (2 * s)


def learned_without_hidden(time: Numbers, strength: Numbers, start: Numbers = 0.0) -> Numbers:
    """The same without a hidden layer: all modes approach their strength together (section 1.2)."""
    s, decay = np.asarray(strength, float), np.exp(-np.asarray(time, float))
    return s * (1 - decay) + start * decay


def deep_speed(learned: Numbers, strength: Numbers, layers: int) -> Numbers:
    """du/dt with N_l layers that start in line with the data and with each other (eq. 17)."""
    require(layers >= 2, f"A network has at least 2 layers of units; got {layers}.")
    u = np.asarray(learned, float)
    return (layers - 1) * u ** (2 - 2 / (layers - 1)) * (strength - u)


def deep_learned(time: Numbers, strength: float, start: float, layers: int) -> Numbers:
    """How much of a mode N_l layers have learned, by integration of eq. 17."""
    solved = solve_ivp(
        lambda _, u: deep_speed(u, np.asarray(strength), layers), (0, float(np.max(time))), [start],
        t_eval=np.asarray(time, float), method="LSODA", rtol=1e-10, atol=1e-10 * start,
    )  # fmt: skip
    return solved.y[0]


def deep_time(strength: float, start: float, end: float, layers: int) -> float:
    """How long N_l layers take from `start` to `end`, by quadrature of eq. 17."""
    return float(quad(lambda u: 1 / deep_speed(u, np.asarray(strength), layers), start, end, limit=200)[0])


def infinitely_deep_time(strength: float, start: float, end: float, last_terms: bool = True) -> float:
    """N_l times the time that N_l layers take, for N_l → ∞ (eq. 18); `last_terms` is for a control."""
    s = strength
    logarithm = np.log(end * (s - start) / (start * (s - end))) / s**2
    return float(logarithm + (1 / (s * start) - 1 / (s * end) if last_terms else 0.0))


def start_of(into: Numbers, out_of: Numbers) -> Numbers:
    """The u_0 that counts from any small start, of a mode with weights `into` the hidden units and `out_of` them.

    Small weights grow and shrink by themselves before modes meet: (into + out_of)/2 grows as e^{st}, the difference
    dies out. What is left looks like a start in line with the data (ours; the paper assumes such a start). The hidden
    units are the last axis.
    """
    return np.sum(((np.asarray(into) + np.asarray(out_of)) / 2) ** 2, axis=-1)
