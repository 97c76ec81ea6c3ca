"""Comparators of signs, orders and powers."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from foretrain.ledger.claim import Comparator, Drawn
from foretrain.ledger.comparators.shared import (
    errors_from_zero,
    in_units,
    signed,
    standard_error,
    value_at,
    worst_place,
)
from foretrain.ledger.margins import (
    ROUNDING,
    Outcome,
    beyond_noise,
    inconclusive,
    number,
    outcome,
    place_words,
    sentence,
    within,
)
from foretrain.ledger.quantities import Quantities
from foretrain.ledger.tolerances import SLOPE, SURE_SIGN, THREE_ERRORS, Tolerance

ONE_SEED = " (one seed, so that its noise is not known)"


def slope(name: str, against: str, power: float | str, tolerance: Tolerance = SLOPE) -> Comparator:
    """Slope of ln(name) over ln(against) in the measurement, averaged over seeds and draws; the worst of other axes.

    The expected `power` is a number, or the name of a predicted quantity.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        expected = float(prediction[power]) if isinstance(power, str) else power
        value = observation[name]
        repeats = [d for d in ("seed", "draw") if d in value.dims and d != against]
        curves = np.log(value.mean(repeats, skipna=False).transpose(against, ...).values)
        logs = np.log(observation[against].values)
        fitted = np.polyfit(logs, curves.reshape(len(logs), -1), 1)[0]
        worst = float(fitted[np.argmax(np.nan_to_num(abs(fitted - expected), nan=np.inf))])
        words = (
            f"{quantities[name].words} goes as the power {number(round(worst, 3))} of {quantities[against].words}; "
            f"{number(expected)} ± {number(tolerance.value)} is expected"
        )
        return within(abs(worst - expected), tolerance.value, sentence(words))

    return Comparator(compare, (Drawn(name),))


def ranked(name: str, along: str, *, rising: bool) -> Comparator:
    """`name` (measured, averaged over `seed` if it has one) rises or falls all along `along`.

    With several seeds, every step gets the 95 % interval of its mean over paired seeds (Student's t): it holds if all
    steps go the right way beyond doubt, fails if one goes the wrong way beyond doubt, and is inconclusive otherwise.
    Without, any step counts. The noise of a single seed is not known, so its margin is 1.
    """

    def compare(_: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        steps = observation[name].diff(along) * (1 if rising else -1)
        sampled = steps.sizes.get("seed", 1) > 1
        noise = xr.full_like(steps, ROUNDING * max(1.0, float(abs(observation[name]).max())), dtype=float)
        if sampled:
            noise = standard_error(steps)
        elif "seed" in steps.dims:
            noise = noise.mean("seed")
        steps = steps.mean("seed", skipna=False) if "seed" in steps.dims else steps
        units = in_units(steps, noise)
        at = worst_place(-(units if sampled else steps).fillna(-np.inf))
        wrong = int((~(steps > 0)).sum())  # not a number is not in order
        words = f"{quantities[name].words} {'rises' if rising else 'falls'} with {quantities[along].words} in "
        words += f"{steps.size - wrong} of {steps.size} steps"
        if not sampled:
            once = "seed" in observation[name].dims
            margin = 1.0 if once else beyond_noise(value_at(steps, at), value_at(noise, at))
            return outcome(wrong == 0, margin, sentence(words + ONE_SEED * once))
        weakest = value_at(units, at)
        seeds = observation[name].sizes["seed"]
        needed = float(stdtrit(seeds - 1, 1 - SURE_SIGN.value / 2))
        words += f"; the weakest step is {signed(weakest)} standard errors of {seeds} paired seeds, {needed:.1f} needed"
        return _decided(weakest, needed, sentence(words))

    return Comparator(compare, (Drawn(name),))


def _decided(units: float, needed: float, words: str) -> Outcome:
    """The outcome of a sign that is sampled: it holds beyond `needed` errors, fails beyond as many the other way."""
    if units >= needed:
        return outcome(True, units / needed, words)
    if units > -needed:
        return inconclusive(words)
    return outcome(False, needed / (needed - units), words)


def positive(name: str) -> Comparator:
    """`name` (measured) is above 0 everywhere, in every seed.

    With several seeds the margin is 1 plus the mean in standard errors, where that is least; without, in rounding; with
    a single one it is 1.
    """

    def compare(_: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        value = observation[name].astype(float)
        at = worst_place(-value.fillna(-np.inf))
        smallest = float(value.isel(at))
        quantity = quantities[name]
        words = f"the smallest {quantity.title} is {number(smallest)}{quantity.with_unit}"
        words += f"{place_words(value, at, quantities)}; it must be above 0"
        if value.sizes.get("seed") == 1:
            return outcome(smallest > 0, 1.0, sentence(words + ONE_SEED))
        if "seed" not in value.dims:
            margin = beyond_noise(smallest, ROUNDING * max(1.0, float(abs(value).max())))
            return outcome(smallest > 0, margin, sentence(words))
        spread = value.std("seed", ddof=1)
        if not smallest > 0:
            return outcome(False, beyond_noise(smallest, value_at(spread, at)), sentence(words))
        units = float(in_units(value.mean("seed"), standard_error(value)).min())
        words += f", and its mean over seeds is {errors_from_zero(units)}"
        return outcome(True, 1 + units, sentence(words))

    return Comparator(compare, (Drawn(name),))


def surely_positive(
    name: str,
    needed: Tolerance = THREE_ERRORS,
    *,
    error: str | None = None,
    surely: bool = True,
) -> Comparator:
    """The mean of `name` (measured) is above 0 by so many standard errors, everywhere; with `surely=False`, nowhere.

    The errors are those over `seed`, or the variable `error` if the mean has been taken before.
    """

    def compare(_: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        value = observation[name].astype(float)
        mean = value if error else value.mean("seed", skipna=False)
        errors = observation[error] if error else standard_error(value)
        units = in_units(mean, errors)
        at = worst_place((-units if surely else units).fillna(np.inf))
        reached, limit = value_at(units, at), needed.value
        quantity = quantities[name]
        words = f"{quantity.words} is {number(value_at(mean, at))} ± {number(value_at(errors, at))}{quantity.with_unit}"
        words += f"{place_words(mean, at, quantities)}, {errors_from_zero(reached)}"
        wanted = f"{limit:g}{' above it' if reached < 0 else ''}"
        if surely:
            margin = reached / limit if reached > 0 else 1 / (1 + limit - reached)
            return outcome(reached >= limit, margin, sentence(f"{words}; {wanted} are needed"))
        margin = limit / reached if reached > 0 else math.inf
        return outcome(reached < limit, margin, sentence(f"{words}; fewer than {wanted} are allowed"))

    return Comparator(compare, (Drawn(name),))
