"""Comparators of what was sampled: shares of draws, means over seeds, limits, explained variance."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from foretrain.ledger.claim import Comparator, Drawn
from foretrain.ledger.comparators.shared import same_points, value_at, worst_place
from foretrain.ledger.margins import (
    Outcome,
    inconclusive,
    number,
    outcome,
    place_words,
    sentence,
    within,
)
from foretrain.ledger.quantities import Quantities
from foretrain.ledger.tolerances import CHANCE, THREE_ERRORS, Tolerance


def covered(inside: str, at_least: str) -> Comparator:
    """Share of draws with `inside` true is at least the predicted `at_least`.

    Fails only if the share is significantly below (one-sided binomial test), so that a sound bound does not fail by
    chance. The margin is the test's p over the one at which it fails.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        from scipy.stats import binomtest  # more than a second to load, and few claims need it

        hits, wanted = observation[inside], float(prediction[at_least].max())
        repeats = [d for d in hits.dims if d != "time"]  # the times of one run do not count as draws
        draws = int(np.prod([hits.sizes[d] for d in repeats]))
        count = int(hits.sum(repeats).min())
        p = float(binomtest(count, draws, wanted, alternative="less").pvalue)
        when = ", at the worst time" * ("time" in hits.dims)
        words = f"{quantities[inside].words} in {count / draws:.2%} of {draws} draws{when}; {wanted:.2%} is promised"
        return outcome(p >= CHANCE.value, p / CHANCE.value, sentence(words.replace("%", " %")))

    return Comparator(compare, (Drawn(inside, low=at_least),))


def same_mean(name: str, tolerance: Tolerance = THREE_ERRORS, least_seeds: int = 3) -> Comparator:
    """Measured means over `seed` agree with the predicted mean in combined standard errors, at every point.

    The prediction carries `name`, `name_std` and `name_seeds` (its own spread and number of seeds) and may be nan
    where nothing is predicted; everything it does predict must have been measured.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        measured = observation[name]
        seeds = measured.sizes.get("seed", 1)
        if seeds < least_seeds:
            return inconclusive(f"There are {seeds} seeds; {least_seeds} are needed.")
        ours = measured.std("seed", ddof=1) / math.sqrt(seeds)
        theirs = prediction[f"{name}_std"] / np.sqrt(prediction[f"{name}_seeds"])
        mean = measured.mean("seed", skipna=False)
        distance = abs(mean - prediction[name]) / np.hypot(ours, theirs)
        published = prediction[name].notnull()
        total = int(published.sum())
        distance, published, mean, expected = xr.align(distance, published, mean, prediction[name], join="inner")
        cells, called = int(published.sum()), quantities[name].words
        if cells < total:
            return outcome(False, 0.0, sentence(f"{called}: only {cells} of {total} predicted means were measured"))
        distance = distance.where(published, 0.0)
        at = worst_place(distance.fillna(np.inf))
        error = float(distance.isel(at))
        measured_words, expected_words = number(value_at(mean, at)), number(value_at(expected, at))
        pair = f"{measured_words} here and {expected_words} expected{place_words(distance, at, quantities)}"
        if cells == 1:
            words = f"{called} is {pair}: {number(round(error, 2))} standard errors apart"
        else:
            words = (
                f"{called}: of {cells} means the farthest is {pair}, {number(round(error, 2))} standard errors apart"
            )
        return within(error, tolerance.value, sentence(f"{words}; {number(tolerance.value)} are allowed"))

    return Comparator(compare, (Drawn(name, name),))


def as_printed(name: str, tolerance: Tolerance, trials: int, *, guess: float) -> Comparator:
    """Measured means over `seed` are within `tolerance` of printed means of so many trials, where the data can decide.

    It cannot where twice the error of the difference, with the measured spread for both, is more than `tolerance` and
    the difference no more than both together: such points are left out. If none is left at which the printed mean is
    more than `tolerance` away from that of a `guess`, agreement says nothing and the outcome is inconclusive.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        measured = observation[name]
        printed, mean = same_points(prediction[name], measured.mean("seed", skipna=False))
        error = 2 * measured.std("seed", ddof=1) * math.sqrt(1 / measured.sizes["seed"] + 1 / trials)
        apart = abs(mean - printed)
        decided = ~((error > tolerance.value) & (apart <= tolerance.value + error))  # nan must not go unnoticed
        farthest = float(apart.where(decided, 0.0).max(skipna=False))
        learned, called = decided & (abs(printed - guess) > tolerance.value), quantities[name].words
        if farthest <= tolerance.value and not learned.any():
            return inconclusive(
                sentence(f"{called} varies too much over seeds everywhere, or is printed as that of a guess")
            )
        points = f"{int(decided.sum())} of {decided.size} points"
        words = f"{called} is within {number(farthest)} of the printed values at {points}"
        left = "" if decided.all() else ", and varies too much over seeds to tell at the others"
        allowed = f"; {number(tolerance.value)} is allowed"
        return within(farthest, tolerance.value, sentence(words + left + allowed))

    return Comparator(compare, (Drawn(name, name),))


