"""What drawn samples do to attention: mean and covariance of decoder and logits, step by step. Ours, not the paper's.

A step on a batch of B samples moves x = (Y, z) by the mean of v_n(x) over the classes n it draws, with v_n the step on
class n. The flow knows the mean v = (1/K)·Σ_n v_n at the mean position only. To second order in the noise,

    m ← m + v(m) + ½ v″(m):S
    S ← (1 + A)·S·(1 + A)ᵀ + [cov_n(v_n) + mean_n (A_n − A)·S·(A_n − A)ᵀ]/B,    A_n = v_n′(m),  A = v′(m).

The term ½v″:S is the drift that noise adds to the mean: drawn classes make x wander, and v is curved. The last term is
noise that grows with what it has done before. Where it wins, attention runs away: in the mean square, steps overshoot.

If all classes are alike, m does not change when classes change places, and S is the same in each of the K − 1
directions in which they can differ. So one block of S stands for all of these, and one for what they do together: 11 by
11 each for a common and two distinct tokens, and any K and M. (What this leaves out is what pairs of classes do. They
only get noise that has grown from noise; that changed z by 10⁻⁵ of itself where we compared.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import InputError, require
from foretrain.papers.scan_snap.theory.decoder import Array, within
from foretrain.papers.scan_snap.theory.reduction import Reduced, reduced

NUDGE = 1e-3  # of finite differences: third derivatives add 1e-6, rounding 1e-9 of a step
EQUAL = 1e-9  # two probabilities that differ by less are the same
SINGLE_STEPS = 500  # up to here each step is followed, later t/500 steps at once: as t0 ~ 10·K/η_Y, these are short
MOST_SPREAD = 10.0  # standard deviation of a logit; beyond, weights differ by a factor of 20 000 from run to run
LONGEST = 0.5  # of steps followed at once, in η_Z/K, so that attention's own relaxation stays resolved
MOST_NUMBERS = 300  # of decoder and logits, if no symmetry of the classes helps; the time is cubic in it


def logit_moments(
    probabilities: ArrayLike, *, eta_y: float, eta_z: float, times: ArrayLike, batch: float
) -> tuple[Array, Array]:
    """Mean and standard deviation over runs of the logits z after SGD on drawn samples: each is [time, token].

    probabilities  P(token | class), [class, token]: one column for each of the M tokens, those that never occur too
    times          steps on a batch, from Y = 0 and Z = 0
    batch          samples per step, of classes drawn at random; `math.inf` leaves only the length of the steps

    A result of ours, to second order in the noise: see the top of this module. Sequences are infinitely long. It holds
    to about 10 % as long as noise adds at most 30 % to the mean, which `applies` measures.
    """
    for name, rate in (("eta_y", eta_y), ("eta_z", eta_z)):
        within(f"{name} must be a finite number above 0", rate, np.nextafter(0, 1))
    require(batch >= 1, f"batch must be at least 1; got {batch!r}.")
    task = reduced(probabilities, times)
    at, mean, spread = _followed(task, eta_y, eta_z, float(batch))
    z, deviation = np.zeros((2, len(task.times), task.tokens))
    for place, token in enumerate(np.flatnonzero(task.occurs)):
        z[:, token] = np.interp(task.times, at, mean[:, task.kind[place]])
        deviation[:, token] = np.interp(task.times, at, spread[:, task.kind[place]])
    return z, deviation


def noise_excess(probabilities: ArrayLike, *, eta_y: float, eta_z: float, times: ArrayLike, batch: float) -> float:
    """How much noise adds to the logit of the token that gains most, or of the one that loses most, as a share of it.

    The most of all times is given; inf if the logits run away.
    """
    try:
        quiet, noisy = (
            logit_moments(probabilities, eta_y=eta_y, eta_z=eta_z, times=times, batch=samples)[0]
            for samples in (np.inf, batch)
        )
    except RunsAway:
        return float("inf")
    ends = np.stack([quiet.argmax(axis=1), quiet.argmin(axis=1)], axis=1)
    before, after = (np.take_along_axis(z, ends, axis=1) for z in (quiet, noisy))
    moved = before != 0
    return float((abs(after - before)[moved] / abs(before[moved])).max(initial=0.0))


def can_follow(probabilities: ArrayLike) -> bool:
    """Whether the task is small or symmetric enough for its moments."""
    task = reduced(probabilities, 0.0)
    return _orbits(task) is not None or _numbers(task) <= MOST_NUMBERS


class RunsAway(InputError):
    """The logits differ so much from run to run that their mean says nothing."""


Copies = tuple[tuple[Array, float], ...]


@dataclass(frozen=True)
class _Frame:
    """Coordinates of the mean, and of the blocks of S: matrices with orthonormal columns, [number, coordinate].

    A block stands for as many equal ones as the weights of its copies sum to. The copies are what they look like from
    the class whose steps are evaluated: that class against the mean of all, and other classes against each other.
    """

    mean: Array
    blocks: tuple[Copies, ...]
    classes: slice  # those whose steps are evaluated


def _followed(task: Reduced, eta_y: float, eta_z: float, batch: float) -> tuple[Array, Array, Array]:
    """Times, and mean and standard deviation of the logit of each kind of token then."""
    frame, K, last = _frame(task), len(task.columns), float(task.times.max())
    kinds = len(task.weight)
    m, S = np.zeros(frame.mean.shape[1]), [np.zeros((copies[0][0].shape[1],) * 2) for copies in frame.blocks]
    now, at, means, spreads = 0, [0.0], [np.zeros(kinds)], [np.zeros(kinds)]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while now < last:
            several = max(1, int(min(now / SINGLE_STEPS, LONGEST * K / eta_z)))
            m, S = _stepped(task, frame, m, S, rates=(several * eta_y, several * eta_z), batch=several * batch)
            now += several
            if np.isfinite(m).all() and all(np.isfinite(block).all() for block in S):
                at.append(now)
                means.append((frame.mean @ m)[-kinds:])
                spreads.append(np.sqrt(_variance(frame, S)[-kinds:]))
            else:
                spreads[-1] = np.full(kinds, np.inf)
            if spreads[-1].max() > MOST_SPREAD:
                raise RunsAway(
                    f"With {batch:g} samples per step attention has run away by step {now}, so its mean says nothing; "
                    "take a larger batch or a smaller eta_z, and ask `applies` first."
                )
    return np.array(at), np.array(means), np.array(spreads)


def _variance(frame: _Frame, S: list[Array]) -> Array:
    """That of each number, averaged over those that are alike."""
    variance = np.zeros(len(frame.mean))
    for copies, block in zip(frame.blocks, S, strict=True):
        U = copies[0][0]
        variance += _number(copies) * ((U @ block) * U).sum(axis=1)
    return np.asarray(np.maximum(frame.mean @ (frame.mean.T @ variance), 0.0))


def _number(copies: Copies) -> float:
    return sum(weight for _, weight in copies)


def _stepped(
    task: Reduced, frame: _Frame, m: Array, S: list[Array], *, rates: tuple[float, float], batch: float
) -> tuple[Array, list[Array]]:
    """Mean and covariance after a step."""
    x = frame.mean @ m
    at_mean = _class_steps(task, x, frame.classes, rates)  # [class, number]
    step = frame.mean.T @ at_mean.mean(axis=0)
    apart = at_mean - frame.mean @ step
    after = [
        np.sum([_square(apart @ U) for U, _ in copies], axis=0) / _number(copies) / batch for copies in frame.blocks
    ]
    axes = [_axes(block) for block in S]
    nudges = [directions @ U.T for (directions, _), copies in zip(axes, frame.blocks, strict=True) for U, _ in copies]
    if not any(map(len, nudges)):
        return m + step, after
    ends = np.cumsum([len(each) for each in nudges])[:-1]
    nudged = NUDGE * np.concatenate(nudges)
    above, below = (_class_steps(task, x + sign * nudged, frame.classes, rates) for sign in (1, -1))
    slopes = iter(np.split((above - below) / (2 * NUDGE), ends))  # per copy: [direction, class, number]
    bends = iter(np.split(((above + below - 2 * at_mean) / NUDGE**2).mean(axis=1), ends))
    for index, ((directions, size), copies) in enumerate(zip(axes, frame.blocks, strict=True)):
        steepness = [next(slopes) for _ in copies]
        along = [weight * (slope @ U).mean(axis=1) for (U, weight), slope in zip(copies, steepness, strict=True)]
        A = np.sum(along, axis=0) / _number(copies)
        moved = (directions + A) * np.sqrt(size)[:, None]
        after[index] = after[index] + moved.T @ moved
        for copy, ((_, weight), slope) in enumerate(zip(copies, steepness, strict=True)):
            step = step + weight / 2 * frame.mean.T @ (size @ next(bends))
            for target, into in enumerate(frame.blocks):
                for to, (U, _) in enumerate(into):
                    across = slope @ U - (A[:, None] if (target, to) == (index, copy) else 0.0)
                    grown = _square(across * np.sqrt(size)[:, None, None]) * size.size
                    after[target] = after[target] + weight / _number(into) / batch * grown
    return m + step, after


def _axes(block: Array) -> tuple[Array, Array]:
    """Directions of a covariance in which there is noise, and its variance in them."""
    size, directions = np.linalg.eigh(block)
    kept = size > EQUAL * size[-1]
    return directions[:, kept].T, size[kept]


def _square(apart: Array) -> Array:
    """Mean of the outer products of the last axis with itself over all others."""
    flat = apart.reshape(-1, apart.shape[-1])
    return flat.T @ flat / max(len(flat), 1)


def _class_steps(task: Reduced, x: Array, classes: slice, rates: tuple[float, float]) -> Array:
    """v_n: what a step on class n adds to decoder and logits, [..., class, number]."""
    kinds = len(task.weight)
    Y, z = x[..., : kinds * task.labels].reshape(*x.shape[:-1], kinds, task.labels), x[..., kinds * task.labels :]
    c = task.columns[classes] * np.exp(z - z.max(axis=-1, keepdims=True))[..., None, :]
    f = c / np.sqrt((task.weight * c * c).sum(axis=-1, keepdims=True))
    error = task.error((task.weight * f) @ Y, classes)
    g = error @ np.swapaxes(Y, -1, -2)
    z_step = f * (g - f * (task.weight * f * g).sum(axis=-1, keepdims=True))
    Y_step = f[..., :, None] * task.per_label(error)[..., None, :]
    return np.concatenate([rates[0] * Y_step.reshape(*f.shape[:-1], -1), rates[1] * z_step], axis=-1)


def _numbers(task: Reduced) -> int:
    return len(task.weight) * (task.labels + 1)


def _frame(task: Reduced) -> _Frame:
    K, orbits = len(task.columns), _orbits(task)
    if orbits is None:
        require(
            _numbers(task) <= MOST_NUMBERS,
            f"Samples of classes that are not alike can be followed for up to {MOST_NUMBERS} numbers in decoder and "
            f"logits; here there are {_numbers(task)}. Take fewer classes or tokens, or batch=None for the flow.",
        )
        whole = np.eye(_numbers(task))
        return _Frame(whole, (((whole, 1.0),),), slice(None))
    itself, others = np.eye(K)[0] - 1 / K, np.eye(K)[1] - np.eye(K)[2]
    apart = ((_embedded(task, orbits, itself), 1.0), (_embedded(task, orbits, others), K - 2.0))
    together = _embedded(task, orbits, np.ones(K))
    return _Frame(together, (apart, ((together, 1.0),)), slice(0, 1))


Orbits = tuple[
    list[int], list[NDArray[np.int64]]
]  # kinds that are common to all classes; for the others, one per class


def _orbits(task: Reduced) -> Orbits | None:
    """Which kinds of tokens change places when classes do; None if the classes are not alike, or only two."""
    K = len(task.columns)
    common: list[int] = []
    distinct: dict[tuple[float, ...], dict[int, int]] = {}
    for kind, column in enumerate(task.columns.T):
        if np.ptp(column) <= EQUAL:
            common.append(kind)
            continue
        special = int(abs(column - np.median(column)).argmax())
        others = np.delete(column, special)
        if np.ptp(others) > EQUAL:
            return None
        name = tuple(np.round((column[special], others[0], task.weight[kind]), 9).tolist())
        distinct.setdefault(name, {})[special] = kind
    if K < 3 or any(len(one) != K for one in distinct.values()):
        return None
    return common, [np.array([one[n] for n in range(K)]) for one in distinct.values()]


def _embedded(task: Reduced, orbits: Orbits, v: Array) -> Array:
    """All changes of decoder and logits that go with the class weights v, as orthonormal columns.

    v = 1 gives those that treat classes alike. For v of sum 0, the same column means the same change for every v.
    """
    (common, distinct), K, kinds = orbits, len(task.columns), len(task.weight)
    alike, columns = np.ptp(v) == 0, []

    def add(rows: list[int] | NDArray[np.int64], decoder: Array | None = None, labels: slice = slice(None)) -> None:
        """A change of these rows of the decoder at these labels, or of the rows' logits."""
        Y, z = np.zeros((kinds, task.labels)), np.zeros(kinds)
        if decoder is None:
            z[rows] = v if len(rows) == K else 1.0
        else:
            Y[rows, labels] = decoder
        columns.append(np.concatenate([Y.ravel(), z]))

    rest, its_own, other = slice(K, None), np.diag(v), 1 - np.eye(K)
    for kind in common:
        add([kind], v[None], slice(0, K))
        if alike:
            add([kind])
            if task.rest:
                add([kind], np.ones((1, 1)), rest)
    for rows in distinct:
        add(rows)
        add(rows, its_own, slice(0, K))
        add(rows, other * v[:, None], slice(0, K))
        if not alike:
            add(rows, other * v, slice(0, K))
        if task.rest:
            add(rows, v[:, None], rest)
    table = np.array(columns).T
    Q, R = np.linalg.qr(table)
    return np.asarray(Q * np.sign(np.diag(R)))
