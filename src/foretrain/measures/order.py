"""What was learned when: the time at which a curve is half way, and whether two orders agree."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray as Array
from scipy import stats

from foretrain.core.errors import require


def half_time(curve: Float[Array, "*lead time"], time: Float[Array, "time"]) -> Float[Array, "*lead"]:
    """The time at which a curve is first half way from its first to its last value, interpolated between records.

    It is nan for a curve that ends where it began.
    """
    return level_time(curve, time, (curve[..., 0] + curve[..., -1]) / 2)


def level_time(
    curve: Float[Array, "*lead time"], time: Float[Array, "time"], level: float | Float[Array, "*lead"]
) -> Float[Array, "*lead"]:
    """The time at which a curve first crosses `level`, interpolated between records; nan if it never does."""
    require(
        curve.shape[-1] == len(time) >= 2,
        f"curve and time need equal length of at least 2; got {curve.shape[-1]} and {len(time)}.",
    )
    beyond = curve - np.broadcast_to(np.asarray(level, dtype=np.float64), curve.shape[:-1])[..., None]
    crossed = beyond * np.sign(beyond[..., :1]) <= 0
    crossed &= beyond[..., :1] != 0
    last = np.maximum(np.argmax(crossed, axis=-1), 1)[..., None]
    before, after = (np.take_along_axis(beyond, last - step, axis=-1)[..., 0] for step in (1, 0))
    start, end = (time[last[..., 0] - step] for step in (1, 0))
    change = before - after
    share = np.divide(before, change, out=np.zeros_like(change), where=change != 0)
    return np.where(crossed.any(axis=-1), start + share * (end - start), np.nan)


def spearman(first: Float[Array, "item"], second: Float[Array, "item"]) -> float:
    """Spearman's rank correlation of two lists; 0 if all values of one are equal, so that it has no order."""
    ranks = [stats.rankdata(values) for values in (first, second)]
    if any(np.ptp(r) == 0 for r in ranks):
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])
