"""What drives attention in training: how often the decoder mistakes one class for another.

Trained by its own gradient (eq. 7) on features that stand still, the decoder is Y = Σ_n' f_n'·a_n'ᵀ with
a_n' = (η_Y/K)∫(e_n' − α_n'). So the gradient sent back, g_n = Y(e_n − α_n), has the form of eq. 9, and its coefficients
are made of the probabilities α_nn' of taking class n for class n'. Eq. 26 has the overlaps E' in their place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.decoder import Array, Values, checked, checked_classes, within


def confusion_drive(steps: int, *, eta_y: float, vocab: int, classes: int, overlap: float) -> Array:
    """Theorem 1, eq. 9, under eq. 7 with all f_n·f_n' = ρ: γβ_nn' after 0, …, `steps` steps over all classes, [step].

    γβ_nn' = (η_Y/K)·Σ_s [α_nn'(t) + α_n'n(s) − α_n'(s)·α_n(t)], exactly. A step here takes the gradient averaged over
    the classes.
    """
    checked(eta_y=eta_y, vocab=vocab)
    K, rest = classes, vocab - classes
    require(2 <= K <= vocab, f"classes must lie between 2 and vocab = {vocab}; got {K}.")
    require(0 <= overlap <= 1, f"overlap must lie between 0 and 1; got {overlap}.")
    a, drive = np.zeros(3), np.zeros(steps + 1)  # of one class: at its own label, at other labels, at other tokens
    for s in range(steps + 1):
        at_label, other, none = a
        outputs = np.array(
            [
                at_label + overlap * (K - 1) * other,
                other + overlap * (at_label + (K - 2) * other),
                none * (1 + overlap * (K - 1)),
            ]
        )
        e = np.exp(outputs - outputs.max())
        right, wrong, elsewhere = e / (e @ (1, K - 1, rest))
        drive[s] = at_label * wrong + other * (right + (K - 2) * wrong - 1) + none * rest * elsewhere
        a = a + eta_y / K * np.array([1 - right, -wrong, -elsewhere])
    return drive


def confusion_drive_at_first(t: ArrayLike, *, eta_y: ArrayLike, vocab: ArrayLike, classes: ArrayLike) -> Values:
    """Theorem 1 under eq. 7, for small t and any overlaps: γβ_nn' = η_Y·t/(KM), as every token has α = 1/M at first.

    Eq. 26 gives η_Y·t/K·E'_nn' instead, which is larger by M·E'_nn'.
    """
    t, eta_y, M = checked(t=t, eta_y=eta_y, vocab=vocab)
    return eta_y * t / (checked_classes(classes) * M)


def memory(growth: ArrayLike, *, eta_y: ArrayLike, eta_z: ArrayLike, feature: ArrayLike) -> Values:
    """How much the decoder's past holds attention back (Assumption 1c): f²·(η_Z/η_Y)·u²/2, which must be far below 1.

    `growth` is u = Mh, the decoder's logit, about ln M at the snap; `feature` is f_nl of the token in question. While
    attention moves, Y still holds the features it was trained on, and pulls z back to where it was at the rate
    (η_Z/K)·f²·u·(1 − α). Over training this adds up to the integral ∫(η_Z/η_Y)·f²·u du.
    """
    u, f = as_floats("growth", growth), as_floats("feature", feature)
    eta_z = within("eta_z must be a finite number above 0", eta_z, np.nextafter(0, 1))
    return f**2 * eta_z / checked(eta_y=eta_y)[1] * u**2 / 2
