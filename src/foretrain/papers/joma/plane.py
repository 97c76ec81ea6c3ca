"""Expectations over isotropic distributions of the plane by integrating over directions: a reference for Lemma 1.

It knows nothing of marginals or θ: in polar coordinates about the mean, a direction at the angle α to the hyperplane
crosses it at the radius ρ/sin α, and what lies beyond it has a closed form for every named density.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import pi, sqrt

import numpy as np
from scipy.integrate import quad
from scipy.special import beta, betainc, erfc

from foretrain.errors import require_known

Beyond = Callable[[float], tuple[float, float]]  # radius t -> ∫_t f(u) du and ∫_t u·f(u) du, f the radius's density


def _gaussian(t: float, scales: tuple[float, ...] = (1.0,), weights: tuple[float, ...] = (1.0,)) -> tuple[float, float]:
    share = [w * np.exp(-((t / s) ** 2) / 2) for s, w in zip(scales, weights, strict=True)]
    spread = sum(w * s * sqrt(pi / 2) * erfc(t / s / sqrt(2)) for s, w in zip(scales, weights, strict=True))
    return float(sum(share)), float(t * sum(share) + spread)


def _uniform_ball(t: float) -> tuple[float, float]:
    t = min(t, 1.0)
    return 1 - t**2, 2 / 3 * (1 - t**3)


def _student_t(t: float, freedom: float = 3.0) -> tuple[float, float]:
    nu, a = freedom, (freedom - 1) / 2
    share = (1 + t**2 / nu) ** (-nu / 2)
    return share, t * share + sqrt(nu) / 2 * beta(a, 0.5) * betainc(a, 0.5, 1 / (1 + t**2 / nu))


def _laplace(t: float) -> tuple[float, float]:
    return (1 + t) * np.exp(-t), (t**2 + 2 * t + 2) * np.exp(-t)


BEYOND: dict[str, Beyond] = {
    "gaussian": _gaussian,
    "uniform_ball": _uniform_ball,
    "student_t": _student_t,
    "student_t_1.5": partial(_student_t, freedom=1.5),
    "laplace": _laplace,
    "gaussian_mixture": partial(_gaussian, scales=(1.0, 10.0), weights=(0.5, 0.5)),
}


def plane_moments(
    mean: np.ndarray, v: np.ndarray, bias: float, density: str, slopes: tuple[float, float]
) -> tuple[np.ndarray, float]:
    """E[xψ(vᵀx + ξ)] and E[ψ(vᵀx + ξ)] for ψ = c₋ below 0 and c₊ above."""
    require_known("planar density", density, BEYOND)
    length = float(np.linalg.norm(v))
    distance = (float(v @ mean) + bias) / length
    # Seen from the hyperplane's direction the angles up to |ρ| matter; a piece for every power of ten of it.
    first = np.arcsin(min(abs(distance), 1.0)) if density == "uniform_ball" else 0.0
    cuts = np.clip(abs(distance) * 10.0 ** np.arange(-2, 18), first, pi / 2) if distance else np.array([])
    edges = np.unique(np.concatenate([[first], cuts, [pi / 2]]))

    def over_directions(part: int) -> float:
        def integrand(angle: float) -> float:
            sine = np.sin(angle)
            return float(sine**part * BEYOND[density](abs(distance) / sine)[part]) if sine > 1e-300 else 0.0

        return sum(float(quad(integrand, a, b, epsabs=1e-14, epsrel=1e-12)[0]) for a, b in pairwise(edges)) / pi

    far, reach = over_directions(0), over_directions(1)
    share = 1 - far if distance >= 0 else far  # P[vᵀx + ξ > 0]
    below, above = slopes
    total = below + (above - below) * share
    return total * mean + (above - below) * reach * v / length, total


def plane_flow(
    v: np.ndarray,
    bias: float,
    means: Sequence[np.ndarray] | np.ndarray,
    weights: Sequence[float] | np.ndarray,
    density: str,
    slopes: tuple[float, float],
) -> tuple[np.ndarray, float]:
    """dv/dt and dξ/dt of eq. 44 to 47: E[g·h′·x] and E[g·h′] over a mixture."""
    parts = [plane_moments(mean, v, bias, density, slopes) for mean in means]
    return (
        np.sum([a * x for a, (x, _) in zip(weights, parts, strict=True)], axis=0),
        float(sum(a * t for a, (_, t) in zip(weights, parts, strict=True))),
    )
