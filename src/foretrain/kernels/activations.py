"""E[φ(u)φ(v)] for a centred Gaussian pair, in closed form: how an infinitely wide MLP layer transforms a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import require_known

Array = NDArray[np.float64]


@runtime_checkable
class KernelActivation(Protocol):
    """φ of an MLP layer, with the mean of φ(u)φ(v) over a Gaussian pair, which is the layer's kernel."""

    def __call__(self, t: Array) -> Array:
        """φ itself."""

    def expectation(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Array:
        """E[φ(u)φ(v)] for variances a, b and covariance c."""


@dataclass(frozen=True)
class Cosine:
    """φ(t) = cos(b1·t + b2)."""

    b1: float = 1.0
    b2: float = math.pi / 4

    def __call__(self, t: Array) -> Array:
        return np.cos(self.b1 * t + self.b2)

    def expectation(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Array:
        """Claim E.2: ½·e^{−b1²(a+b)/2}·(e^{−b1²c}·cos 2b2 + e^{b1²c})."""
        a, b, c = _arrays(a, b, c)
        k = self.b1**2
        turned, same = np.exp(-k * ((a + b) / 2 + c)), np.exp(-k * ((a + b) / 2 - c))
        return np.asarray((turned * math.cos(2 * self.b2) + same) / 2)


@dataclass(frozen=True)
class ReLU:
    """φ(t) = max(t, 0)."""

    def __call__(self, t: Array) -> Array:
        return np.maximum(t, 0.0)

    def expectation(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Array:
        """The arc-cosine kernel of order 1: (√(ab − c²) + c·(π − θ))/2π with cos θ = c/√(ab)."""
        a, b, c = _arrays(a, b, c)
        height = np.sqrt(np.maximum(a * b - c * c, 0.0))
        return np.asarray((height + c * (math.pi - np.arctan2(height, c))) / (2 * math.pi))

    def slope_expectation(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Array:
        """E[φ′(u)φ′(v)], the arc-cosine kernel of order 0: (π − θ)/2π."""
        a, b, c = _arrays(a, b, c)
        height = np.sqrt(np.maximum(a * b - c * c, 0.0))
        return np.asarray((math.pi - np.arctan2(height, c)) / (2 * math.pi))

    def mean(self, variance: ArrayLike) -> Array:
        """E[φ(u)]."""
        (a,) = _arrays(variance)
        return np.asarray(np.sqrt(a / (2 * math.pi)))


@dataclass(frozen=True)
class GELU:
    """φ(t) = t·Φ(t)."""

    def __call__(self, t: Array) -> Array:
        from scipy.special import ndtr

        return np.asarray(t * ndtr(t))

    def expectation(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Array:
        """From Stein's identity, applied twice. With d = (1+a)(1+b):

        c/4 + c·arcsin(c/√d)/2π + (ab + c²(1 − ab)/d) / (2π√(d − c²)).
        """
        a, b, c = _arrays(a, b, c)
        both, density, turn = self._parts(a, b, c)
        return np.asarray(c * both + (a * b + turn * c * c) * density)

    def slope_expectation(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Array:
        """E[φ′(u)φ′(v)]: by Price's theorem, the derivative of E[φ(u)φ(v)] with respect to c."""
        a, b, c = _arrays(a, b, c)
        both, density, turn = self._parts(a, b, c)
        rest = (1 + a) * (1 + b) - c * c
        return np.asarray(both + c * density * (1 + 2 * turn + (a * b + turn * c * c) / rest))

    def mean(self, variance: ArrayLike) -> Array:
        """E[φ(u)]."""
        (a,) = _arrays(variance)
        return np.asarray(a / np.sqrt(2 * math.pi * (1 + a)))

    @staticmethod
    def _parts(a: Array, b: Array, c: Array) -> tuple[Array, ...]:
        """E[Φ(u)Φ(v)], 1/(2π√(d − c²)) and (1 − ab)/d."""
        d = (1 + a) * (1 + b)
        both = 0.25 + np.arcsin(c / np.sqrt(d)) / (2 * math.pi)
        return _arrays(both, 1 / (2 * math.pi * np.sqrt(d - c * c)), (1 - a * b) / d)


ACTIVATIONS: dict[str, KernelActivation] = {"cosine": Cosine(), "relu": ReLU(), "gelu": GELU()}


def activation_named(activation: str | KernelActivation) -> KernelActivation:
    """An activation by its name, or the activation itself (such as `Cosine(b1, b2)`, for constants of your own)."""
    if isinstance(activation, str):
        require_known("activation", activation, ACTIVATIONS)
        return ACTIVATIONS[activation]
    return activation


def _arrays(*values: ArrayLike) -> tuple[Array, ...]:
    return tuple(np.asarray(v, dtype=np.float64) for v in values)
