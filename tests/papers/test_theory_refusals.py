"""Public theory functions refuse what is not a number in one sentence that names the argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from foretrain.core.errors import InputError, as_floats
from foretrain.kernels.label_flow import kernel_descent
from foretrain.papers.joma import theory as joma
from foretrain.papers.scan_snap import theory as scan_snap

P = np.array([[0.4, 0.4, 0.2, 0, 0], [0.4, 0, 0, 0.4, 0.2]])
GOOD = {
    "t": 10.0, "times": [1.0, 2.0], "eta_y": 0.1, "eta_z": 0.01, "vocab": 100, "classes": 5, "c0": 0.1, "steps": 3,
    "overlap": 0.1, "probabilities": P, "task": P, "samples": 100, "failure": 0.1, "count": 10.0, "error": 0.1,
    "growth": 1.0, "feature": 0.5, "batch": 8.0,
}  # fmt: skip
RATES = ("eta_y", "eta_z", "t", "times")

BY_PARAMETER = [
    (name, parameter)
    for name in scan_snap.__all__
    if inspect.isfunction(function := getattr(scan_snap, name)) and "eta_y" in inspect.signature(function).parameters
    for parameter in inspect.signature(function).parameters
    if parameter in RATES
]


def _required(function: Callable[..., Any]) -> dict[str, str]:
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    return {p.name: str(p.annotation) for p in required}


def _taking_only_arrays(theory: Any) -> list[str]:
    functions = {name: getattr(theory, name) for name in theory.__all__ if inspect.isfunction(getattr(theory, name))}
    return [name for name, function in functions.items() if set(_required(function).values()) == {"ArrayLike"}]


# Listed now: checking types replaces the annotations of functions that have been called.
TAKING_ARRAYS = [(theory, name) for theory in (scan_snap, joma) for name in _taking_only_arrays(theory)]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("name", "parameter"), BY_PARAMETER)
@pytest.mark.parametrize("wrong", ["x", -1.0, np.nan, {"rate": 1}], ids=["text", "negative", "nan", "dictionary"])
def test_rates_and_times(name: str, parameter: str, wrong: Any) -> None:
    function = getattr(scan_snap, name)
    arguments = {required: GOOD[required] for required in _required(function)}
    function(**arguments)  # these are good, so that the refusal is of the wrong one
    with pytest.raises(InputError, match=rf"^{parameter} must be .*; got .*\.$"):
        function(**{**arguments, parameter: wrong})


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("theory", "name"), TAKING_ARRAYS)
def test_a_text_in_place_of_an_array(theory: Any, name: str) -> None:
    function = getattr(theory, name)
    with pytest.raises(InputError, match="must be a number or an array of numbers; got 'x'"):
        function(**dict.fromkeys(_required(function), "x"))


def test_most_functions_are_among_them() -> None:
    """So that the lists above do not become empty unnoticed."""
    assert {"snap_time", "predicted_logits", "applies", "decoder_growth"} <= {name for name, _ in BY_PARAMETER}
    assert len(BY_PARAMETER) > 35
    assert sum(theory is joma for theory, _ in TAKING_ARRAYS) > 25


@pytest.mark.usefixtures("as_users_run_it")
def test_kernel_descent() -> None:
    with pytest.raises(InputError, match="rate must be a finite number above 0; got 'x'"):
        kernel_descent(np.eye(2), np.eye(2), [1, -1], rate="x", steps=2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="steps must be a whole number of at least 0"):
        kernel_descent(np.eye(2), np.eye(2), [1, -1], rate=0.1, steps=1.5)  # type: ignore[arg-type]


def test_long_values_are_shortened() -> None:
    with pytest.raises(InputError) as refusal:
        as_floats("eta_y", [1.0, "x"] * 100)  # type: ignore[list-item]
    assert len(str(refusal.value)) < 120
