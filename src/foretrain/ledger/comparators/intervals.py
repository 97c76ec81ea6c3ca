"""A comparator of paired differences: what their 95 % interval says."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from foretrain.ledger.claim import Comparator, Drawn
from foretrain.ledger.comparators.shared import value_at, worst_place
from foretrain.ledger.margins import Outcome, inconclusive, number, outcome, place_words, sentence
from foretrain.ledger.quantities import Quantities


def gains(name: str) -> Comparator:
    """`name` (measured, a difference for every seed) is above 0 on average, everywhere.

    It holds if the 95 % interval of the mean (Student's t) lies above 0 everywhere, fails if it does not reach above 0
    at one place or more, and is inconclusive otherwise. One seed has no interval, so it is always inconclusive.
    """

    def compare(_: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        value, quantity = observation[name].astype(float), quantities[name]
        seeds = value.sizes["seed"]
        if seeds < 2:
            return inconclusive(sentence(f"{quantity.words} has one seed, and its interval needs at least two"))
        mean = value.mean("seed", skipna=False)
        half = float(stdtrit(seeds - 1, 0.975)) * value.std("seed", ddof=1, skipna=False) / math.sqrt(seeds)
        low, high = mean - half, (mean + half).fillna(-np.inf)  # not a number is a failure
        failed = bool((high <= 0).any())
        at = worst_place(-high if failed else -low)
        middle, ends = value_at(mean, at), (value_at(low, at), value_at(mean + half, at))
        count = int((value.isel(at) > 0).sum())
        words = f"{quantity.words} is {number(middle)}{quantity.with_unit}{place_words(mean, at, quantities)}"
        words += (
            f" (95 % interval {number(ends[0])} to {number(ends[1])}), above 0 in {count} of {seeds} pairs of seeds"
        )
        words = sentence(words)
        if failed:
            return outcome(False, 0.0, words)
        if ends[0] > 0:
            return outcome(True, middle / (middle - ends[0]) if middle > ends[0] else math.inf, words)
        return inconclusive(words)

    return Comparator(compare, (Drawn(name),))
