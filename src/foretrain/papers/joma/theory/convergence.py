"""Section 4 with attention: how fast the components of v reach their targets μ under eq. 6 (Theorem 4).

δ = 1 − v/μ is the share of the way that is left. The functions work in ln(1/δ), so δ may be as small as 1e-300 and, in
`log_distance`, far smaller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import dawsn

from foretrain.core.errors import InputError, as_floats, require

Array = NDArray[np.float64]

LAMBDA_BOUND = np.sqrt(2 * np.pi) + 2  # Theorem 4: |λ_jk| never exceeds this
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


def attention_flow(v: ArrayLike, mu: ArrayLike) -> Array:
    """Section 4, eq. 6: v̇ = (μ − v)∘exp(v²/2)."""
    v = as_floats("v", v)
    return np.asarray((as_floats("mu", mu) - v) * np.exp(v**2 / 2))


def salient_time(mu: ArrayLike, delta: ArrayLike) -> Array:
    """Theorem 4, eq. 79: the time F(1 − δ, μ) = ∫₀^{1−δ} e^{−μ²x²/2}/(1 − x) dx after which a component has δ left."""
    delta = as_floats("delta", delta)
    bad = delta[~((delta > 0) & (delta <= 1))]
    if bad.size:
        raise InputError(
            f"delta must lie above 0 and be at most 1; got {bad[0]:g}; below 1e-308 use time_to_distance with ln(1/δ)."
        )
    return time_to_distance(mu, -np.log(delta))


def time_to_distance(mu: ArrayLike, log_inverse: ArrayLike) -> Array:
    """Theorem 4, eq. 79 in ln(1/δ): e^{−μ²/2}·ln(1/δ) + ρ(δ, μ)."""
    mu, log_inverse = _targets(mu), as_floats("log_inverse", log_inverse)
    require(bool(np.all(log_inverse >= 0)), "ln(1/δ) must not be negative, since δ is at most 1.")
    return np.asarray(np.exp(-(mu**2) / 2) * log_inverse + time_excess(mu, log_inverse))


def time_excess(mu: ArrayLike, log_inverse: ArrayLike) -> Array:
    """Theorem 4, eq. 88: ρ(δ, μ) = F(1 − δ, μ) − e^{−μ²/2}·ln(1/δ), which lies between 0 and √(π/2) + 1.

    With u = 1 − x it is ∫_δ^1 e^{−μ²x²/2}·(1 − e^{−μ²(u − u²/2)})/u du, whose integrand is smooth down to u = 0.
    """
    mu, delta = _targets(mu)[..., None], np.exp(-as_floats("log_inverse", log_inverse))[..., None]
    # With a large μ nearly all of the integral is at u > 1 − 9/μ, which therefore gets nodes of its own.
    knee = np.maximum(delta, 1 - 9 / np.maximum(np.abs(mu), 9))
    return np.asarray(_smooth_part(mu, delta, knee) + _smooth_part(mu, knee, np.ones_like(knee)))


def log_distance(mu: ArrayLike, t: ArrayLike) -> Array:
    """Theorem 4: ln(1/δ(t)), the inverse of eq. 79, by Newton's method.

    Above μ ≈ 6 the component gets there so abruptly that a time in float64 no longer determines δ.
    """
    mu, t = _targets(mu), as_floats("t", t)
    require(bool(np.all(t >= 0)), f"t must not be negative; its smallest value is {np.min(t, initial=0):g}.")
    # Time is concave in ln(1/δ), with slope e^{−μ²(1−δ)²/2} ≤ 1: starting on the left, at ln(1/δ) = t, Newton's method
    # overshoots at most once and then approaches from one side.
    reached = np.broadcast_to(t, np.broadcast_shapes(mu.shape, t.shape)).astype(np.float64)
    for _ in range(100):
        left = t - time_to_distance(mu, reached)
        step = left * np.exp(mu**2 * np.expm1(-reached) ** 2 / 2)
        reached = reached + step
        if np.all(np.abs(step) <= 1e-14 * (1 + reached)):
            break
    return np.asarray(reached)


def speed_ratio(mu_fast: ArrayLike, mu_slow: ArrayLike) -> Array:
    """Theorem 4, eq. 7: the limit e^{μ_j²/2}/e^{μ_k²/2} of ln(1/δ_j)/ln(1/δ_k)."""
    return np.asarray(np.exp((_targets(mu_fast) ** 2 - _targets(mu_slow) ** 2) / 2))


def speed_ratio_error_bound(mu_slow: ArrayLike, log_inverse: ArrayLike) -> Array:
    """Theorem 4, corrected: |Λ| ≤ (√(2π) + 2)·e^{μ_k²/2}/ln(1/δ_k), small once δ_k ≪ exp[−(√(2π) + 2)·e^{μ_k²/2}]."""
    return np.asarray(LAMBDA_BOUND * np.exp(_targets(mu_slow) ** 2 / 2) / as_floats("log_inverse", log_inverse))


def speed_ratio_error_bound_printed(mu_slow: ArrayLike, log_inverse: ArrayLike) -> Array:
    """Theorem 4, its printed condition |Λ| ≪ 1 if δ_k ≪ exp[−(√(2π) + 2)·e^{−μ_k²}], read as a bound.

    The paper prints no bound. Our reading of "≪": where ln(1/δ_k) is R times what the condition asks for, |Λ| ≤ 1/R.
    """
    return np.asarray(LAMBDA_BOUND * np.exp(-(_targets(mu_slow) ** 2)) / as_floats("log_inverse", log_inverse))


def time_excess_printed(mu: ArrayLike, log_inverse: ArrayLike) -> Array:
    """Theorem 4, the line below eq. 88: ρ(δ, μ) = F(1 − δ, μ) − e^{−μ²}·ln(1/δ), which grows without bound."""
    mu, log_inverse = _targets(mu), as_floats("log_inverse", log_inverse)
    return np.asarray(time_to_distance(mu, log_inverse) - np.exp(-(mu**2)) * log_inverse)


def linear_attention_flow(v: ArrayLike, mu: ArrayLike) -> Array:
    """Theorem 4, remark: eq. 6 with linear attention, v̇ = (μ − v)∘|v|, since z² = v² by Theorem 1.

    At v = 0 it stands still, so zero-initialization leads nowhere.
    """
    v = as_floats("v", v)
    return np.asarray((as_floats("mu", mu) - v) * np.abs(v))


def linear_attention_log_distance(mu: ArrayLike, t: ArrayLike, *, start: float) -> Array:
    """Theorem 4, remark: ln(1/δ(t)) under linear attention, where δ = 1 − v/μ and v(0) = `start`·sign(μ).

    v grows logistically, so with q = |μ|/start − 1 it is ln(1 + e^{|μ|t}/q): in the end it rises at the rate |μ|.
    """
    mu, t = np.abs(_targets(mu)), as_floats("t", t)
    require(
        0 < start < float(np.min(mu)),
        f"start must lie between 0 (where nothing moves) and the smallest |mu|, {np.min(mu):g}; got {start}.",
    )
    return np.asarray(np.logaddexp(0.0, mu * t - np.log(mu / start - 1)))


def linear_attention_speed_ratio(mu_fast: ArrayLike, mu_slow: ArrayLike) -> Array:
    """Theorem 4, remark: under linear attention the limit of ln(1/δ_j)/ln(1/δ_k) is |μ_j|/|μ_k|."""
    return np.asarray(np.abs(_targets(mu_fast)) / np.abs(_targets(mu_slow)))


def lemma6_function(y: ArrayLike) -> Array:
    """Lemma 6: g(y) = (1 − e^{−y²})/y, at most 1/√2 for y ≥ 0 (its maximum is .6382, at 1.1209)."""
    y = as_floats("y", y)
    return np.where(y == 0, 0.0, -np.expm1(-(y**2)) / np.where(y == 0, 1.0, y))


def lemma7_function(y: ArrayLike) -> Array:
    """Lemma 7: G(y) = e^{−y²/2}∫₀^y e^{x²/2} dx = √2·D(y/√2), D Dawson's integral; in [0, 1] for y ≥ 0."""
    return np.asarray(np.sqrt(2) * dawsn(as_floats("y", y) / np.sqrt(2)))


def _smooth_part(mu: Array, low: Array, high: Array) -> Array:
    u = (low + high) / 2 + (high - low) / 2 * _NODES
    u = np.where(u > 0, u, 1.0)  # an empty piece at 0
    values = -np.exp(-(mu**2) * (1 - u) ** 2 / 2) * np.expm1(-(mu**2) * u * (1 - u / 2)) / u
    return np.asarray(((high - low) / 2 * _WEIGHTS * values).sum(axis=-1))


def _targets(mu: ArrayLike) -> Array:
    mu = as_floats("mu", mu)
    bad = mu[~(np.isfinite(mu) & (mu != 0))]
    if bad.size:
        raise InputError(
            f"mu must be finite and not 0, since δ = 1 − v/μ has no meaning there; got {bad[0]:g}; leave such "
            "components out."
        )
    return mu
