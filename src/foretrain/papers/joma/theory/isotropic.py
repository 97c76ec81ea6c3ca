"""Section 4 and appendix A.3.1: the nonlinear dynamics under uniform attention, for isotropic inputs.

`density` is a name in `radial.DENSITIES`, which means that density in one dimension, or a `RadialDensity` in any
dimension (marginals may depend on it). `derivative` is φ′: a pair (c₋, c₊) for a homogeneous φ, with φ′ = c₋ below 0
and c₊ above, or any function of arrays that is smooth except at 0; `Kinked` names other exceptions.

Lemma 1 prints θ of r = vᵀx̄ + ξ and divides by ‖v‖. In fact the variable of θ is the distance r/‖v‖ to the hyperplane,
and nothing is divided; the two agree if ‖v‖ = 1. Functions named `_printed` keep the printed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import InputError, as_floats, require, require_positive
from foretrain.papers.joma.theory.radial import RadialDensity, line_nodes, radial_density

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Kinked:
    """φ′ as a function of arrays, and the points at which it jumps or bends: `Kinked(hard_tanh_slope, (-1.0, 1.0))`."""

    function: Callable[[Array], Array]
    kinks: tuple[float, ...]

    def __call__(self, u: Array) -> Array:
        return self.function(u)


Derivative = tuple[float, float] | Callable[[Array], Array]

RELU: tuple[float, float] = (0.0, 1.0)
LINEAR: tuple[float, float] = (1.0, 1.0)


def theta1(
    r: ArrayLike, density: str | RadialDensity = "gaussian", derivative: Derivative = RELU, *, norm: float = 1.0
) -> Array:
    """Lemma 1, eq. 40: θ1(r) = ∫ψ(‖v‖(y + r))·p_n(y) dy with ψ = φ′ and r the distance to the hyperplane.

    The length `norm` of v matters only if φ is not homogeneous.
    """
    r, shape = as_floats("r", r), radial_density(density)
    slopes = homogeneous_slopes(derivative)
    if slopes is None:
        return _line_average(lambda y, psi: psi, r, shape, derivative, norm)
    below, above = slopes
    beyond = shape.tail(np.abs(r))
    return np.where(r < 0, above * beyond + below * (1 - beyond), below * beyond + above * (1 - beyond))


def theta2(
    r: ArrayLike, density: str | RadialDensity = "gaussian", derivative: Derivative = RELU, *, norm: float = 1.0
) -> Array:
    """Lemma 1, eq. 41: θ2(r) = ∫y·ψ(‖v‖(y + r))·p_n(y) dy."""
    r, shape = as_floats("r", r), radial_density(density)
    slopes = homogeneous_slopes(derivative)
    if slopes is None:
        return _line_average(lambda y, psi: y * psi, r, shape, derivative, norm)
    below, above = slopes
    return np.asarray((above - below) * shape.tail_moment(r))


def theta_slopes(
    r: ArrayLike, density: str | RadialDensity = "gaussian", derivative: Derivative = RELU
) -> tuple[Array, Array]:
    """Lemma 5, eq. 61 corrected: dθ1/dr = (c₊ − c₋)·p_n(r) and dθ2/dr = −(c₊ − c₋)·r·p_n(r)."""
    below, above = required_slopes("Lemma 5", derivative)
    return _slopes(r, density, above - below)


def theta_slopes_printed(
    r: ArrayLike, density: str | RadialDensity = "gaussian", derivative: Derivative = RELU
) -> tuple[Array, Array]:
    """Lemma 5, eq. 61 as printed, with the sum c₋ + c₊ in place of the difference."""
    below, above = required_slopes("Lemma 5", derivative)
    return _slopes(r, density, above + below)


def stationary_function(
    r: ArrayLike, density: str | RadialDensity = "gaussian", derivative: Derivative = RELU
) -> Array:
    """Lemma 3, eq. 49: F(r) = θ2(r) + r·θ1(r) = θ2(0) + ∫₀^r θ1."""
    required_slopes("Lemma 3", derivative)
    r = as_floats("r", r)
    return np.asarray(theta2(r, density, derivative) + r * theta1(r, density, derivative))


def critical_function(y: ArrayLike, density: str | RadialDensity = "gaussian", derivative: Derivative = RELU) -> Array:
    """Lemma 4, eq. 57: G(y) = F(θ1⁻¹(y)); two points of its graph on one line through 0 make a critical point."""
    return stationary_function(theta1_inverse(y, density, derivative), density, derivative)


def theta1_inverse(y: ArrayLike, density: str | RadialDensity = "gaussian", derivative: Derivative = RELU) -> Array:
    """Lemma 4: the distance r at which θ1(r) = y, by bisection in asinh r and then Newton's method."""
    below, above = required_slopes("Lemma 4", derivative)
    y = as_floats("y", y)
    require(above > below, f"θ1 can be inverted only if it rises, which needs c₋ < c₊; got ({below:g}, {above:g}).")
    inside = bool(np.all((y > below) & (y < above)))
    require(inside, f"y must lie strictly between c₋ = {below:g} and c₊ = {above:g}, the limits of θ1.")
    low, high = np.full(y.shape, -100.0), np.full(y.shape, 100.0)
    for _ in range(26):
        middle = (low + high) / 2
        under = theta1(np.sinh(middle), density, derivative) < y
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    r, low, high = np.sinh((low + high) / 2), np.sinh(low), np.sinh(high)
    for _ in range(3):
        slope = theta_slopes(r, density, derivative)[0]
        step = (y - theta1(r, density, derivative)) / np.where(slope > 0, slope, np.inf)
        r = np.clip(r + step, low, high)
    return np.asarray(r)


