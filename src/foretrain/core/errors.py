"""Refusals: one sentence that names the value, the allowed range and the way out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import Any

import numpy as np


class InputError(ValueError):
    """A value the user gave cannot be used; the command line prints the sentence and exits with 2."""


class DamagedFile(InputError):
    """A file on disk is not what was written to it."""


class MissingData(InputError):
    """A corpus is not on this machine: nothing is wrong with what was to be computed from it."""


def require(condition: bool | np.bool_, sentence: str) -> None:
    """Refuse with this sentence unless the condition is met."""
    if not condition:
        raise InputError(sentence)


def require_positive(name: str, value: float) -> None:
    """Refuse all but finite numbers above 0."""
    require(
        isinstance(value, Real) and math.isfinite(value) and value > 0,
        f"{name} must be a finite number above 0; got {value!r}.",
    )


def require_at_least(name: str, value: float, least: float) -> None:
    """Refuse all but finite numbers of at least `least`."""
    require(
        isinstance(value, Real) and math.isfinite(value) and value >= least,
        f"{name} must be at least {least}; got {value!r}.",
    )


def require_whole(name: str, value: object, least: int) -> None:
    """Refuse all but whole numbers of at least `least`."""
    ok = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least
    require(ok, f"{name} must be a whole number of at least {least}; got {value!r}.")


def require_known(kind: str, name: str, known: Iterable[str], besides: str = "") -> None:
    """Refuse an unknown name with the three nearest known ones, and what there is besides."""
    known = list(known)
    if name not in known:
        near = nearest(name, known)
        raise InputError(f"There is no {kind} {name!r}; the nearest names are {', '.join(near)}{besides}.")


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The `count` names most like `name`: by the whole name, then by the part behind the last slash."""
    known = list(known)
    whole = get_close_matches(name, known, n=count, cutoff=0.0)
    tails = {k: k.rsplit("/", 1)[-1] for k in known}
    tail = get_close_matches(name.rsplit("/", 1)[-1], list(tails.values()), n=count, cutoff=0.75)
    ordered = [k for t in tail for k in known if tails[k] == t] + whole
    return list(dict.fromkeys(ordered))[:count]


def visible(text: str) -> str:
    """For the eye: signs that move the cursor, turn the writing around or show nothing are written out, as in \\x1b."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def require_distinct(name: str, values: Sequence[Any]) -> None:
    repeated = [value for place, value in enumerate(values) if value in list(values)[:place]]
    require(not repeated, f"{name} must not repeat a value; {repeated[:1]} is there twice.")
