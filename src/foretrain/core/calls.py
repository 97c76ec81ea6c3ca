"""Calls a function with those entries of a setting that it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def call_with(function: Callable[..., Any], setting: Mapping[str, Any]) -> Any:
    """Call a function with those names of the setting that it takes."""
    return function(**taken_by(function, setting))


def taken_by(function: Callable[..., Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Those entries of a setting that are parameters of the function; all of them if it takes any keyword."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return dict(setting)
    return {p.name: setting[p.name] for p in parameters if p.name in setting}