def hyperplane_moments(
    mean: ArrayLike,
    v: ArrayLike,
    bias: float,
    density: str | RadialDensity = "gaussian",
    derivative: Derivative = RELU,
    *,
    basis: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Lemma 1, eq. 23 corrected: E[xψ(vᵀx + ξ)] = θ1(ρ)x̄ + θ2(ρ)·v̂ and E[ψ(vᵀx + ξ)] = θ1(ρ).

    x is isotropic about `mean` in the span of the orthonormal columns of `basis` (all of space by default), v̂ is
    the direction of v's part in it, and ρ = (vᵀx̄ + ξ)/‖that part‖ the distance of x̄ to the hyperplane.
    """
    mean, direction, r, length = _hyperplane(mean, v, bias, basis)
    first = theta1(r / length, density, derivative, norm=length)
    return first * mean + theta2(r / length, density, derivative, norm=length) * direction / length, first


def hyperplane_moments_printed(
    mean: ArrayLike,
    v: ArrayLike,
    bias: float,
    density: str | RadialDensity = "gaussian",
    derivative: Derivative = RELU,
    *,
    basis: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Lemma 1, eq. 23 as printed: θ1(r)/‖v‖·x̄ + θ2(r)/‖v‖³·RRᵀv and θ1(r)/‖v‖ at r = vᵀx̄ + ξ."""
    mean, direction, r, length = _hyperplane(mean, v, bias, basis)
    first = np.asarray(theta1(r, density, derivative) / length)
    return first * mean + theta2(r, density, derivative) / length**3 * direction, first


def uniform_attention_flow(
    v: ArrayLike,
    bias: float,
    means: ArrayLike,
    weights: ArrayLike,
    density: str | RadialDensity = "gaussian",
    derivative: Derivative = RELU,
    *,
    printed: bool = False,
) -> tuple[Array, float]:
    """Lemma 2, eq. 42 and 43: dv/dt and dξ/dt for a mixture with these means and a_j = E[g|j]·P[j] as weights.

    `printed` uses Lemma 1 as printed.
    """
    moments = hyperplane_moments_printed if printed else hyperplane_moments
    parts = [moments(mean, v, bias, density, derivative) for mean in as_floats("means", means)]
    a = as_floats("weights", weights)
    require(a.shape == (len(parts),), f"weights must have one number per mean ({len(parts)}); got {a.size}.")
    return a @ np.stack([x for x, _ in parts]), float(a @ np.stack([first for _, first in parts]))


_PROBES = np.geomspace(1e-6, 1e4, 2001)


def homogeneous_slopes(derivative: Derivative) -> tuple[float, float] | None:
    """(c₋, c₊) if φ′ is one constant below 0 and another above (by Lemma 5, φ is then homogeneous), else None."""
    if not callable(derivative):
        pair = isinstance(derivative, tuple | list) and len(derivative) == 2
        require(
            pair and all(isinstance(c, Real) and np.isfinite(c) for c in derivative),
            f"derivative must be φ′, a pair (c₋, c₊) of finite numbers or a function of arrays; got {derivative!r}.",
        )
        return float(derivative[0]), float(derivative[1])
    if isinstance(derivative, Kinked) and any(derivative.kinks):
        return None
    above, below = np.asarray(derivative(_PROBES)), np.asarray(derivative(-_PROBES))
    constant = np.ptp(above) <= 1e-12 and np.ptp(below) <= 1e-12
    return (float(below.flat[0]), float(above.flat[0])) if constant else None


def required_slopes(result: str, derivative: Derivative) -> tuple[float, float]:
    slopes = homogeneous_slopes(derivative)
    if slopes is not None:
        return slopes
    assert callable(derivative)
    one, two = derivative(np.array([1.0, 2.0]))
    raise InputError(
        f"{result} needs a homogeneous activation, φ(x) = φ′(x)·x, such as ReLU (0, 1) or leaky ReLU (0.1, 1); "
        f"this φ′ is {one:.4g} at 1 and {two:.4g} at 2."
    )


def _slopes(r: ArrayLike, density: str | RadialDensity, factor: float) -> tuple[Array, Array]:
    r = as_floats("r", r)
    first = np.asarray(factor * radial_density(density).marginal(r))
    return first, np.asarray(-r * first)


def _hyperplane(
    mean: ArrayLike, v: ArrayLike, bias: float, basis: ArrayLike | None
) -> tuple[Array, Array, float, float]:
    """The mean, v's part in the span, vᵀx̄ + ξ, and the length of that part."""
    mean, v = as_floats("mean", mean), as_floats("v", v)
    if basis is not None:
        R = as_floats("basis", basis)
        direction = R @ (R.T @ v)
    else:
        direction = v
    length = float(np.linalg.norm(direction))
    require(length > 0, "v must have a part in the span of the data; its length there is 0.")
    return mean, direction, float(v @ mean) + float(bias), length


def _line_average(
    value: Callable[[Array, Array], Array], r: Array, shape: RadialDensity, derivative: Derivative, norm: float
) -> Array:
    """∫value(y, ψ(norm·(y + r)))·p_n(y) dy for every r, cut where p_n or ψ may have a kink: at 0 and at −r.

    As a check it is computed again with more cuts, which changes nothing unless ψ has a kink that was not named.
    """
    assert callable(derivative)
    require_positive("norm", norm)
    kinks = derivative.kinks if isinstance(derivative, Kinked) else ()
    averages = np.empty(r.shape)
    for index, distance in np.ndenumerate(r):
        cuts = (0.0, *(u / norm - float(distance) for u in (0.0, *kinks)))
        sums = []
        for more in ((), (np.pi / 7, -float(distance) - np.e / 7)):
            y, weight = line_nodes((*cuts, *more), shape.support)
            sums.append(float((value(y, derivative(norm * (y + distance))) * shape.marginal(y) * weight).sum()))
        averages[index] = sums[0]
        require(
            abs(sums[1] - sums[0]) <= 1e-9 * (1 + abs(sums[0])),
            f"This φ′ cannot be integrated to 1e-9 ({sums[0]:.6g} or {sums[1]:.6g} at r = {distance:g}): it seems to "
            "jump or bend away from 0; name those points with Kinked(function, (u1, u2, …)).",
        )
    return averages
