"""Section 6 and appendix F: how far attention grows, and when it snaps.

Γ(t) = η_Z∫γ is the drive that the decoder gives to attention. The paper writes ν for η_Y/η_Z in eq. 130 and for
η_Z/η_Y in Fig 9; these functions take both learning rates by name. Times t are in steps of one sample, or of a batch
whose loss is averaged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.decoder import (
    Array,
    Values,
    checked,
    checked_classes,
    decoder_growth,
    omega1,
    snap_time,
)


def attention_drive(
    t: ArrayLike, *, eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike, classes: ArrayLike
) -> Values:
    """Theorem 4, eq. 128: Γ(t) = (η_Z/η_Y)·(K(M−1)²/2)·h²(t/K)."""
    t, eta_y, M, K, (eta_z,) = *checked(t=t, eta_y=eta_y, vocab=vocab), checked_classes(classes), _positive(eta_z=eta_z)
    return eta_z / eta_y * K * (M - 1) ** 2 / 2 * decoder_growth(t / K, eta_y=eta_y, vocab=M) ** 2


def attention_growth(
    t: ArrayLike, *, eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike, classes: ArrayLike, c0: ArrayLike
) -> Values:
    """Theorem 4, eq. 129 with its constant of integration: B_n = ¼·ln(1 + 4Γ/C0), so that B_n(0) = 0."""
    (c0,) = _positive(c0=c0)
    return np.log1p(4 * attention_drive(t, eta_y=eta_y, eta_z=eta_z, vocab=vocab, classes=classes) / c0) / 4


def attention_growth_printed(
    t: ArrayLike, *, eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike, classes: ArrayLike, c0: ArrayLike
) -> Values:
    """Theorem 4, eq. 129 as printed: ¼·ln(C0 + 4Γ), which is ¼·ln C0 and not 0 at t = 0."""
    (c0,) = _positive(c0=c0)
    return np.log(c0 + 4 * attention_drive(t, eta_y=eta_y, eta_z=eta_z, vocab=vocab, classes=classes)) / 4


def attention_growth_scanning(
    t: ArrayLike, *, eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike, classes: ArrayLike, c0: ArrayLike
) -> Values:
    """Theorem 4, eq. 130 with its constant: B_n while attention scans, t ≤ K·ln M/η_Y, where Mh(t/K) ≈ η_Y·t/K."""
    t, eta_y, _ = checked(t=t, eta_y=eta_y)
    return _growth_at(eta_y * t / checked_classes(classes), eta_y, eta_z, vocab, classes, c0)


def attention_growth_snapped(
    t: ArrayLike, *, eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike, classes: ArrayLike, c0: ArrayLike
) -> Values:
    """Theorem 4, eq. 131 with its constant: B_n once attention has snapped, t ≥ t0, where Mh(t/K) ≈ ln(Mη_Y·t/K)."""
    return _growth_at(_log_of_late_time(t, eta_y, vocab, classes), eta_y, eta_z, vocab, classes, c0)


def attention_growth_late(
    t: ArrayLike, *, eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike, classes: ArrayLike, c0: ArrayLike
) -> Values:
    """Theorem 4, eq. 132 with its missing constant: B_n → ½·ln ln(Mη_Y·t/K) + ¼·ln(2K(M−1)²η_Z/(M²η_Y·C0)).

    As printed, C0 = 1.
    """
    constant = np.log(_drive_per_square(eta_y, eta_z, vocab, classes, c0)) / 4
    return np.log(_log_of_late_time(t, eta_y, vocab, classes)) / 2 + constant


def late_time(*, eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike, classes: ArrayLike, c0: ArrayLike) -> Values:
    """The time that t must far exceed in eq. 132: (K/(Mη_Y))·exp(√(C0·η_Y/(2K·η_Z))), where 4Γ reaches C0."""
    _, eta_y, M, K = *checked(eta_y=eta_y, vocab=vocab), checked_classes(classes)
    eta_z, c0 = _positive(eta_z=eta_z, c0=c0)
    return K / (M * eta_y) * np.exp(np.sqrt(c0 * eta_y / (2 * K * eta_z)))


def late_time_printed(*, eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike) -> Values:
    """The same time as printed before eq. 132: (Mη_Y)⁻¹·exp(1/√(2ν)) with ν = η_Y/η_Z of eq. 130."""
    _, eta_y, M, (eta_z,) = *checked(eta_y=eta_y, vocab=vocab), _positive(eta_z=eta_z)
    return np.exp(1 / np.sqrt(2 * eta_y / eta_z)) / (M * eta_y)


def logarithmic_start(*, eta_y: ArrayLike, vocab: ArrayLike) -> Values:
    """Remark 2: s1 = 2(1+ω1)·ln M/η_Y, from which on h = Θ(ln(Mη_Y·s)/M) (Lemma 9 with K = 1)."""
    return snap_time(eta_y=eta_y, vocab=vocab, classes=1)


def logarithmic_start_printed(*, eta_y: ArrayLike, vocab: ArrayLike) -> Values:
    """Remark 2 as printed: s1 = 2·ln(1+ω1)/η_Y."""
    _, eta_y, M = checked(eta_y=eta_y, vocab=vocab)
    return 2 * np.log1p(omega1(vocab=M)) / eta_y


def attention_growth_equal_overlaps(
    drive: ArrayLike, *, classes: ArrayLike, overlap: ArrayLike, distinct: ArrayLike = np.inf
) -> Values:
    """Section 6 with all f_n·f_n' = ρ = 1/ρ0² at the start, in leading order of ρ: B_n as a function of Γ.

    B_n = ln(1 + 4ΓK'(K−1)ρ²)/4K' with K' = K + 1/distinct, for `distinct` equally frequent tokens in each class. With
    many of them K' = K and ρ0 stays constant, as section 6 assumes. The common token has z = −K·B_n, because all K
    classes push it down while only one class pushes its distinct tokens up. So ż and ξ_n cannot share one C0.
    """
    drive, overlap, distinct = (
        as_floats(name, x) for name, x in (("drive", drive), ("overlap", overlap), ("distinct", distinct))
    )
    K = checked_classes(classes)
    require(bool(np.all(drive >= 0)), f"drive must not be negative; its smallest value is {np.min(drive):g}.")
    require(bool(np.all((overlap >= 0) & (overlap < 1))), "overlap must be at least 0 and below 1.")
    require(bool(np.all(distinct >= 1)), f"distinct must be at least 1; got {np.min(distinct):g}.")
    pushes = K + 1 / distinct
    return np.log1p(4 * drive * pushes * (K - 1) * overlap**2) / (4 * pushes)


def _growth_at(
    Mh: ArrayLike, eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike, classes: ArrayLike, c0: ArrayLike
) -> Values:
    """¼·ln(1 + 4Γ/C0) at a given Mh."""
    return np.log1p(_drive_per_square(eta_y, eta_z, vocab, classes, c0) * np.square(Mh)) / 4


def _drive_per_square(
    eta_y: ArrayLike, eta_z: ArrayLike, vocab: ArrayLike, classes: ArrayLike, c0: ArrayLike
) -> Values:
    """4Γ/C0 divided by (Mh)²."""
    _, eta_y, M, K = *checked(eta_y=eta_y, vocab=vocab), checked_classes(classes)
    eta_z, c0 = _positive(eta_z=eta_z, c0=c0)
    return 2 * K * ((M - 1) / M) ** 2 * eta_z / (eta_y * c0)


def _log_of_late_time(t: ArrayLike, eta_y: ArrayLike, vocab: ArrayLike, classes: ArrayLike) -> Values:
    t, eta_y, M = checked(t=t, eta_y=eta_y, vocab=vocab)
    clock = M * eta_y * t / checked_classes(classes)
    require(
        bool(np.all(clock > 1)),
        f"This form is for late times, with Mη_Y·t/K above 1; its smallest value is {np.min(clock):g}.",
    )
    return np.log(clock)


def _positive(**values: ArrayLike) -> list[Array]:
    arrays = {name: as_floats(name, value) for name, value in values.items()}
    for name, array in arrays.items():
        bad = array[~(np.isfinite(array) & (array > 0))]
        require(bad.size == 0, f"{name} must be a finite number above 0; got {bad.flat[0] if bad.size else ''}.")
    return list(arrays.values())