def converges(name: str, along: str, power: Tolerance, scale: Tolerance, *, expected: float = -0.5) -> Comparator:
    """`name` (measured, over `along`, `seed` and others) approaches the predicted `name` like a power of `along`.

    For every entry of the prediction's first axis: the relative distance (Frobenius, root mean square over seeds) has
    slope `expected` in log-log, give or take `power`, and at the largest value of `along` is at most `scale` times that
    value to the power `expected`.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        predicted, observed = same_points(prediction[name], observation[name])
        first = predicted.dims[0]
        inner = [d for d in predicted.dims if d != first]
        squares = ((observed - predicted) ** 2).sum(inner, skipna=False) / (predicted**2).sum(inner)
        distance = squares.mean("seed", skipna=False) ** 0.5
        logs = np.log(observation[along].values)
        allowed = scale.value * float(observation[along].max()) ** expected
        worst = []
        for entry in distance[first].values:
            curve = distance.sel({first: entry}).transpose(along).values
            fitted = float(np.polyfit(logs, np.log(curve), 1)[0])
            strain = max(abs(fitted - expected) / power.value, curve[-1] / allowed)
            words = f"in {entry} it shrinks as the power {number(round(fitted, 2))} and ends at {number(curve[-1])}"
            worst.append((strain if np.isfinite(strain) else math.inf, words))
        strain, words = max(worst)
        called = f"distance of {quantities[name].words} from its limit"
        limits = f"{number(expected)} ± {number(power.value)} and at most {number(allowed)} are expected"
        return within(strain, 1.0, sentence(f"{called}, {len(worst)} cases: {words}; {limits}"))

    return Comparator(compare, (Drawn(name, name),))


def explains(name: str, unexplained: Tolerance) -> Comparator:
    """For every entry of the prediction's first axis: 1 − R² of the measurement around the predicted `name`.

    R² is taken around the line of slope 1 through 0, so a shift or a factor that is not predicted counts as error.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        predicted, observed = same_points(prediction[name], observation[name])
        first = predicted.dims[0]
        inner = [d for d in predicted.dims if d != first]
        left = ((observed - predicted) ** 2).sum(inner, skipna=False)
        share = left / ((observed - observed.mean(inner)) ** 2).sum(inner, skipna=False)
        error = float(share.max(skipna=False))
        worst = predicted[first].values[int(np.argmax(np.nan_to_num(share.values, nan=np.inf)))]
        words = (
            f"the prediction explains {1 - error:.1%} of the variance of {quantities[name].words}, "
            f"least for {quantities[str(first)].place} {worst}; {1 - unexplained.value:.0%} is needed"
        )
        return within(error, unexplained.value, sentence(words.replace("%", " %").replace("-", "−")))

    return Comparator(compare, (Drawn(name, name),))
