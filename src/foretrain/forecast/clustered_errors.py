"""Errors of means over rows of which some are copies of one text.

A network says the same about every copy, so copies tell no more than one row would: errors come from the sums over
different texts. Where no text is repeated they are the usual ones.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

SIDES = 1.96  # standard errors on either side of a 95 % interval


def mean_and_error(values: Float[Array, "row"], group: Int[Array, "row"]) -> tuple[float, float]:
    """Mean over all rows, and half of its 95 % interval; rows of one group are copies of one text."""
    mean = float(values.mean())
    return mean, SIDES * math.sqrt(_variance(values - mean, group))


def share_interval(right: Array, group: Int[Array, "row"]) -> tuple[float, float]:
    """95 % interval of a share (Wilson), with as many independent rows as would give it the same error.

    They are never more than there are different texts. If all rows are right or none is, the sizes of the groups
    decide.
    """
    share, copies = float(right.mean()), np.bincount(group)
    variance = _variance(right - share, group)
    rows = share * (1 - share) / variance if variance > 0 else len(right) ** 2 / float((copies**2).sum())
    rows = min(rows, float((copies > 0).sum()))
    centre = (share + SIDES**2 / (2 * rows)) / (1 + SIDES**2 / rows)
    half = SIDES / (1 + SIDES**2 / rows) * math.sqrt(share * (1 - share) / rows + SIDES**2 / (4 * rows**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def _variance(deviations: Float[Array, "row"], group: Int[Array, "row"]) -> float:
    """Variance of a mean, from the sums of its rows' deviations over each group."""
    return float((np.bincount(group, weights=deviations) ** 2).sum()) / len(deviations) ** 2
