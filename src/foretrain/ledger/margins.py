"""How a comparison comes out: a margin in one form for all of them, and the words of its sentence.

A margin says how many times inside what is allowed a measurement lies: 1 is the edge, 10 far inside, 0.1 far outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xarray as xr

from foretrain.ledger.quantities import Quantities

Expected = Literal["holds", "fails", "inconclusive"]

ROUNDING = 1e-12  # of the largest value: what a sign or an order that was computed, not sampled, is judged against
BARELY = 1 - 1e-9  # the margin of what only just fails
MANY = 1000  # all margins beyond this print as >1000×
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Outcome:
    """What a comparator says: a status, the margin, and one or two sentences with the numbers."""

    status: Expected
    margin: float  # at least 1 if it holds, below 1 if it fails, nan if inconclusive
    reason: str


def outcome(holds: bool, margin: float, reason: str) -> Outcome:
    """Status and margin that agree with each other. Not a number is a failure, never a pass."""
    if holds:
        return Outcome("holds", max(1.0, margin), reason)
    return Outcome("fails", 0.0 if math.isnan(margin) else min(BARELY, max(0.0, margin)), reason)


def within(error: float, allowed: float, reason: str) -> Outcome:
    """Holds if an error is at most what is allowed."""
    return outcome(bool(error <= allowed), float(times_inside(error, allowed)), reason)


def times_inside(error: float, allowed: float) -> float:
    if math.isnan(error):
        return math.nan
    return math.inf if error == 0 else allowed / error


def beyond_noise(value: float, noise: float) -> float:
    """The margin of a sign or an order: 1 plus the distance from 0 in units of noise; one over that if it is wrong."""
    units = abs(value) / noise if noise > 0 else math.inf
    return 1 + units if value > 0 else 1 / (1 + units)


def inconclusive(reason: str) -> Outcome:
    return Outcome("inconclusive", math.nan, reason)


def margin_words(margin: float) -> str:
    """ "12× inside", "3.4× outside", "at the edge"; empty if there is no margin."""
    if math.isnan(margin):
        return ""
    side, times = ("inside", margin) if margin >= 1 else ("outside", 1 / margin if margin > 0 else math.inf)
    if times > MANY:
        return f">{MANY}× {side}"
    return f"{times:.0f}× {side}" if times >= 9.95 else f"{times:.2g}× {side}"


def number(value: float) -> str:
    """A number as one writes it by hand: 2.65, 0.00312, 2·10⁻¹²."""
    if value == 0 or not math.isfinite(value):
        return {0.0: "0", math.inf: "infinite", -math.inf: "minus infinity"}.get(value, "not a number")
    if 1e-3 <= abs(value) < 1e5:
        text = f"{value:.4g}"
        return (f"{value:.0f}" if "e" in text else text).replace("-", "−")
    digits, power = f"{value:.1e}".split("e")
    digits = digits.removesuffix(".0").replace("-", "−")
    exponent = f"10{str(int(power)).translate(SUPERSCRIPTS)}"
    return {"1": exponent, "−1": f"−{exponent}"}.get(digits, f"{digits}·{exponent}")


def compared_to(value: float, truth: float) -> str:
    """How far a value is from the truth: "22 % too low", "3.1 times too high", "of the wrong sign".

    Of two numbers below 0 the one farther from it is "too large in size".
    """
    if not (math.isfinite(value) and math.isfinite(truth)):
        return "not a finite number"
    if truth == 0 or value == 0:
        return f"off by {number(abs(value - truth))}"
    ratio = value / truth
    if ratio < 0:
        return "of the wrong sign"
    less, more = ("low", "high") if truth > 0 else ("small in size", "large in size")
    if 0.5 <= ratio <= 2:
        share = 100 * abs(ratio - 1)
        digits = f"{share:.0f}" if share >= 10 else f"{share:.2g}"
        return (
            f"{digits} % too {less if ratio < 1 else more}"
            if share >= 1e-4
            else f"off by {number(abs(ratio - 1))} of it"
        )
    return f"{number(max(ratio, 1 / ratio))} times too {less if ratio < 1 else more}"


def place_words(array: xr.DataArray, at: dict[str, int], quantities: Quantities) -> str:
    """Where a value stands: " at t = 690, K = 10"; numbers on an axis that only numbers things are left out."""
    parts = []
    for axis, index in at.items():
        if axis not in array.coords or array.sizes[axis] < 2:
            continue
        value, quantity = array[axis].values[index], quantities[axis]
        if isinstance(value, str | np.str_):
            parts.append(f"{quantity.place} {value}")
        elif quantity.role != "index":
            parts.append(f"{quantity.place} = {number(float(value))}")
    return f" at {', '.join(parts)}" if parts else ""


def sentence(text: str) -> str:
    """The text with a capital where it begins with a word; symbols such as z or η stay as they are."""
    first = text.split(" ", 1)[0].rstrip(":,")
    word = first == "a" or (len(first) > 1 and first.isascii() and first.isalpha())
    return text[0].upper() + text[1:] if word else text
