"""Values given as `--set name=value`: read as Python or JSON, and held against the default they replace."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from foretrain.errors import InputError, require, require_known

_PRODUCT = re.compile(r"[\d.]+\s*(?:\*+|\^)\s*[\d.]+")
WORDS = {"true": True, "false": False, "none": None, "null": None}


def read_settings(given: Sequence[str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """`["eta_z=.5,1", "steps=10"]` -> `{"eta_z": (.5, 1), "steps": 10}`, or one sentence about what is wrong."""
    settings: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for assignment in given:
        name, equals, text = assignment.partition("=")
        require(bool(equals), f"--set takes name=value; got {assignment!r}.")
        require(bool(defaults), f"This experiment has nothing to set; got {assignment!r}.")
        require_known("setting", name, defaults)
        if name in texts:
            several = isinstance(defaults[name], tuple | list | range) or name == "seeds"
            way_out = f"give all values at once: --set {name}={texts[name]},{text}" if several else "choose one"
            raise InputError(f"--set gives {name} twice, as {texts[name]!r} and as {text!r}; {way_out}.")
        texts[name] = text
        settings[name] = read_value(name, text, defaults[name])
    return settings


def read_value(name: str, text: str, default: Any) -> Any:
    """`text` as a value of the kind that `default` is."""
    if isinstance(default, str):
        return _plain_text(text)
    if isinstance(default, tuple | list | range):
        kind = _common_kind(default)
        return tuple(_convert(name, part, kind) for part in _parts(name, text))
    if name == "seeds" and "," in text:  # a count, or the seeds by name
        return tuple(_convert(name, part, int) for part in _parts(name, text))
    if default is None:
        value = _literal(text)
        product = isinstance(value, str) and _PRODUCT.fullmatch(value)
        require(not product, f"{name} takes a value, such as 1000 or 1e3, not a calculation; got {value!r}.")
        if isinstance(value, float) and value.is_integer():
            return int(value)  # 1e3 may be meant for a whole number, and 1000 is as good for any other
        return tuple(value) if isinstance(value, list) else value
    require(
        isinstance(default, bool | int | float),
        f"{name} cannot be set from the command line: its default is a {type(default).__name__}.",
    )
    return _convert(name, _literal(text), type(default))


def _convert(name: str, value: Any, kind: type) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and number and math.isfinite(value) and value == int(value):
        return int(value)
    if kind is float and number and math.isfinite(value):
        return float(value)
    if kind is str and not isinstance(value, list | tuple | dict):
        return str(value)
    if kind is object:
        return value
    wanted = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}[kind]
    shape = {int: ", such as 1000 or 1e3", float: ", such as 0.5 or 1e-3"}.get(kind, "")  # for who wrote 10**3
    raise InputError(f"{name} takes {wanted}{shape if isinstance(value, str) else ''}; got {value!r}.")


def _common_kind(values: Sequence[Any]) -> type:
    """What the elements of a default are; an int among floats is a float."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return float
    only = kinds.pop() if len(kinds) == 1 else object
    return only if only in (bool, int, float, str) else object


def _parts(name: str, text: str) -> list[Any]:
    text = text.strip()
    if not text:  # rates= for none
        return []
    if text[0] not in "([{'\"":
        given = [part.strip() for part in text.split(",")]
        way_out = f"write {name}={','.join(filter(None, given))}" if any(given) else "give values between commas"
        require(all(given), f"{name} has a comma too many in {text!r}; {way_out}.")
    value = _literal(text)
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str) and "," in value:
        return [_literal(part) for part in value.split(",")]
    return [value]


def _literal(text: str) -> Any:
    """A Python or JSON literal; anything else is the text itself."""
    text = text.strip()
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for read in (ast.literal_eval, json.loads):
        try:
            return read(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return text


def _plain_text(text: str) -> str:
    value = _literal(text)
    return value if isinstance(value, str) else text
