"""Comparators of signs, orders and powers."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from foretrain.ledger.claim import Comparator
from foretrain.ledger.comparators.shared import drawn, in_words, worst_place
from foretrain.ledger.margins import (
    ROUNDING,
    Outcome,
    beyond_noise,
    number,
    outcome,
    place_words,
    sentence,
    within,
)
from foretrain.ledger.tolerances import SLOPE, Tolerance


def slope(
    name: str, against: str, expected: float, tolerance: Tolerance = SLOPE, *, label: str = "", over: str = ""
) -> Comparator:
    """Slope of ln(name) over ln(against) in the measurement, averaged over seeds and draws; the worst of other axes."""

    def compare(_: xr.Dataset, observation: xr.Dataset) -> Outcome:
        value = observation[name]
        repeats = [d for d in ("seed", "draw") if d in value.dims and d != against]
        curves = np.log(value.mean(repeats, skipna=False).transpose(against, ...).values)
        logs = np.log(observation[against].values)
        fitted = np.polyfit(logs, curves.reshape(len(logs), -1), 1)[0]
        worst = float(fitted[np.argmax(np.nan_to_num(abs(fitted - expected), nan=np.inf))])
        words = (
            f"{in_words(label or name)} goes as the power {number(round(worst, 3))} of {over or in_words(against)}; "
            f"{number(expected)} ± {number(tolerance.value)} is expected"
        )
        return within(abs(worst - expected), tolerance.value, sentence(words))

    return Comparator(compare, drawn(name))


def ranked(name: str, along: str, *, rising: bool, label: str = "", over: str = "") -> Comparator:
    """`name` (measured, averaged over `seed` if it has one) rises or falls all along `along`.

    The margin is that of the weakest step, in standard errors of paired seeds, or of rounding if there are no seeds.
    """

    def compare(_: xr.Dataset, observation: xr.Dataset) -> Outcome:
        steps = observation[name].diff(along) * (1 if rising else -1)
        noise = xr.full_like(steps, ROUNDING * max(1.0, float(abs(observation[name]).max())), dtype=float)
        measured_noise = "seed" in steps.dims and steps.sizes["seed"] > 1
        if "seed" in steps.dims:
            noise = steps.std("seed", ddof=1) / math.sqrt(steps.sizes["seed"]) if measured_noise else noise.mean("seed")
            steps = steps.mean("seed", skipna=False)
        at = worst_place(-steps.fillna(-np.inf))
        weakest, unit = float(steps.isel(at)), float(noise.isel(at))
        wrong = int((~(steps > 0)).sum())  # not a number is not in order
        direction, over_words = "rises" if rising else "falls", over or in_words(along)
        words = f"{in_words(label or name)} {direction} with {over_words} in {steps.size - wrong} of {steps.size} steps"
        if measured_noise and unit > 0:
            words += f"; the weakest step is {weakest / unit:.1f} standard errors of paired seeds".replace("-", "−")
        return outcome(wrong == 0, beyond_noise(weakest, unit), sentence(words))

    return Comparator(compare, drawn(name))


def positive(name: str, drawn_with: str | None = None, *, label: str = "") -> Comparator:
    """`name` (measured) is above 0 everywhere. `drawn_with` is a predicted 0 that a drawing shows beside it."""

    def compare(_: xr.Dataset, observation: xr.Dataset) -> Outcome:
        value = observation[name].astype(float)
        at = worst_place(-value.fillna(-np.inf))
        smallest = float(value.isel(at))
        words = (
            f"the smallest {in_words(label or name).removeprefix('the ')} is {number(smallest)}{place_words(value, at)}"
        )
        margin = beyond_noise(smallest, ROUNDING * max(1.0, float(abs(value).max())))
        return outcome(smallest > 0, margin, sentence(f"{words}; it must be above 0"))

    return Comparator(compare, drawn(name, drawn_with))
