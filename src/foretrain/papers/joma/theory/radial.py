"""Isotropic distributions: a density of the radius in n dimensions, and its marginal along a line.

Every quantity is one integral over the distance l from the line, where u = √(y² + l²) is the radius (eq. 34). It is
computed by the trapezoid rule in ln l on the half line, and by the tanh-sinh rule if the support ends. Both converge
exponentially for densities that are smooth inside their support; errors are near 1e-13 of the largest value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import inf, lgamma, log, pi

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from foretrain.core.errors import InputError, as_floats, require, require_known, require_positive, require_whole

Array = NDArray[np.float64]

_STEPS = np.arange(-3.2, 3.2, 1 / 32)
_UNIT_NODES = 1 / (1 + np.exp(-pi * np.sinh(_STEPS)))  # tanh-sinh on (0, 1)
_UNIT = _UNIT_NODES, pi / 32 * np.cosh(_STEPS) * _UNIT_NODES / (1 + np.exp(pi * np.sinh(_STEPS)))


def half_line_nodes(dimension: int = 1) -> tuple[Array, Array]:
    """Nodes and weights on (0, ∞), evenly spaced in ln l from 1e-15 to 1e47.

    With this spacing a Gaussian of any scale in between is exact up to rounding. l^n times a Gaussian is narrower in
    ln l, so the spacing shrinks with the dimension.
    """
    step = 0.14 / np.sqrt(1 + dimension / 6)
    distance = np.exp(np.arange(-35.0, 110.0, step))
    return distance, step * distance


@dataclass(frozen=True, eq=False)
class RadialDensity:
    """p(x) = density(‖x‖) on R^dimension, zero beyond the radius `support`; it must integrate to 1.

    `density` takes an array of radii, and must be smooth inside its support.
    """

    density: Callable[[Array], Array]
    dimension: int = 1
    support: float = inf
    name: str = "user"

    def __post_init__(self) -> None:
        n = self.dimension
        require_whole("dimension", n, 1)
        require(callable(self.density), f"density must be a function of an array of radii; got {self.density!r}.")
        require(self.support > 0, f"support must be a radius above 0; got {self.support}.")
        distance, weight = half_line_nodes(n) if self.support == inf else self._nodes(np.zeros(()))
        negative = np.min(self.density(distance))
        require(bool(negative >= 0), f"The radial density must not be negative; its smallest value is {negative:g}.")
        mass = 2 * self._half_sphere * self._weighted(distance, distance, n - 1) * weight
        total = float(mass.sum())
        require(
            bool(self.support < inf or not abs(2 * mass[::2].sum() - total) > 1e-5),
            "The radial density is too narrow a shell for nodes that are evenly spaced in the logarithm of the radius; "
            "widen it, or give its support.",
        )
        require(
            bool(np.isfinite(total)) and abs(total - 1) <= 1e-8,
            f"The radial density must integrate to 1 over R^{n}; it integrates to {total:.9g}; divide it by that.",
        )
        last = int(np.flatnonzero(mass > 0).max(initial=0))  # the density may underflow where it still adds to the mean
        left = float((distance * mass)[last])
        require(
            bool(self.support < inf or left <= 1e-13),
            "The radial density must have a finite mean, with a tail that falls faster than radius^−(dimension + 1.3) "
            f"and does not underflow first; there is still {left:.2g} of the mean at the radius {distance[last]:.0e}.",
        )

    def marginal(self, y: ArrayLike) -> Array:
        """Eq. 35: p_n(y), the density of one coordinate."""
        n, y = self.dimension, _size(y)
        if n == 1:
            return np.where(y <= self.support, self.density(y), 0.0)
        distance, weight = self._nodes(y)
        values = self._weighted(np.hypot(y[..., None], distance), distance, n - 2)
        return np.asarray((n - 1) * self._section * (values * weight).sum(axis=-1))

    def tail(self, y: ArrayLike) -> Array:
        """P[coordinate > y], by integrating over all radii the share of the sphere beyond y."""
        n, size = self.dimension, _size(y)
        distance, weight = self._nodes(size)
        u = np.hypot(size[..., None], distance)
        beyond = betainc((n - 1) / 2, 0.5, (distance / u) ** 2) if n > 1 else np.ones_like(u)
        upper = self._half_sphere * (self._weighted(u, u, n - 2) * distance * beyond * weight).sum(axis=-1)
        return np.where(np.asarray(y) >= 0, upper, 1 - upper)

    def tail_moment(self, y: ArrayLike) -> Array:
        """∫_y^∞ y′·p_n(y′) dy′, which is even in y."""
        y = _size(y)
        distance, weight = self._nodes(y)
        values = self._weighted(np.hypot(y[..., None], distance), distance, self.dimension)
        return np.asarray(self._section * (values * weight).sum(axis=-1))

    @property
    def _section(self) -> float:
        """Volume of the unit ball in one dimension less."""
        n = self.dimension
        return float(np.exp((n - 1) / 2 * log(pi) - lgamma((n + 1) / 2)))

    @property
    def _half_sphere(self) -> float:
        """Half the surface of the unit sphere."""
        n = self.dimension
        return float(np.exp(n / 2 * log(pi) - lgamma(n / 2)))

    def _nodes(self, y: Array) -> tuple[Array, Array]:
        """Distances l and their weights, on a new last axis; up to √(support² − y²) if the support ends."""
        if self.support == inf:
            return self._half_line
        reach = np.sqrt(np.clip(self.support**2 - y**2, 0, None))[..., None]
        return reach * _UNIT[0], reach * _UNIT[1]

    @cached_property
    def _half_line(self) -> tuple[Array, Array]:
        """The nodes that contribute to the density's mean."""
        distance, weight = half_line_nodes(self.dimension)
        moment = self._weighted(distance, distance, self.dimension) * weight
        count = int(np.flatnonzero(moment > 1e-18 * moment.sum()).max(initial=0)) + 1
        return distance[:count], weight[:count]

    def _weighted(self, radius: Array, base: Array, power: int) -> Array:
        """density(radius)·base^power, without overflow if one is tiny and the other huge."""
        density = np.asarray(self.density(radius), dtype=np.float64)
        with np.errstate(divide="ignore"):  # ln 0 = −inf is intended
            return np.exp(np.log(density) + power * np.log(np.where(base > 0, base, 1.0)))


