"""Expectations over isotropic distributions of the plane by integrating over directions: a reference for Lemma 1.

It uses neither marginals nor θ. In polar coordinates around the mean, a direction at the angle α to the hyperplane
crosses it at the radius ρ/sin α, and the integral beyond that radius has a closed form for every named density.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import pi, sqrt

import numpy as np
from scipy.special import beta, betainc, erfc

from foretrain.core.errors import require_known

Array = np.ndarray
Beyond = Callable[[Array], tuple[Array, Array]]  # radius t -> ∫_t f(u) du and ∫_t u·f(u) du, f the radius's density

ORDER_8 = (4 / 5, -1 / 5, 4 / 105, -1 / 280)  # weights of the central differences f(x + kh) − f(x − kh), k = 1 to 4
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def _gaussian(t: Array, scales: tuple[float, ...] = (1.0,), weights: tuple[float, ...] = (1.0,)) -> tuple[Array, Array]:
    s, w = np.array(scales), np.array(weights)
    share = np.exp(-((t[..., None] / s) ** 2) / 2) @ w
    return share, t * share + erfc(t[..., None] / s / sqrt(2)) @ (w * s * sqrt(pi / 2))


def _uniform_ball(t: Array) -> tuple[Array, Array]:
    t = np.minimum(t, 1.0)
    return 1 - t**2, 2 / 3 * (1 - t**3)


def _student_t(t: Array, freedom: float = 3.0) -> tuple[Array, Array]:
    nu, a = freedom, (freedom - 1) / 2
    share = (1 + t**2 / nu) ** (-nu / 2)
    return share, t * share + sqrt(nu) / 2 * beta(a, 0.5) * betainc(a, 0.5, 1 / (1 + t**2 / nu))


def _laplace(t: Array) -> tuple[Array, Array]:
    return (1 + t) * np.exp(-t), (t**2 + 2 * t + 2) * np.exp(-t)


BEYOND: dict[str, Beyond] = {
    "gaussian": _gaussian,
    "uniform_ball": _uniform_ball,
    "student_t": _student_t,
    "student_t_1.5": partial(_student_t, freedom=1.5),
    "laplace": _laplace,
    "gaussian_mixture": partial(_gaussian, scales=(1.0, 10.0), weights=(0.5, 0.5)),
}


def slope_by_differences(function: Callable[[Array], Array], at: Array, h: float) -> Array:
    """The slope at every point by central differences of order 8."""
    steps = h * np.arange(1, 5)[:, None]
    return np.asarray(np.array(ORDER_8) @ (function(at + steps) - function(at - steps)) / h)


def plane_moments(mean: Array, v: Array, bias: float, density: str, slopes: tuple[float, float]) -> tuple[Array, float]:
    """E[xψ(vᵀx + ξ)] and E[ψ(vᵀx + ξ)] for ψ = c₋ below 0 and c₊ above."""
    require_known("planar density", density, BEYOND)
    length = float(np.linalg.norm(v))
    distance = (float(v @ mean) + bias) / length
    angle, weight = _directions(abs(distance), inside=density == "uniform_ball")
    share, moment = BEYOND[density](abs(distance) / np.sin(angle))
    far, reach = float(weight @ share) / pi, float(weight @ (np.sin(angle) * moment)) / pi
    active = 1 - far if distance >= 0 else far  # P[vᵀx + ξ > 0]
    below, above = slopes
    total = below + (above - below) * active
    return total * mean + (above - below) * reach * v / length, total


def _directions(distance: float, inside: bool) -> tuple[Array, Array]:
    """Nodes and weights over the angles to the hyperplane up to 90°; with `inside`, only those that reach it within the
    unit ball.

    Angles about as large as the distance matter most, so every half power of ten of the distance is a separate piece.
    """
    first = np.arcsin(min(distance, 1.0)) if inside else 0.0
    cuts = np.clip(distance * 10.0 ** np.arange(-3, 17, 0.5), first, pi / 2)
    edges = np.unique([first, *cuts, pi / 2])
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    return (middle[:, None] + half[:, None] * _NODES).ravel(), (half[:, None] * _WEIGHTS).ravel()


def plane_flow(
    v: Array,
    bias: float,
    means: Sequence[Array] | Array,
    weights: Sequence[float] | Array,
    density: str,
    slopes: tuple[float, float],
) -> tuple[Array, float]:
    """Lemma 2, eq. 44 to 47: dv/dt = E[g·h′·x] and dξ/dt = E[g·h′] over a mixture."""
    parts = [plane_moments(mean, v, bias, density, slopes) for mean in means]
    a = np.asarray(weights)
    return a @ np.stack([x for x, _ in parts]), float(a @ np.array([total for _, total in parts]))
