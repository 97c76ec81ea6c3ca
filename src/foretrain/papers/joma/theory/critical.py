"""Lemma 4 and Theorem 3: critical points of two isotropic components, and the linear dynamics near them.

One component has weight a₊ and mean x̄₊, the other weight −a₋ and mean 0. By Lemma 1 (corrected) only the distances
ρ± = r±/‖v‖ matter, and they differ by ±‖x̄₊‖. So if (v, ξ) is critical, all its multiples are; and it is critical only
if a₋/a₊ has the value that eq. 56 gives for this ‖x̄₊‖.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import as_floats, require, require_positive
from foretrain.papers.joma.theory.isotropic import RELU, Derivative, required_slopes, stationary_function, theta1
from foretrain.papers.joma.theory.radial import RadialDensity, radial_density

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CriticalPoint:
    """Lemma 4: the distances ρ₊ and ρ₋ of both means to the hyperplane, the sign of μᵀx̄₊, and the required a₋/a₊."""

    r_plus: float
    r_minus: float
    sign: int
    weight_ratio: float

    def at(self, x_plus: ArrayLike, norm: float = 1.0) -> tuple[Array, float]:
        """(μ, ξ*) with ‖μ‖ = norm."""
        x_plus = as_floats("x_plus", x_plus)
        return self.sign * norm * x_plus / np.linalg.norm(x_plus), norm * self.r_minus


def critical_condition(density: str | RadialDensity = "gaussian") -> float:
    """Lemma 4, eq. 58: θ2(0)·p_n(0) for ReLU; at ¼ or above there are critical points.

    The condition is sufficient but not necessary: it is about r = 0 only, and F/θ1 may start to fall elsewhere.
    """
    shape = radial_density(density)
    return float(shape.tail_moment(0.0) * shape.marginal(0.0))


def critical_ratio(r: ArrayLike, density: str | RadialDensity = "gaussian", derivative: Derivative = RELU) -> Array:
    """Lemma 4, eq. 56: F(r)/θ1(r); a critical point needs the same value at r₊ and r₋.

    For ReLU and a log-concave p_n (Gaussian, uniform ball, Laplace) it never falls: θ1² ≥ F·p_n.
    """
    return np.asarray(stationary_function(r, density, derivative) / theta1(r, density, derivative))


def critical_points(
    distance: float, density: str | RadialDensity = "gaussian", derivative: Derivative = RELU, *, reach: float = 30.0
) -> list[CriticalPoint]:
    """Lemma 4, eq. 56: every critical point with ‖x̄₊‖ = distance and |ρ₋| below `reach`.

    ρ₊ = ρ₋ ± distance; each crossing of F/θ1 with its own shift by `distance` gives one point for either sign.
    """
    from scipy.optimize import brentq  # a tenth of a second to load, and no other function searches roots

    require_positive("distance", distance)
    require_positive("reach", reach)
    required_slopes("Lemma 4", derivative)

    def gap(r: float) -> float:
        first, second = critical_ratio([r, r + distance], density, derivative)
        return float(second - first)

    shift = max(1, round(distance * 300 / reach))  # about 600 points, and the distance is a whole number of steps
    grid = np.arange(-reach - distance, reach + distance, distance / shift)
    with np.errstate(invalid="ignore", divide="ignore"):  # a light tail may underflow to 0/0, which is no crossing
        ratio = critical_ratio(grid, density, derivative)
    ratio[np.abs(theta1(grid, density, derivative)) < 1e-290] = np.nan  # what is left of it there is rounding
    values = ratio[shift:] - ratio[:-shift]
    clear = np.flatnonzero(np.abs(values) > 1e-9)  # where the ratio is flat (Laplace left of 0) there is no crossing
    crossings = [(i, j) for i, j in pairwise(clear) if values[i] * values[j] < 0]
    points = []
    for i, j in crossings:
        low = float(brentq(gap, grid[i], grid[j], xtol=1e-14, rtol=1e-14))
        first, second = theta1([low, low + distance], density, derivative)
        points.append(CriticalPoint(low + distance, low, 1, float(second / first)))
        points.append(CriticalPoint(low, low + distance, -1, float(first / second)))
    return [point for point in points if abs(point.r_minus) < reach]


def linear_coefficients(
    point: CriticalPoint,
    distance: float,
    density: str | RadialDensity,
    derivative: Derivative = RELU,
    *,
    weight_plus: float = 1.0,
    norm: float = 1.0,
) -> tuple[float, float]:
    """Theorem 3, eq. 73 and 74 corrected: β1, β2 of v̇ = (β1·I + β2·μμᵀ)(μ − v) at fixed ξ.

    β1 = s·a₊‖x̄₊‖θ1(ρ₊)/‖μ‖ and β2 = −[β1 + ρ₋²(c₊ − c₋)(a₊p_n(ρ₊) − a₋p_n(ρ₋))/‖μ‖]/‖μ‖².
    """
    below, above = required_slopes("Theorem 3", derivative)
    p_plus, p_minus = radial_density(density).marginal([point.r_plus, point.r_minus])
    weight_minus = weight_plus * point.weight_ratio
    beta1 = point.sign * weight_plus * distance * float(theta1(point.r_plus, density, derivative)) / norm
    along = point.r_minus**2 * (above - below) * (weight_plus * p_plus - weight_minus * p_minus) / norm
    return beta1, -(beta1 + float(along)) / norm**2


def linear_coefficients_printed(
    point: CriticalPoint,
    distance: float,
    density: str | RadialDensity,
    derivative: Derivative = RELU,
    *,
    weight_plus: float = 1.0,
    norm: float = 1.0,
) -> tuple[float, float]:
    """Theorem 3, eq. 73 and 74 as printed; they follow from Lemma 1 as printed.

    β1 = s·a₊‖x̄₊‖θ1(r₊)/‖μ‖² and β2 = s·a₊‖x̄₊‖(ξ*·θ1′(r₊) − 2θ1(r₊))/‖μ‖⁴.
    """
    below, above = required_slopes("Theorem 3", derivative)
    r_plus, bias = norm * point.r_plus, norm * point.r_minus
    first = float(theta1(r_plus, density, derivative))
    slope = (above - below) * float(radial_density(density).marginal(r_plus))
    size = point.sign * weight_plus * distance
    return size * first / norm**2, size * (bias * slope - 2 * first) / norm**4


def linear_matrix(coefficients: tuple[float, float], mu: ArrayLike) -> Array:
    """Theorem 3, eq. 72: C(μ) = β1·I + β2·μμᵀ."""
    mu = as_floats("mu", mu)
    require(bool(np.any(mu != 0)), "mu must not be 0: Theorem 3 is about critical points other than 0.")
    return coefficients[0] * np.eye(mu.size) + coefficients[1] * np.outer(mu, mu)