def _size(y: ArrayLike) -> Array:
    return np.asarray(np.abs(as_floats("y", y)))


def line_nodes(cuts: tuple[float, ...], support: float = inf) -> tuple[Array, Array]:
    """Nodes and weights on (−support, support), cut at these points; the rule converges exponentially in each piece."""
    inner = sorted({float(np.clip(c, -support, support)) for c in cuts})
    pieces = [(a + (b - a) * _UNIT[0], (b - a) * _UNIT[1]) for a, b in pairwise(inner)]
    for end, sign in ((inner[0], -1), (inner[-1], 1)):
        reach = support - sign * end
        distance, weight = half_line_nodes() if support == inf else (reach * _UNIT[0], reach * _UNIT[1])
        pieces.append((end + sign * distance, weight))
    return np.concatenate([p for p, _ in pieces]), np.concatenate([w for _, w in pieces])


def _by_formula(
    density: Callable[[Array], Array], dimension: int, name: str, support: float = inf, instead: str = ""
) -> RadialDensity:
    """A density that integrates to 1 on paper. If its numbers underflow in many dimensions, the refusal says so."""
    try:
        with np.errstate(all="ignore"):
            return RadialDensity(density, dimension, support, name)
    except InputError as error:
        if dimension <= 2:
            raise
        raise InputError(
            f"{name} in {dimension} dimensions is beyond double precision, in which its density underflows where it "
            f"still counts; take fewer dimensions{instead}."
        ) from error


def gaussian(dimension: int = 1, scale: float = 1.0) -> RadialDensity:
    """Every coordinate is normal with standard deviation `scale`."""
    require_positive("scale", scale)
    return gaussian_mixture(dimension, (scale,), (1.0,), name="gaussian")


def gaussian_mixture(
    dimension: int = 1,
    scales: tuple[float, ...] = (1.0, 10.0),
    weights: tuple[float, ...] = (0.5, 0.5),
    name: str = "gaussian_mixture",
) -> RadialDensity:
    """A normal distribution whose standard deviation is drawn from `scales`: heavier tails, but all moments exist."""
    require_whole("dimension", dimension, 1)
    require(len(scales) == len(weights) >= 1, "scales and weights must be lists of one length, at least 1.")
    for scale in scales:
        require_positive("scales", scale)

    def density(u: Array) -> Array:
        parts = (
            w / (s * np.sqrt(2 * pi)) ** dimension * np.exp(-0.5 * (u / s) ** 2)
            for s, w in zip(scales, weights, strict=True)
        )
        return np.asarray(sum(parts))

    return _by_formula(density, dimension, name)


def uniform_ball(dimension: int = 1, radius: float = 1.0) -> RadialDensity:
    """Uniform in the ball of this radius."""
    require_whole("dimension", dimension, 1)
    require_positive("radius", radius)
    volume = np.exp(dimension / 2 * log(pi) - lgamma(dimension / 2 + 1)) * radius**dimension
    return _by_formula(lambda u: np.full_like(u, 1 / volume), dimension, "uniform_ball", radius)


def student_t(dimension: int = 1, freedom: float = 3.0) -> RadialDensity:
    """The multivariate t distribution: every coordinate has a t distribution with this many degrees of freedom.

    Above 1 it has a mean. Below about 1.3 it is refused, because its tail is too heavy to be integrated to 1e-10.
    """
    require_whole("dimension", dimension, 1)
    require_positive("freedom", freedom)
    n, nu = dimension, freedom
    log_constant = lgamma((nu + n) / 2) - lgamma(nu / 2) - n / 2 * log(nu * pi)
    return _by_formula(
        lambda u: np.exp(log_constant - (nu + n) / 2 * np.log1p(u * u / nu)),
        n,
        "student_t",
        instead=f", or more than {nu:g} degrees of freedom",
    )


def laplace(dimension: int = 1) -> RadialDensity:
    """The density falls as e^{−radius}; one-dimensional, it is the Laplace distribution."""
    require_whole("dimension", dimension, 1)
    log_surface = log(2) + dimension / 2 * log(pi) - lgamma(dimension / 2)
    return _by_formula(lambda u: np.exp(-u - log_surface - lgamma(dimension)), dimension, "laplace")


DENSITIES: dict[str, Callable[..., RadialDensity]] = {
    "gaussian": gaussian,
    "uniform_ball": uniform_ball,
    "student_t": student_t,
    "laplace": laplace,
    "gaussian_mixture": gaussian_mixture,
}


def radial_density(density: str | RadialDensity, dimension: int = 1) -> RadialDensity:
    """A named density in this dimension, or the given density unchanged."""
    if isinstance(density, RadialDensity):
        return density
    if not isinstance(density, str):
        raise InputError(
            f"density must be a name ({', '.join(DENSITIES)}) or a RadialDensity; got {density!r}; turn a function "
            "of the radius into one with RadialDensity(function, dimension)."
        )
    require_known("radial density", density, DENSITIES)
    return _named(density, dimension)


@cache
def _named(name: str, dimension: int) -> RadialDensity:
    return DENSITIES[name](dimension)
