"""Section 3.1: with a linear activation and exp attention the largest component wins (Theorem 2).

`delta` is Δ_l = E[g·x_l], tokens on its last axis; `normalizer` is the constant A of exp attention.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, erfinv

from foretrain.core.errors import as_floats, require

Array = NDArray[np.float64]


def winner_take_all(delta: ArrayLike, t: ArrayLike, *, normalizer: float = 1.0) -> Array:
    """Theorem 2, corrected: v_l(t) = √2·erf⁻¹(√(2/π)·Δ_l·t/A), the solution of eq. 20 from v = 0.

    Tokens are on the last axis of the result; the axes of `t` come before it and broadcast against those of `delta`.
    At the blow-up time the winner is infinite; later times are refused.
    """
    delta, t = _checked(delta, t, normalizer)
    return np.sqrt(2) * erfinv(np.clip(np.sqrt(2 / np.pi) * delta * t[..., None] / normalizer, -1, 1))


def winner_take_all_printed(delta: ArrayLike, t: ArrayLike, *, normalizer: float = 1.0) -> Array:
    """Theorem 2, eq. 4 as printed: erf(v_l/2)/Δ_l is the same for all tokens.

    The invariant only fixes the tokens relative to each other, so the winner follows its exact path.
    """
    exact = winner_take_all(delta, t, normalizer=normalizer)
    delta = np.broadcast_to(as_floats("delta", delta), exact.shape)
    winner = np.argmax(np.abs(delta), axis=-1)[..., None]
    shared = erf(np.take_along_axis(exact, winner, -1) / 2) / np.take_along_axis(delta, winner, -1)
    return 2 * erfinv(delta * shared)


def blow_up_time(delta: ArrayLike, *, normalizer: float = 1.0) -> Array:
    """Theorem 2, corrected: the winner is infinite at the finite time √(π/2)·A/max|Δ|; inf if all Δ are 0."""
    largest = np.max(np.abs(_pulls(delta)), axis=-1)
    require(normalizer > 0, f"normalizer must be above 0; got {normalizer}.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(np.pi / 2) * normalizer / largest)


def loser_limits(delta: ArrayLike) -> Array:
    """Theorem 2, corrected: where the tokens are at the blow-up time, √2·erf⁻¹(Δ_l/max|Δ|); the winner at ±inf."""
    return np.sqrt(2) * erfinv(_share_of_largest(delta))


def loser_limits_printed(delta: ArrayLike) -> Array:
    """Theorem 2, eq. 4 as printed: 2·erf⁻¹(Δ_l/max|Δ|)."""
    return 2 * erfinv(_share_of_largest(delta))


def winner_invariant(v: ArrayLike, delta: ArrayLike) -> Array:
    """Theorem 2, corrected: erf(v_l/√2)/Δ_l, the same for all tokens at any time."""
    return erf(as_floats("v", v) / np.sqrt(2)) / as_floats("delta", delta)


def winner_invariant_printed(v: ArrayLike, delta: ArrayLike) -> Array:
    """Theorem 2, eq. 4 as printed: erf(v_l/2)/Δ_l."""
    return erf(as_floats("v", v) / 2) / as_floats("delta", delta)


def token_pull(frequencies: ArrayLike, signal: ArrayLike) -> tuple[Array, Array]:
    """Theorem 2, footnote 1: discriminancy E[g | token l] and frequency P(l) of every token; their product is Δ_l.

    `frequencies` x [..., sample, token] and `signal` g [..., sample] belong to samples with one query. P(l) is the
    chance that a token drawn from a random sample is l, and E[g | l] the mean of g over such draws (nan if l never
    occurs).
    """
    x, g = as_floats("frequencies", frequencies), as_floats("signal", signal)
    require(
        x.ndim >= 2 and g.shape == x.shape[:-1],
        f"signal must have one number per sample; got {g.shape} for frequencies of shape {x.shape}.",
    )
    frequency = x.mean(axis=-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((g[..., None] * x).mean(axis=-2) / frequency), np.asarray(frequency)


def _share_of_largest(delta: ArrayLike) -> Array:
    delta = _pulls(delta)
    largest = np.max(np.abs(delta), axis=-1, keepdims=True)
    require(bool(np.all(largest > 0)), "delta must have an entry that is not 0; if all are 0, no token moves.")
    return delta / largest


def _pulls(delta: ArrayLike) -> Array:
    delta = as_floats("delta", delta)
    good = delta.ndim >= 1 and delta.shape[-1] >= 1 and bool(np.isfinite(delta).all())
    require(good, f"delta must be finite numbers, one per token and at least one; got {delta.tolist()}.")
    return delta


def _checked(delta: ArrayLike, t: ArrayLike, normalizer: float) -> tuple[Array, Array]:
    delta, t = _pulls(delta), as_floats("t", t)
    require(bool(np.all(t >= 0)), f"t must not be negative; its smallest value is {np.min(t, initial=0):g}.")
    last = blow_up_time(delta, normalizer=normalizer)
    too_late = np.asarray(t > last * (1 + 4 * np.finfo(float).eps))
    require(
        not too_late.any(),
        f"t must not be later than the blow-up time {np.min(last):.6g}; its largest value is {np.max(t, initial=0):g}.",
    )
    return delta, t
