"""Label scores under a constant tangent kernel: their flow, integrated step by step, and where its bias settles.

The score of a token is the network's output on that token by itself. An additive kernel (ρ, β) is ρ·1[e = e′] + β.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike
from scipy.special import expit, softmax

from foretrain.core.errors import as_floats, require, require_positive, require_whole

Array: TypeAlias = Any  # float64: an array, or a number where numbers went in


def residual(target: Array, outputs: Array, loss: str = "") -> Array:
    """Minus the derivative of the loss with respect to the outputs.

    It is y·σ(−y·s) for labels ±1, 1[y = k] − p_k for one-hot rows, and y − s for squared loss.
    """
    require(
        loss in ("", "squared"), f"loss must be 'squared', or empty for the loss that fits the labels; got {loss!r}."
    )
    if loss == "squared":
        return target - outputs
    if target.ndim == 1:
        return target * expit(-target * outputs)
    return target - softmax(outputs, axis=1)


def kernel_descent(kernel: ArrayLike, cross: ArrayLike, pull: ArrayLike, *, rate: float, steps: int) -> Array:
    """Outputs after gradient descent on the mean cross-entropy under a constant kernel, from outputs 0.

    `kernel` is Θ between training texts, `cross` is Θ between the texts asked about and the training texts. `pull` has
    one row per text: its label ±1 for one logistic output, or a one-hot row for a softmax over classes.
    """
    kernel, cross = as_floats("kernel", kernel), as_floats("cross", cross)
    target = as_floats("pull", pull)
    require_positive("rate", rate)
    require_whole("steps", steps, 0)
    outputs, asked = np.zeros_like(target), np.zeros((len(cross), *target.shape[1:]))
    for _ in range(steps):
        force = residual(target, outputs) * (rate / len(target))
        asked = asked + cross @ force
        outputs = outputs + kernel @ force
    return asked


def fastest(counts: Any, kernel: tuple[float, float] = (1.0, 0.0), slope: float = 0.25) -> float:
    """The rate of the fastest direction of the flow of label scores, by power iteration.

    It is the largest eigenvalue of Θ/n times the steepest slope of the residual, which is 1/4 for a sigmoid.
    """
    probe = np.ones(counts.shape[0])
    by_token = counts.T
    for _ in range(8):
        probe = counts @ _spread(by_token, probe / np.linalg.norm(probe), kernel)
    return float(np.linalg.norm(probe) * slope)


def label_scores(
    counts: Any, labels: ArrayLike, kernel: tuple[float, float], time: float, *, loss: str = "", steps: int = 40
) -> Array:
    """Label scores of every token at `time` of the flow of an additive kernel (ρ, β), ρ·1[e = e′] + β (mean loss).

    `counts` [text, vocab] may be sparse. `labels` are ±1 per text (logistic loss), or a row of class shares per text,
    usually one-hot (softmax); with `loss` = "squared" they are any numbers. The method is Runge-Kutta-Chebyshev of
    second order with `steps` steps, each with as many stages as it needs to be stable. If a large bias makes the flow
    stiff, the first steps are shorter.
    """
    target = _checked(labels, counts.shape[0], loss)
    require(np.isfinite(time) and time >= 0, f"time must be a finite number of at least 0; got {time}.")
    scores = np.zeros((counts.shape[1], *target.shape[1:]))
    slope = 1.0 if loss == "squared" else _steepest(target)
    rate = 1.1 * fastest(counts, kernel, slope)
    by_token = counts.T.tocsr() if hasattr(counts, "tocsr") else counts.T  # so that products read memory in order

    def velocity(at: Array) -> Array:
        return _spread(by_token, residual(target, counts @ at, loss), kernel)

    for step in np.diff(_moments(time, steps, rate)):
        stages = max(2, int(np.ceil(np.sqrt(1 + step * rate / 0.65))))
        scores = chebyshev_step(velocity, scores, step, stages)
    return scores


def _checked(labels: ArrayLike, texts: int, loss: str) -> Array:
    target = as_floats("labels", labels)
    require(
        target.ndim in (1, 2) and len(target) == texts,
        f"There must be one label per text, or one row of them; got {target.shape} for {texts} texts.",
    )
    if loss != "squared" and target.ndim == 1:
        require(bool((abs(target) == 1).all()), "labels of two classes must be −1 and +1; give 2·labels − 1.")
    elif loss != "squared":
        shares = (target >= 0).all() and np.allclose(target.sum(1), 1)  # a text may belong to several classes in part
        require(
            bool(shares),
            "labels of several classes must be rows with a single 1, or with shares that sum to 1; "
            "give np.eye(classes)[labels].",
        )
    return target


def early_scores(counts: Any, labels: ArrayLike, kernel: tuple[float, float]) -> Array:
    """Label scores at the time in which the fastest direction of the flow relaxes.

    This is past the first step, and before the other directions settle.
    """
    return label_scores(counts, labels, kernel, 1 / fastest(counts, kernel, _steepest(labels)))


def _steepest(labels: ArrayLike) -> float:
    """The steepest slope of a sigmoid, or of a softmax if labels are one-hot rows."""
    return 0.25 * np.ndim(labels)


def _moments(time: float, steps: int, rate: float) -> Array:
    """Times from 0 on, evenly spaced, or in growing steps if an even step is too long for the fastest direction."""
    crowded = time * rate / steps
    if crowded <= 1:
        return np.linspace(0, time, steps + 1)
    growth = crowded + 1
    for _ in range(100):  # (e^g − 1)/g = crowded
        growth = np.log1p(growth * crowded)
    return time * np.expm1(growth * np.linspace(0, 1, steps + 1)) / np.expm1(growth)


def _spread(by_token: Any, force: Array, kernel: tuple[float, float]) -> Array:
    """K Xᵀ force/n with K = ρI + β11ᵀ."""
    own, shared = kernel
    moved = by_token @ force / len(force)
    return own * moved + shared * moved.sum(axis=0)


class FastDirection(NamedTuple):
    """The fastest direction of a velocity with slope −J: J·right = rate·right, leftᵀJ = rate·leftᵀ, leftᵀ·right = 1."""

    rate: float
    right: Array
    left: Array


def chebyshev_step(
    velocity: Callable[[Array], Array],
    start: Array,
    step: float,
    stages: int,
    fast: Callable[[Array], FastDirection] | None = None,
) -> Array:
    """One step of RKC, the method of Sommeijer, Shampine and Verwer: stable for rates up to .65(stages² − 1)/step.

    `fast` takes the velocity at the start and gives the fastest direction there. That one is then implicit, as in the
    IMEX method of Verwer and Sommeijer, and the bound is on all others: fewer stages where one direction is far faster.
    The method is of second order; of first order in an implicit direction.
    """
    damped, stretch, value, b = _chebyshev_weights(stages, fast is not None)
    first = b[1] * stretch * step
    begun = velocity(start)
    rate, right, left = fast(begun) if fast else (0.0, np.zeros(1), np.zeros(1))

    def damp(explicit: Array) -> tuple[Array, float]:
        """Solve y = explicit + first·F(y), where F(y) = −rate·right·moved; also how far y has moved along `right`."""
        if not fast:
            return explicit, 0.0
        moved = float(np.vdot(left, explicit - start)) / (1 + first * rate)
        return explicit - first * rate * moved * right, moved

    before, moved_before = start, 0.0
    now, moved = damp(start + first * begun)
    for j in range(2, stages + 1):
        mu, nu, gain = 2 * b[j] * damped / b[j - 1], -b[j] / b[j - 2], 2 * b[j] * stretch / b[j - 1]
        drag = -(1 - b[j - 1] * value[j - 1]) * gain
        explicit = (1 - mu - nu) * start + mu * now + nu * before + step * (gain * velocity(now) + drag * begun)
        if fast:
            explicit += rate * (step * gain * moved + nu * first * moved_before) * right
        before, moved_before = now, moved
        now, moved = damp(explicit)
    return now


@cache
def _chebyshev_weights(stages: int, implicit: bool) -> tuple[float, float, list[float], list[float]]:
    """w₀, w₁, T_j(w₀) and b_j of the method; b₁ is free, and 1/w₀ where a direction is implicit."""
    damped = 1 + 2 / 13 / stages**2
    value, slope, bend = ([float(Chebyshev.basis(j).deriv(k)(damped)) for j in range(stages + 1)] for k in (0, 1, 2))
    stretch = slope[stages] / bend[stages]
    b = [bend[j] / slope[j] ** 2 for j in range(2, stages + 1)]
    b = [b[0], 1 / damped if implicit else b[0], *b]
    return damped, stretch, value, b


def predicted_bias(scores: ArrayLike, kernel: tuple[float, float]) -> Array:
    """The score of a token that never occurs, from the scores of all others along the flow: β·Σ_e s(e)/(ρ + βV).

    s(e) = ρA(e) + βΣ_e′A(e′), where A is the accumulated pull, which is 0 for a token that never occurs.
    """
    own, shared = kernel
    scores = as_floats("scores", scores)
    return shared * scores.sum(axis=0) / (own + shared * len(scores))


def bias_plateau(class_counts: ArrayLike, length: float, repeats: float, kernel: tuple[float, float]) -> Array:
    """Where the bias settles if tokens say nothing about the class: its part of ln(n_k) minus the mean over classes.

    All texts then get the scores s_k that fit the class sizes, s_k − s_l = ln(n_k/n_l). Tokens of frequency p(e) carry
    ρA·T·Σp² of this by themselves, and the bias b = βA carries bT, so b = s/(T(1 + (ρ/β)Σp²)). `length` is T, and
    `repeats` is Σ_e p(e)², the chance that two tokens are the same. The result has one number per class; for two
    classes their difference is the bias of a single output.
    """
    own, shared = kernel
    wanted = np.log(as_floats("class_counts", class_counts))
    require(bool(np.all(np.isfinite(wanted))), "every class must have texts.")
    return (wanted - wanted.mean()) / length * (shared / (shared + own * repeats))
