"""Appendix D.4: classes are drawn at random. N samples, K classes, δ the allowed probability of failure."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.decoder import Values, checked, checked_classes, decoder_growth, within


def _number(samples: ArrayLike) -> Values:
    return within("samples must be a finite number of at least 1", samples, 1.0)


def _counted(samples: ArrayLike, failure: float) -> Values:
    chance = as_floats("failure", failure)
    require(bool(np.all((chance > 0) & (chance < 1))), f"failure must be above 0 and below 1; got {failure}.")
    return _number(samples)


def count_radius(*, samples: ArrayLike, failure: float) -> Values:
    """Lemma 10, eq. 58: |N_n − ⌈N·P(n)⌉| ≤ √(N/2·ln(2/δ)) + 1 with probability 1 − δ."""
    return np.sqrt(_counted(samples, failure) / 2 * np.log(2 / failure)) + 1


def count_radius_simple(*, samples: ArrayLike, failure: float) -> Values:
    """Lemma 10, eq. 58, the simpler bound: √(N·ln(2/δ)), which is larger than `count_radius` once N·ln(2/δ) > 12."""
    return np.sqrt(_counted(samples, failure) * np.log(2 / failure))


def mean_count(*, samples: ArrayLike, classes: int) -> Values:
    """Appendix D.1: N̄ = ⌈N/K⌉."""
    return np.ceil(_number(samples) / checked_classes(classes))


def count_spread(*, samples: ArrayLike, failure: float) -> Values:
    """Appendix D.1: Δ = ⌈√(N·ln(1/δ))⌉."""
    return np.ceil(np.sqrt(_counted(samples, failure) * np.log(1 / failure)))


def growth_spread(*, samples: ArrayLike, classes: int, failure: float) -> Values:
    """Lemma 11, eq. 61 with constant 1: |h(N_n)/h(N̄) − 1| ≤ Δ/N̄. The constant is 1 as h is concave and h(0) = 0."""
    return count_spread(samples=samples, failure=failure) / mean_count(samples=samples, classes=classes)


def error_spread(*, samples: ArrayLike, failure: float, eta_y: float) -> Values:
    """Lemma 11, eq. 62 with its constants: 1/(M−1+e^{Mh(N_n)}) is within a factor exp(±η_Y·Δ/3) of its value at N̄.

    The slope of its logarithm is at most η_Y/4·M/(M−1), hence η_Y/3 for M ≥ 4 (eq. 64); the paper writes η_Y·Δ/3 for
    exp(η_Y·Δ/3) − 1, which is nearly the same while η_Y·Δ is small.
    """
    return np.expm1(checked(eta_y=eta_y)[1] * count_spread(samples=samples, failure=failure) / 3)


def error_spread_late(*, samples: ArrayLike, classes: int, failure: float) -> Values:
    """Lemma 11 with its constant, once N̄ − Δ is past 2(1+ω1)·ln M/η_Y: σ' ≤ 2Δ/(N̄ − Δ)."""
    spread, mean = count_spread(samples=samples, failure=failure), mean_count(samples=samples, classes=classes)
    return 2 * spread / (mean - spread)


def theta_bound(*, samples: ArrayLike, classes: int, failure: float) -> Values:
    """Lemma 12 and Theorem 5: |θ_n| ≤ K/√N·√ln(K/δ) for all classes at once, with probability 1 − δ."""
    K = checked_classes(classes)
    return K / np.sqrt(_counted(samples, failure)) * np.sqrt(np.log(K / failure))


def prediction_error(count: ArrayLike, *, eta_y: float, vocab: int) -> Values:
    """Corollary 1, eq. 71: ‖x_{T+1} − α_n‖₂ = √(M(M−1))/(M−1+e^{Mh(N_n)})."""
    h = decoder_growth(count, eta_y=eta_y, vocab=vocab)
    return np.sqrt(vocab * (vocab - 1)) / (vocab - 1 + np.exp(vocab * h))


def steps_to_error(error: ArrayLike, *, eta_y: float, vocab: int, classes: int) -> Values:
    """Corollary 1 with constant 1: K/(εη_Y)·ln(M/ε) steps suffice for ‖x_{T+1} − α_n‖₂ ≤ ε."""
    _, rate, M = checked(eta_y=eta_y, vocab=vocab)
    error = within("error must be a finite number above 0", error, np.nextafter(0, 1))
    return checked_classes(classes) / (error * rate) * np.log(M / error)
