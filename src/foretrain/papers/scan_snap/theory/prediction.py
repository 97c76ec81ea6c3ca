"""What training does to attention: eq. 7 and 94 in as few numbers as they need, for classes that share one query.

Time counts steps on the loss averaged over the classes, which is also what a step on one drawn sample, or on the mean
of a batch, does on average. Two things make the flow small, and neither is an approximation. Tokens that are no class's
next token all have the same column of the decoder Y, so K + 1 columns stand for all M. Tokens with the same
probabilities in every class have the same row of Y and the same logit, so one row stands for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.decoder import Array, within

RTOL, ATOL = 1e-9, 1e-12


def predicted_logits(probabilities: ArrayLike, *, eta_y: float, eta_z: float, times: ArrayLike) -> Array:
    """Eq. 7 and 94 together: the attention logits z that training gives, [time, token].

    probabilities  P(token | class), [class, token]: one column for each of the M tokens, those that never occur too
    times          steps of gradient descent on the loss averaged over the classes, from Y = 0 and Z = 0

    Exact for infinitely long sequences, equally frequent classes and small steps, whatever the overlaps and whatever
    the ratio of the rates. What it leaves out: that steps have a length, and that sequences and batches are finite.
    """
    task = _reduced(probabilities, times)
    rows = len(task.weight)

    def velocity(decoder: Array, f: Array) -> tuple[Array, Array]:
        error = task.error((task.weight * f) @ decoder)
        return f.T @ task.per_label(error), error @ decoder.T

    return _solve(task, np.zeros((rows, task.labels)), velocity, eta_y, eta_z)


def predicted_logits_adiabatic(probabilities: ArrayLike, *, eta_y: float, eta_z: float, times: ArrayLike) -> Array:
    """Eq. 7 and 94 if the decoder forgot the attention it was trained with (Assumption 1c): z, [time, token].

    Y = Σ_n f_n·a_nᵀ with the features f_n of the moment, so that only the a_n [class, label] need to be followed. With
    equal overlaps a_n has three values: at its own label, at the other labels and at all remaining tokens.
    """
    task = _reduced(probabilities, times)

    def velocity(decoder: Array, f: Array) -> tuple[Array, Array]:
        error = task.error((task.weight * f) @ f.T @ decoder)
        return task.per_label(error), error @ decoder.T @ f

    return _solve(task, np.zeros((len(task.columns), task.labels)), velocity, eta_y, eta_z)


def snap_of_curve(times: ArrayLike, values: ArrayLike) -> Array:
    """When a growing curve snaps, read off the curve alone: the first time at which d ln(value)/d ln(time) < 1.

    `values` are [..., time], positive and at increasing times above 0. While attention scans, |z| grows like t² and the
    slope is 2; once it has snapped, z is logarithmic and the slope falls to 0. nan where the slope stays at 1 or above.
    """
    times, values = as_floats("times", times), as_floats("values", values)
    require(times.ndim == 1 and len(times) >= 3, f"times must be a list of at least 3 times; got {times.shape}.")
    require(bool(times[0] > 0 and np.all(np.diff(times) > 0)), "times must be above 0 and increase.")
    require(bool(np.all(values > 0)), f"values must be above 0; the smallest is {values.min():g}.")
    slope = np.gradient(np.log(values), np.log(times), axis=-1)
    below = slope < 1
    after = np.maximum(below.argmax(axis=-1), 1)[..., None]
    s0, s1 = (np.take_along_axis(slope, after - back, axis=-1)[..., 0] for back in (1, 0))
    t0, t1 = (np.log(times)[after[..., 0] - back] for back in (1, 0))
    crossing = np.exp(t0 + (t1 - t0) * (s0 - 1) / np.where(s0 == s1, 1.0, s0 - s1))
    crossing = np.where(below[..., 0], times[0], crossing)
    return np.where(below.any(axis=-1), crossing, np.nan)


Velocity = Callable[[Array, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class _Reduced:
    """Tokens that behave alike are one column of `columns`; the labels are the K classes and, as one, all the rest."""

    columns: Array  # P(token | class) of each kind of token, [class, kind]
    weight: Array  # how many tokens are of each kind
    kind: NDArray[np.int64]  # the kind of each token that occurs
    occurs: NDArray[np.bool_]  # which tokens occur
    rest: int  # M − K tokens that are no class's next token
    times: Array
    tokens: int

    @property
    def labels(self) -> int:
        return len(self.columns) + (self.rest > 0)

    def error(self, outputs: Array) -> Array:
        """e_n − α_n, summed over the remaining tokens in the last column."""
        many = np.ones(self.labels)
        many[len(self.columns) :] = self.rest
        return np.eye(*outputs.shape) - softmax(outputs + np.log(many), axis=1)

    def per_label(self, error: Array) -> Array:
        """The same for one remaining token."""
        each = error.copy()
        each[:, len(self.columns) :] /= max(self.rest, 1)
        return each


def _reduced(probabilities: ArrayLike, times: ArrayLike) -> _Reduced:
    P = as_floats("probabilities", probabilities)
    require(P.ndim == 2, f"probabilities must be [class, token]; got {P.ndim} axes.")
    classes, tokens = P.shape
    require(
        bool(np.all(P >= 0) and np.allclose(P.sum(axis=1), 1)), "Every row of probabilities must be ≥ 0 and sum to 1."
    )
    require(
        classes <= tokens,
        f"{classes} classes need at least as many tokens, as each has a next token of its own; got {tokens} columns.",
    )
    at = np.atleast_1d(within("times must be finite and at least 0", times, 0.0))
    require(at.ndim == 1, "times must be one number or a list of numbers.")
    occurs = np.asarray(P.any(axis=0))
    columns, kind = np.unique(P[:, occurs], axis=1, return_inverse=True)
    kind = kind.reshape(-1).astype(np.int64)
    weight = np.bincount(kind).astype(np.float64)
    return _Reduced(columns, weight, kind, occurs, tokens - classes, at, tokens)


def _solve(task: _Reduced, decoder: Array, velocity: Velocity, eta_y: float, eta_z: float) -> Array:
    from scipy.integrate import solve_ivp  # 0.2 s to load, and only predictions integrate

    for name, rate in (("eta_y", eta_y), ("eta_z", eta_z)):
        within(f"{name} must be a finite number above 0", rate, np.nextafter(0, 1))
    classes, size = len(task.columns), decoder.size

    def field(_: float, state: Array) -> Array:
        z = state[size:]
        c = task.columns * np.exp(z - z.max())
        f = c / np.sqrt((task.weight * c * c).sum(axis=1, keepdims=True))
        pull, g = velocity(state[:size].reshape(decoder.shape), f)
        z_pull = f * (g - f * (task.weight * f * g).sum(axis=1, keepdims=True))
        return np.concatenate([eta_y / classes * pull.ravel(), eta_z / classes * z_pull.sum(axis=0)])

    at, place = np.unique(task.times, return_inverse=True)
    start = np.concatenate([decoder.ravel(), np.zeros(len(task.weight))])
    moved = np.zeros((len(at), len(task.weight)))
    if at[-1] > 0:
        span = (0.0, float(at[-1]))
        solved = solve_ivp(field, span, start, method="DOP853", t_eval=at, rtol=RTOL, atol=ATOL)
        require(bool(solved.success), f"The flow could not be followed to time {at[-1]:g}: {solved.message}")
        moved = solved.y[size:].T
    z = np.zeros((len(task.times), task.tokens))
    z[:, task.occurs] = moved[place.reshape(-1)][:, task.kind]
    return z
