"""One thing checked in hundreds of places: one test, which names every place where it is not so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def problems(places: Mapping[str, T], check: Callable[[T], None]) -> dict[str, str]:
    """What an assertion says, by the place where it fails."""
    said = {}
    for name, place in places.items():
        try:
            check(place)
        except AssertionError as error:
            said[name] = str(error) or "an assertion failed"
    return said
