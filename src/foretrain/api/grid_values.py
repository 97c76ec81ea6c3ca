"""Values of a grid as people write them: `.5,1,2`, `0:1:5` (five from 0 to 1), `1:10:log5` (evenly spaced ratios)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from foretrain.core.errors import InputError, require
from foretrain.ledger.parameters import Parameter, require_setting

_RANGE = re.compile(r"([^:,]+):([^:,]+):(log)?(\d{1,15})")
MOST_VALUES = 100_000  # each is checked by itself, which takes ten seconds for a million


def read_grid(given: Sequence[str], parameters: Mapping[str, Parameter]) -> dict[str, list[Any]]:
    """`["eta_z=.5,1", "ratio=1:10:log3"]` as lists of values by name, or an error of one sentence."""
    grid: dict[str, list[Any]] = {}
    for assignment in given:
        name, equals, text = assignment.partition("=")
        require(bool(equals), f"--grid takes name=values, such as eta_z=.5,1,2 or ratio=1:10:log5; got {assignment!r}.")
        require_setting(name, parameters)
        require(name not in grid, f"--grid gives {name} twice; give all its values at once.")
        grid[name] = values_of(parameters[name], text)
    return grid


def values_of(parameter: Parameter, given: Any) -> list[Any]:
    """All values of a parameter on a grid, from text such as `1:10:log5` or from any sequence."""
    if not isinstance(given, str):
        values = list(given) if isinstance(given, Sequence | np.ndarray | range) else [given]
        require(bool(values), f"{parameter.name} has no values; give at least one.")
        return _each(parameter, [str(value) for value in values])
    match = _RANGE.fullmatch(given.strip())
    return _spread(parameter, given, match) if match else _each(parameter, given.split(","))


def _each(parameter: Parameter, texts: Sequence[str]) -> list[Any]:
    """Every value by itself, as the parameter reads it."""
    values: list[Any] = []
    for text in texts:
        written = f"({text},)" if parameter.several else text
        try:
            value = parameter.read(written)
        except InputError as error:
            hint = " A range is first:last:count or first:last:logcount, such as 1:10:log5." if ":" in text else ""
            raise InputError(str(error).replace(repr(written), repr(text)) + hint) from error
        values.extend(value if isinstance(value, tuple | list) else [value])
    return values


def _spread(parameter: Parameter, text: str, match: re.Match[str]) -> list[Any]:
    first, last, log, count = match.groups()
    try:
        start, stop, number = float(first), float(last), int(count)
    except ValueError as error:
        raise InputError(f"{parameter.name}={text} is not first:last:count with numbers, such as 1:10:log5.") from error
    require(np.isfinite([start, stop]).all(), f"{parameter.name}={text} needs finite ends.")
    require(1 <= number <= MOST_VALUES, f"{parameter.name}={text} asks for {number} values; give 1 to {MOST_VALUES:,}.")
    require(not log or (start > 0 and stop > 0), f"{parameter.name}={text}: a range with log needs ends above 0.")
    with np.errstate(over="ignore", invalid="ignore"):
        spaced = np.geomspace(start, stop, number) if log else np.linspace(start, stop, number)
    require(np.isfinite(spaced).all(), f"{parameter.name}={text} is too wide a range for numbers of 64 bits.")
    spaced[0], spaced[-1] = start, (stop if number > 1 else start)  # as they were written, without rounding
    try:
        return _each(parameter, [repr(float(value)) for value in spaced])
    except InputError:  # perhaps it takes whole numbers only
        whole = list(dict.fromkeys(round(float(value)) for value in spaced))
        return _each(parameter, [str(value) for value in whole])
