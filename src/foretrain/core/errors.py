"""Errors about bad input: one sentence that names the value, what is allowed, and how to fix it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Real
from reprlib import repr as short_repr
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LONGEST_MESSAGE = 1500  # characters; what a file holds may be quoted in it, and a file may hold anything


class InputError(ValueError):
    """A value from the user cannot be used; the command line prints the message and exits with code 2.

    A message that quotes too much of the value is cut in the middle.
    """

    def __init__(self, sentence: str = "") -> None:
        if len(sentence) > LONGEST_MESSAGE:
            half = LONGEST_MESSAGE // 2
            sentence = f"{sentence[:half]} … {sentence[-half:]}"
        super().__init__(sentence)


class DamagedFile(InputError):
    """A file on disk no longer holds what was written to it."""


class MissingData(InputError):
    """A corpus is not on this machine; the computation that needs it is not at fault."""


def require(condition: bool | np.bool_, sentence: str) -> None:
    """Raise an InputError with this message unless the condition is met."""
    if not condition:
        raise InputError(sentence)


def require_positive(name: str, value: float) -> None:
    """Require a finite number above 0."""
    require(
        isinstance(value, Real) and math.isfinite(value) and value > 0,
        f"{name} must be a finite number above 0; got {value!r}.",
    )


def as_floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Numbers as a float64 array; anything else is refused by name."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or an array of numbers; got {short_repr(values)}.") from None


def require_at_least(name: str, value: float, least: float) -> None:
    """Require a finite number of at least `least`."""
    require(
        isinstance(value, Real) and math.isfinite(value) and value >= least,
        f"{name} must be at least {least}; got {value!r}.",
    )


def require_whole(name: str, value: object, least: int) -> None:
    """Require a whole number of at least `least`."""
    ok = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least
    require(ok, f"{name} must be a whole number of at least {least}; got {value!r}.")


def require_known(kind: str, name: str, known: Iterable[str], besides: str = "") -> None:
    """Require a known name; the message suggests the three nearest names, followed by `besides`."""
    known = list(known)
    if name not in known:
        near = nearest(name, known)
        raise InputError(f"There is no {kind} {name!r}; the nearest names are {', '.join(near)}{besides}.")


LONGEST_NAME = 200  # characters of a name that are compared; comparing takes the square of it


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The `count` names most like `name`. A close match after the last slash comes before one of the whole name."""
    known, name = list(known), name[:LONGEST_NAME]
    whole = get_close_matches(name, known, n=count, cutoff=0.0)
    tails = {k: k.rsplit("/", 1)[-1] for k in known}
    tail = get_close_matches(name.rsplit("/", 1)[-1], list(tails.values()), n=count, cutoff=0.75)
    ordered = [k for t in tail for k in known if tails[k] == t] + whole
    return list(dict.fromkeys(ordered))[:count]


def visible(text: str) -> str:
    """Text that is safe to print: characters that move the cursor, reverse the text or are invisible become escapes
    such as \\x1b."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def visible_lines(text: str) -> str:
    """The same for a text of several lines, which keeps its line breaks and tabs."""
    return text if text.isprintable() else "".join(c if c in "\n\t" else visible(c) for c in text)


def require_distinct(name: str, values: Sequence[Any]) -> None:
    """Require values that all differ from each other; NaN counts as one value."""
    seen: set[Any] = set()
    unhashable: list[Any] = []
    for value in values:
        key = "NaN" if isinstance(value, float | np.floating) and math.isnan(value) else (value,)
        try:
            repeated = key in seen
            seen.add(key)
        except TypeError:
            repeated = value in unhashable
            unhashable.append(value)
        require(not repeated, f"{name} must not repeat a value; [{value!r}] appears twice.")
