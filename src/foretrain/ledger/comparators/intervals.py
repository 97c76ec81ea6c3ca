"""A comparator of paired differences: what their 95 % interval says."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr
from scipy.stats import t

from foretrain.ledger.claim import Comparator
from foretrain.ledger.comparators.shared import drawn, in_words, worst_place
from foretrain.ledger.margins import Outcome, inconclusive, number, outcome, place_words, sentence


def gains(name: str, *, label: str = "", unit: str = "") -> Comparator:
    """`name` (measured, a difference for every seed) is above 0 on average, where that is least certain.

    It holds if the 95 % interval of the mean (Student's t) lies above 0, fails if it does not reach above 0, and is
    inconclusive if 0 lies inside.
    """

    def compare(_: xr.Dataset, observation: xr.Dataset) -> Outcome:
        value = observation[name].astype(float)
        seeds = value.sizes["seed"]
        mean = value.mean("seed", skipna=False)
        half = float(t.ppf(0.975, seeds - 1)) * value.std("seed", ddof=1, skipna=False) / math.sqrt(seeds)
        low = mean - half
        at = worst_place(-low.fillna(-np.inf))
        middle, ends = float(mean.isel(at)), (float(low.isel(at)), float((mean + half).isel(at)))
        count = int((value.isel(at) > 0).sum())
        words = sentence(
            f"{in_words(label or name)} is {number(middle)}{f' {unit}' if unit else ''}{place_words(mean, at)} (95 % "
            f"interval {number(ends[0])} to {number(ends[1])}), above 0 in {count} of {seeds} pairs of seeds"
        )
        if ends[0] > 0:
            return outcome(True, middle / (middle - ends[0]) if middle > ends[0] else math.inf, words)
        if ends[1] > 0:
            return inconclusive(words)
        return outcome(False, 0.0, words)

    return Comparator(compare, drawn(name))
