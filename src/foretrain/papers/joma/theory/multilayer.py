"""Multi-layer analysis: when a back-propagated gradient correlates with a latent (Theorem 1 of that section)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import as_floats, require

Array = NDArray[np.float64]


def gradient_correlation_bound(c1: ArrayLike, c2: ArrayLike, c3: ArrayLike) -> Array:
    """Multi-layer Theorem 1, corrected: the least corr(f_k, a)·corr(z_β, a) with a = σ′_jg_j, all of length 1.

    c1 = corr(z_α, a), c2 = corr(z_β, f_k) and c3 = |corr(z_α, z_β)| are cosines. With A, B, C their angles it is
    cos(A + C)·cos(A + B + C) as long as A + B + C ≤ 90°, and negative beyond. So positive correlations alone are not
    enough: equal ones must exceed cos 30° = .866. The bound cannot be improved: vectors in a plane reach it.
    """
    A, B, C = (np.arccos(_cosine(name, c)) for name, c in (("c1", c1), ("c2", c2), ("c3", c3)))
    widest = np.minimum(A + C, (np.pi - B) / 2)  # angle of z_β and a at which the product is least
    return np.asarray(np.cos(widest) * np.cos(widest + B))


def _cosine(name: str, value: ArrayLike) -> Array:
    value = as_floats("value", value)
    # nan passes: a signal that is 0 everywhere has no correlation
    good = not bool(np.any(np.abs(value) > 1 + 1e-9))
    require(good, f"{name} is a correlation of signals of length 1, so it must lie between −1 and 1.")
    return np.asarray(np.clip(value, -1, 1))
