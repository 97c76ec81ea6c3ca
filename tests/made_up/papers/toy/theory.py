"""What the made-up paper proves."""

from __future__ import annotations

import numpy as np


def decay(t: np.ndarray, rate: float) -> np.ndarray:
    """Lemma 1: x(t) = e^{−ρt}."""
    return np.exp(-rate * t)


def decay_printed(t: np.ndarray, rate: float) -> np.ndarray:
    """Theorem 2, eq. 7 as printed: x(t) = e^{−2ρt}."""
    return np.exp(-2 * rate * t)
