"""What training does to attention: eq. 7 and 94 in as few numbers as they need, for classes that share one query.

Time counts steps on the loss averaged over the classes, which is also what a step on one drawn sample, or on the mean
of a batch, does on average at a given position. That drawn samples make the position wander is `sampling`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.decoder import Array, within
from foretrain.papers.scan_snap.theory.reduction import Reduced, reduced
from foretrain.papers.scan_snap.theory.sampling import logit_moments

RTOL, ATOL = 1e-9, 1e-12


def predicted_logits(
    probabilities: ArrayLike, *, eta_y: float, eta_z: float, times: ArrayLike, batch: int | None = None
) -> Array:
    """Eq. 7 and 94 together: the attention logits z that training gives, [time, token].

    probabilities  P(token | class), [class, token]: one column for each of the M tokens, those that never occur too
    times          steps of gradient descent on the loss averaged over the classes, from Y = 0 and Z = 0
    batch          samples per step, of classes drawn at random; None if every class is in every step equally often

    Exact for infinitely long sequences, equally frequent classes and small steps, whatever the overlaps and whatever
    the ratio of the rates. What it leaves out: that steps have a length, and that sequences and batches are finite.
    With `batch` it is the mean over runs, with the length of the steps and, to second order, the drift that drawn
    classes add: a result of ours, see `logit_moments`. `applies` says whether second order is enough.
    """
    if batch is not None:
        return logit_moments(probabilities, eta_y=eta_y, eta_z=eta_z, times=times, batch=batch)[0]
    task = reduced(probabilities, times)
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
    task = reduced(probabilities, times)

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


def _solve(task: Reduced, decoder: Array, velocity: Velocity, eta_y: float, eta_z: float) -> Array:
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
