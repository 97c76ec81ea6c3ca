"""Theorem 4 with everything it needs taken from P(token | class), and each of its corrections as a switch.

Section 6 has one query, one common token with the same probability in all K classes, and normalisation constants ρ0
that stay what they are at the start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.correlation import overlaps
from foretrain.papers.scan_snap.theory.decoder import Array, Values
from foretrain.papers.scan_snap.theory.transition import attention_drive


def theorem4_c0(probabilities: ArrayLike) -> float:
    """Section 6: C0 = ρ0⁴/K, with f_n·f_n' = 1/ρ0² at the start."""
    overlap, _, classes = _from_data(probabilities)
    return 1 / (overlap**2 * classes)


def theorem4_growth(
    t: ArrayLike,
    *,
    probabilities: ArrayLike,
    eta_y: ArrayLike,
    eta_z: ArrayLike,
    constant: bool = True,
    per_class: bool = True,
    clock: bool = True,
) -> Values:
    """Theorem 4, eq. 129, with C0 from the data: B_n over time (in steps of one sample, or of the mean of a batch).

    Three corrections, all made by default; with none it is the printed formula.
    constant   the constant of integration that eq. 124 drops: B_n(0) = 0
    per_class  all K classes push the common token down, and one class pushes up its distinct tokens: −z = K·B_n and
               not B_n, so eq. 118 and 119 cannot share one C0. With Σf⁴ over a class's distinct tokens, K' = K + Σf⁴
    clock      a step sees one of K classes, so Γ is that of η_Z/K

    B_n = ln(1 + 4(Γ/K)·K'(K−1)/ρ0⁴)/4K'. This solves eq. 10 to leading order in the overlaps, that is, training by the
    modified gradient of eq. 26. It does not predict training by the loss's own gradient: see `predicted_logits`.
    """
    overlap, f, classes = _from_data(probabilities)
    vocab = np.shape(probabilities)[1]
    drive = attention_drive(t, eta_y=eta_y, eta_z=eta_z, vocab=vocab, classes=classes) / (classes if clock else 1)
    pushes = classes + float((f[:, 1:] ** 4).sum(axis=1).mean()) if per_class else 1.0
    c0 = 1 / (pushes * (classes - 1) * overlap**2) if per_class else 1 / (overlap**2 * classes)
    return np.log(c0 + 4 * drive) / (4 * pushes) - (np.log(c0) / (4 * pushes) if constant else 0.0)


def theorem4_growth_factor(
    t: ArrayLike, *, probabilities: ArrayLike, eta_y: ArrayLike, eta_z: ArrayLike, **corrections: bool
) -> Values:
    """Theorems 3 and 4 together: χ = exp(2·f²·B_n) of the dominant distinct token, f its entry in f_n at the start.

    The exponent f² is the lower bound of eq. 12, which section 6 uses as an estimate. `theorem4_growth` explains the
    corrections.
    """
    growth = theorem4_growth(t, probabilities=probabilities, eta_y=eta_y, eta_z=eta_z, **corrections)
    _, f, _ = _from_data(probabilities)
    return np.exp(2 * float((f[:, 1:].max(axis=1) ** 2).mean()) * growth)


def _from_data(probabilities: ArrayLike) -> tuple[float, Array, int]:
    """The overlap 1/ρ0² of two classes, the features with the common token first, and K."""
    P = as_floats("probabilities", probabilities)
    require(P.ndim == 2 and len(P) >= 2, "probabilities must be [class, token] with at least two classes.")
    common = (P > 0).sum(axis=0) > 1
    require(
        int(common.sum()) == 1,
        f"Theorem 4 is for a single common token; these probabilities have {int(common.sum())}. "
        "`predicted_logits` takes any number.",
    )
    f = P / np.linalg.norm(P, axis=1, keepdims=True)
    E = overlaps(f)
    pairs = E[~np.eye(len(P), dtype=bool)]
    require(
        float(np.ptp(pairs)) <= 1e-9,
        f"Theorem 4 is for classes that overlap alike; these overlap by {pairs.min():.3g} to {pairs.max():.3g}. "
        "`predicted_logits` takes any overlaps.",
    )
    return float(pairs.mean()), np.hstack([f[:, common], f[:, ~common]]), len(P)
