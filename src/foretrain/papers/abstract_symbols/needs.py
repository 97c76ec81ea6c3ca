"""How many samples networks that were really trained needed, and what the size of a task alone would say."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from foretrain.kernels.architectures import MLP_XX, TRANSFORMER, TRANSFORMER_AI

# Samples needed for errors of 0.5 and 0.1, divided by templates × length: medians over the twelve chosen tasks.
PER_SYMBOL = {TRANSFORMER: (88.2, 204.8), TRANSFORMER_AI: (7.9, 18.1), MLP_XX: (0.9, 35.0)}


@dataclass(frozen=True)
class TrainedErrors:
    """Errors on unseen symbols of networks of one architecture, as shares of a constant guess's: one list per size."""

    errors: dict[int, list[float]] = field(default_factory=dict)

    def needed(self, error: float) -> float:
        """The samples from which the median error over seeds stays below `error`; infinite if more than were tried.

        Between two sizes it is interpolated in both logarithms. If the smallest size that was tried is enough, it is
        that size, an upper bound.
        """
        sizes = sorted(self.errors)
        medians = [max(float(np.median(self.errors[n])), error / 10) for n in sizes]
        above = [i for i, median in enumerate(medians) if not median < error]
        if not above:
            return float(sizes[0])
        last = above[-1]
        if last == len(sizes) - 1:
            return float("inf")
        share = np.log(medians[last] / error) / np.log(medians[last] / medians[last + 1])
        return float(sizes[last] * (sizes[last + 1] / sizes[last]) ** share)


def within_factor(forecast: float, trained: TrainedErrors, error: float, factor: float = 3.0) -> bool:
    """Whether a forecast is within a factor of what training needed, as far as the sizes that were tried can tell.

    If the largest size was not enough, a forecast of at least a third of it counts; if the smallest was, one of up to
    three times it.
    """
    needed, least, most = trained.needed(error), min(trained.errors), max(trained.errors)
    if not np.isfinite(needed):
        return bool(forecast >= most / factor)
    return bool(forecast <= factor * needed and (forecast >= needed / factor or needed <= least))
