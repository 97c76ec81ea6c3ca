"""How many samples networks needed that were really trained, and what the size of a task alone would say."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from foretrain.kernels.architectures import MLP_XX, TRANSFORMER, TRANSFORMER_AI

# Samples needed for errors of 0.5 and 0.1, divided by templates × length: medians over the twelve chosen tasks.
PER_SYMBOL = {TRANSFORMER: (88.2, 204.8), TRANSFORMER_AI: (7.9, 18.1), MLP_XX: (0.9, 35.0)}


@dataclass(frozen=True)
class TrainedErrors:
    """Errors on unseen symbols of networks of one architecture, as shares of a constant guess's: one list per size."""

    errors: dict[int, list[float]] = field(default_factory=dict)

    def needed(self, error: float) -> float:
        """The samples from which on the median error over seeds stays below `error`, see `sample_need`."""
        sizes = sorted(self.errors)
        return sample_need(sizes, [float(np.median(self.errors[n])) for n in sizes], error)


def sample_need(sizes: ArrayLike, errors: ArrayLike, target: float) -> float:
    """The number of samples from which on an error stays below `target`; infinite if that needs more than were tried.

    Between two sizes it is interpolated in both logarithms. An error below a tenth of `target` counts as that tenth:
    how far below it is says little about where in between it fell. If the smallest size that was tried is enough, the
    answer is that size, an upper bound. NaN stands for a run that diverged, which has not learned.
    """
    n = np.asarray(sizes, dtype=np.float64)
    curve = np.nan_to_num(np.asarray(errors, dtype=np.float64), nan=np.inf, posinf=np.inf)
    too_large = np.flatnonzero(~(curve < target))
    if len(too_large) == 0:
        return float(n[0])
    last = int(too_large[-1])
    if last == len(n) - 1:
        return float("inf")
    high, low = np.log(np.maximum(curve[last : last + 2], target / 10))
    share = (high - np.log(target)) / (high - low) if np.isfinite(high) else 1.0
    return float(np.exp(np.log(n[last]) + share * np.log(n[last + 1] / n[last])))


def within_factor(forecast: float, trained: TrainedErrors, error: float, factor: float = 3.0) -> bool:
    """Whether a forecast is within a factor of what training needed, as far as the sizes that were tried can tell.

    If the largest size was not enough, a forecast of at least a third of it counts; if the smallest was, one of up to
    three times it.
    """
    needed, least, most = trained.needed(error), min(trained.errors), max(trained.errors)
    if not np.isfinite(needed):
        return bool(forecast >= most / factor)
    return bool(forecast <= factor * needed and (forecast >= needed / factor or needed <= least))
