"""Comparators of values: two that agree, one within bounds, one that does not change."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from foretrain.ledger.claim import Comparator, Drawn
from foretrain.ledger.comparators.shared import same_points, standard_error, value_at, worst_place
from foretrain.ledger.margins import (
    ROUNDING,
    Outcome,
    beyond_noise,
    compared_to,
    number,
    outcome,
    place_words,
    sentence,
    within,
)
from foretrain.ledger.quantities import Quantities
from foretrain.ledger.tolerances import NONE, Tolerance

BY, SEEN = "in the prediction", "in the measurement"


def close(name: str, tolerance: Tolerance, *, relative: bool = True, by: str = BY, seen: str = SEEN) -> Comparator:
    """Largest difference; `relative` divides by the largest size of the prediction (by 1 if that is smaller)."""

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        predicted, observed = same_points(prediction[name], observation[name])
        scale = max(1.0, float(abs(predicted).max())) if relative else 1.0
        errors = abs(predicted - observed) / scale
        return _agreement(name, predicted, observed, errors, tolerance, by, seen, quantities)

    return Comparator(compare, (Drawn(name, name),))


def close_relative(name: str, tolerance: Tolerance, *, by: str = BY, seen: str = SEEN) -> Comparator:
    """Largest pointwise difference relative to the smaller of the two values: each counts for itself, however small."""

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        predicted, observed = same_points(prediction[name], observation[name])
        errors = abs(predicted - observed) / np.minimum(abs(predicted), abs(observed))
        return _agreement(name, predicted, observed, errors, tolerance, by, seen, quantities)

    return Comparator(compare, (Drawn(name, name),))


def bounded(
    name: str, *, low: str | Tolerance | None = None, high: str | Tolerance | None = None, slack: Tolerance = NONE
) -> Comparator:
    """`name` (measured) stays between `low` and `high`, give or take `slack`.

    A bound is a tolerance, or the name of a predicted quantity. Between two bounds the margin is counted from their
    middle.
    """

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        sides, quantity = [], quantities[name]
        edges = {sign: _edge(bound, prediction) for sign, bound in ((-1, low), (1, high)) if bound is not None}
        middles = (edges[-1] + edges[1]) / 2 if len(edges) == 2 else xr.zeros_like(observation[name], dtype=float)
        for sign, bound in edges.items():
            edge, value = same_points(bound, observation[name])
            edge, value = xr.broadcast(edge.astype(float), value.astype(float))
            excess = (sign * (value - edge)).fillna(np.inf)
            at = worst_place(excess)
            allowed, seen = float(edge.isel(at)), float(value.isel(at))
            words = f"{quantity.words} is {number(seen)}{quantity.with_unit}{place_words(value, at, quantities)}"
            words += _beside_its_limit(seen, allowed, sign)
            if slack.value:
                words += f", give or take {number(slack.value)}"
            middle = value_at(xr.broadcast(middles, value)[0], at)
            noise = ROUNDING * max(1.0, float(abs(value).max()))
            if value.sizes.get("seed", 1) > 1:
                noise = value_at(standard_error(value), at)
            margin = _room(sign * (seen - middle), sign * (allowed - middle) + slack.value, noise)
            sides.append(outcome(float(excess.isel(at)) <= slack.value, margin, sentence(words)))
        return min(sides, key=lambda side: side.margin)

    return Comparator(compare, (Drawn(name, low=low, high=high),))


def _beside_its_limit(seen: float, allowed: float, sign: int) -> str:
    """The limit, or the gap to it when both print alike."""
    least_or_most, verb = ("at most", "is allowed") if sign == 1 else ("at least", "is needed")
    if number(seen) != number(allowed) or not math.isfinite(seen):
        return f"; {least_or_most} {number(allowed)} {verb}"
    if seen == allowed:
        return f", exactly what {verb}"
    return f", {number(abs(seen - allowed))} {'below' if seen < allowed else 'above'} what {verb}"


def _edge(bound: str | Tolerance, prediction: xr.Dataset) -> xr.DataArray:
    return prediction[bound] if isinstance(bound, str) else xr.DataArray(bound.value)


def conserved(name: str, tolerance: Tolerance, axis: str = "time") -> Comparator:
    """`name` (measured) does not change along `axis`."""

    def compare(_: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        value = observation[name]
        drift = float(abs(value - value.isel({axis: 0})).max(skipna=False)) / max(1.0, float(abs(value).max()))
        words = f"{quantities[name].words} drifts by {number(drift)}; {number(tolerance.value)} is allowed"
        return within(drift, tolerance.value, sentence(words))

    return Comparator(compare, (Drawn(name),))


def _agreement(
    name: str,
    predicted: xr.DataArray,
    observed: xr.DataArray,
    errors: xr.DataArray,
    allowed: Tolerance,
    by: str,
    seen: str,
    quantities: Quantities,
) -> Outcome:
    """How well two arrays agree where they agree worst."""
    at, quantity = worst_place(errors.fillna(np.inf)), quantities[name]
    error, called, limit = float(errors.isel(at)), quantity.words, number(allowed.value)
    if error == 0:
        return outcome(True, math.inf, sentence(f"{called} agrees exactly"))
    first, second = (
        float(array.isel({a: i for a, i in at.items() if a in array.dims})) for array in (predicted, observed)
    )
    pair = f"{called} is {number(first)}{quantity.with_unit} {by} and {number(second)} {seen}"
    pair += place_words(errors, at, quantities)
    if error <= allowed.value:
        where = "" if errors.size == 1 else f" at all {errors.size} points"
        words = f"{called} agrees to {number(error)}{where}; {limit} is allowed"
    elif number(first) == number(second):
        words = f"{pair}, which differ by {number(error)}; {limit} is allowed"
    else:
        words = f"{pair}, {compared_to(first, second)}; {limit} is allowed"
    return within(error, allowed.value, sentence(words))


def _room(value: float, edge: float, noise: float) -> float:
    """The margin of value ≤ edge: edge over value where both are above 0, the reverse below. At an edge of 0 it is 1
    plus the distance in units of noise, which is the standard error over seeds, or rounding."""
    if math.isnan(value):
        return math.nan
    if edge > 0:
        return edge / value if value > 0 else math.inf
    if edge < 0:
        return value / edge if value < 0 else 0.0
    return beyond_noise(-value, noise) if value != 0 else 1.0
