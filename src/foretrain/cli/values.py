"""Reads `--set name=value` according to the description of the parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foretrain.core.errors import InputError, require
from foretrain.ledger.parameters import Parameter, require_setting


def read_settings(given: Sequence[str], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """`["eta_z=.5,1", "steps=10"]` -> `{"eta_z": (.5, 1), "steps": 10}`, or an error of one sentence."""
    settings: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for assignment in given:
        name, equals, text = assignment.partition("=")
        require(bool(equals), f"--set takes name=value; got {assignment!r}.")
        require(bool(parameters), f"This experiment has nothing to set; got {assignment!r}.")
        require_setting(name, parameters)
        if name in texts:
            several = parameters[name].several and texts[name] and text
            fix = f"give all values at once: --set {name}={texts[name]},{text}" if several else "choose one"
            raise InputError(f"--set gives {name} twice, as {texts[name]!r} and as {text!r}; {fix}.")
        texts[name] = text
        settings[name] = parameters[name].read(text)
    return settings
