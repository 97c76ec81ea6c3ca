"""Section 4 and appendix D.2, D.3: growth of the decoder, and the speed it gives to attention.

In formulas u = Mh is the logit of the right next token minus the logit of any other token.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import lambertw, wrightomega

from foretrain.core.errors import as_floats, require

Array = NDArray[np.float64]
if TYPE_CHECKING:
    Values = Array
else:
    Values = Array | np.float64  # numpy turns a 0-dimensional array into a scalar

SMALL = 2.0**-10  # below this, u = y up to a relative error of y/2M, and the formula with logarithms loses digits
MANY = 2**16  # from this many times on, a table of cells saves more than it costs
CELL_BITS = 43  # how many of the 52 bits of a fraction vary within a cell: there are 2⁹ cells per power of two
PIECE = 2**14  # how many times are handled at once, so that they stay in the processor's cache


def decoder_growth(t: ArrayLike, *, eta_y: ArrayLike, vocab: ArrayLike) -> Values:
    """Lemma 6, eq. 45: h(t) with e^{Mh} + (M−1)Mh = Mη_Y·t + 1 and h(0) = 0."""
    t, eta_y, M = checked(t=t, eta_y=eta_y, vocab=vocab)
    largest = float(t.max(initial=0)) * float(eta_y.max(initial=0)) * float(M.max(initial=0))
    require(largest < 1e300, f"vocab·eta_y·t must stay below 1e300; it reaches {largest:g}.")
    if M.size == 1 and np.broadcast(t, eta_y).size >= MANY:
        return _growth_by_cells(t, eta_y, M.reshape(())).reshape(np.broadcast_shapes(t.shape, eta_y.shape, M.shape))
    return _logit(eta_y * t, M) / M


def decoder_growth_discrete(steps: int, *, eta_y: ArrayLike, vocab: ArrayLike) -> Array:
    """Lemma 5, eq. 33: h*(s) for s = 0, …, steps, along a last axis after those of eta_y and vocab."""
    whole = isinstance(steps, int | np.integer) and not isinstance(steps, bool) and steps >= 0
    require(whole, f"steps must be a whole number of at least 0; got {steps!r}.")
    _, eta_y, M = checked(eta_y=eta_y, vocab=vocab)
    pairs = np.broadcast(eta_y, M)
    rows = [_logit_steps(int(steps), float(rate), float(size)) / size for rate, size in pairs]
    return np.array(rows).reshape(*pairs.shape, steps + 1)


def speed(t: ArrayLike, *, eta_y: ArrayLike, vocab: ArrayLike, classes: ArrayLike) -> Values:
    """Theorem 1, eq. 85: γ(t) = (M−1)²h/(M−1+e^{Mh}) at h(t/K), where t/K need not be a whole number."""
    t, eta_y, M = checked(t=t, eta_y=eta_y, vocab=vocab)
    h = decoder_growth(t / checked_classes(classes), eta_y=eta_y, vocab=M)
    return (M - 1) ** 2 * h / (M - 1 + np.exp(M * h))


def snap_time(*, eta_y: ArrayLike, vocab: ArrayLike, classes: ArrayLike) -> Values:
    """Theorem 4 and Lemma 9: t0 = 2(1+ω1)K·ln M/η_Y, the time from which e^{Mh} dominates eq. 45.

    In steps of one sample, or of a batch whose loss is averaged; in samples, multiply by the size of the batch.
    """
    _, eta_y, M = checked(eta_y=eta_y, vocab=vocab)
    return 2 * (1 + omega1(vocab=M)) * checked_classes(classes) * np.log(M) / eta_y


def omega0(*, vocab: ArrayLike) -> Values:
    """Lemma 8, eq. 50: the smaller zero of e^{Mh} − (M−1)Mh is h = M^{−(2−ω0)}."""
    M = _with_zeros(vocab)
    return (_zero(M, branch=0) - np.log1p(-1 / M)) / np.log(M)


def omega1(*, vocab: ArrayLike) -> Values:
    """Lemma 8, eq. 51: the larger zero of e^{Mh} − (M−1)Mh is h = (1+ω1)·ln M/M."""
    M = _with_zeros(vocab)
    return _zero(M, branch=-1) / np.log(M) - 1


def class_directions(classes: int, vocab: int) -> Array:
    """Appendix D.1: ζ_n = M/(M−1)·(e_n − 1/M), one row per class."""
    return vocab / (vocab - 1) * (np.eye(classes, vocab) - 1 / vocab)


def growth_with_equal_overlaps(steps: int, *, eta_y: float, vocab: int, classes: int, overlap: float) -> Array:
    """Remark 1, solved exactly: W under eq. 7 if all f_n·f_n' = ρ and every class is seen once per step.

    By symmetry w_n has one value at its own label, one at the K−1 other labels, and one at the M−K tokens that are no
    class's label: [step, (own, other, rest)].
    """
    checked(eta_y=eta_y, vocab=vocab)
    K, rest = classes, vocab - classes
    require(2 <= K <= vocab, f"classes must lie between 2 and vocab = {vocab}; got {K}.")
    require(0 <= overlap <= 1, f"overlap must lie between 0 and 1; got {overlap}.")
    w = np.zeros((steps + 1, 3))
    for s in range(steps):
        e = np.exp(w[s] - w[s].max())
        at_label, other, none = e / (e @ (1, K - 1, rest))
        w[s + 1] = w[s] + eta_y * np.array(
            [
                1 - at_label - overlap * (K - 1) * other,
                overlap * (1 - at_label) - (1 + overlap * (K - 2)) * other,
                -(1 + overlap * (K - 1)) * none,
            ]
        )
    return w


def _logit(y: Values, M: Array) -> Values:
    """u with e^u + (M−1)u = My + 1: u = ln(M−1) + ln ω((My+1)/(M−1) − ln(M−1)), ω the Wright omega function.

    Neither this nor u = y for small y is accurate to the last digits, so one step of the inverse function follows.
    """
    log = np.log(M - 1)
    u = np.where(y < SMALL, y, log + np.log(wrightomega((M * y + 1) / (M - 1) - log)))
    e = np.expm1(u)
    slope = e + M
    n = (M * y - e - (M - 1) * u) / slope
    first, second, third, fourth = _inverse_series((e + 1) / slope)
    return u + n * (first + n * (second + n * (third + n * fourth)))  # powers would cost more than all the rest


def _growth_by_cells(t: Array, eta_y: Array, M: Array) -> Array:
    """h for many times at one vocabulary: y = η_Y·t is cut into cells, each with its own polynomial.

    A cell holds all floats with the same exponent and the same first bits of the fraction, so a shift of the bits finds
    it. The first cell is [0, SMALL).
    """
    times, rate = (t, eta_y) if eta_y.size == 1 else (eta_y * t, np.ones(1))
    flat, rate = np.ascontiguousarray(times).ravel(), rate.reshape(1)
    before = _bits(np.array([SMALL]))[0] - 1
    last = max(_bits(rate * flat.max())[0], before)
    centre = ((np.arange(before, last + 1) << CELL_BITS) + (1 << (CELL_BITS - 1))).view(np.float64)
    centre[0] = 0.0
    u = _logit(centre, M)
    slope = np.exp(u) + M - 1
    series = [u / M] + [M ** (k - 1) / slope**k * c for k, c in enumerate(_inverse_series(np.exp(u) / slope), start=1)]
    out, room = np.empty_like(flat), np.empty(PIECE)
    for i in range(0, flat.size, PIECE):
        y, value = rate * flat[i : i + PIECE], out[i : i + PIECE]
        buffer = room[: y.size]  # with mode="clip", `take` writes there without a copy
        cell = np.maximum(_bits(y) - before, 0)
        y -= centre.take(cell, out=buffer, mode="clip")
        series[-1].take(cell, out=value, mode="clip")
        for coefficient in series[-2::-1]:
            value *= y
            value += coefficient.take(cell, out=buffer, mode="clip")
    return out.reshape(np.broadcast_shapes(t.shape, eta_y.shape))


def _bits(y: Array) -> NDArray[np.int64]:
    return y.view(np.int64) >> CELL_BITS


def _inverse_series(p: Values) -> tuple[Values, ...]:
    """Coefficients of n, n², n³, n⁴ in the δ that solves δ + p(e^δ − 1 − δ) = n."""
    return np.ones_like(p), -p / 2, p * (3 * p - 1) / 6, -p * ((15 * p - 10) * p + 1) / 24


def _logit_steps(steps: int, eta_y: float, vocab: float) -> Array:
    """u*(s) = M·h*(s). With plain floats, as each step needs the one before: numpy would spend its time on calls."""
    u, path = 0.0, [0.0]
    for _ in range(steps):
        u += eta_y * vocab / (vocab - 1 + exp(min(u, 700.0)))  # beyond 700, a step vanishes in rounding
        path.append(u)
    return np.array(path)


def _zero(M: Array, branch: int) -> Values:
    """u with e^u = (M−1)u: the smaller zero on branch 0 of Lambert's W, the larger one on branch −1."""
    return -np.real(lambertw(-1 / (M - 1), branch))


def _with_zeros(vocab: ArrayLike) -> Array:
    return within("vocab must be at least 4; below it, e^u > (M−1)u everywhere and Lemma 8 has no zeros", vocab, 4.0)


def checked(*, t: ArrayLike = 0.0, eta_y: ArrayLike = 1.0, vocab: ArrayLike = 2.0) -> tuple[Array, Array, Array]:
    """Times, learning rates and vocabulary sizes as arrays, refused if out of range."""
    return (
        within("t must be a finite time of at least 0", t, 0.0),
        within("eta_y must be a finite number above 0", eta_y, np.nextafter(0, 1)),
        within("vocab must be a finite number of at least 2", vocab, 2.0),
    )


def checked_classes(classes: ArrayLike) -> Array:
    return within("classes must be a finite number of at least 1", classes, 1.0)


def within(rule: str, values: ArrayLike, least: float) -> Array:
    array = as_floats(rule.split(" ", 1)[0], values)
    low, high = array.min(initial=np.inf), array.max(initial=-np.inf)
    require(bool(not low < least and high < np.inf), f"{rule}; got {high if low >= least else low:g}.")
    return array
