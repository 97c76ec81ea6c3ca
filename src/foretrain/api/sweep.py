"""Run an experiment, or a function of one's own, for every combination of some values."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foretrain.api.grid_values import values_of
from foretrain.api.run import Run, run
from foretrain.core.errors import require
from foretrain.core.provenance import function_digest, unknown_values
from foretrain.core.streams import seed_list
from foretrain.ledger.parameters import Parameter, parameters_of
from foretrain.runs.sweep import Plan

FEW_PIECES = 250  # into which the grid of a plain function is cut


def sweep(
    experiment: str | Callable[..., Any],
    *,
    grid: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    tier: str = "fast",
    out: str | Path = "runs",
    jobs: int = 1,
    cluster: str | None = None,
    piece: int | None = None,
    fresh: bool = False,
    **arguments: Any,
) -> Run:
    """Run an experiment, or a function of your own, for every combination of the values in `grid`.

    Values are sequences, or text such as "1:10:log5" (five values with equal ratios) and "0:1:5". For an experiment
    this is `run`. A function is called with one value of each argument, and gives a number, numbers by name, or a
    Dataset; it has no tiers.

    Results go to `out`, a folder or anything that fsspec opens (s3://bucket/runs), piece by piece; the same call goes
    on where it stopped. `jobs` is the number of local processes, `cluster` the address of a Dask scheduler. The result
    has `.dataset()`, and its `.path` opens with `xarray.open_zarr(path / "sweep.zarr")` while it is running.
    """
    how: dict[str, Any] = {"jobs": jobs, "cluster": cluster, "piece": piece, "fresh": fresh}
    if isinstance(experiment, str):
        return run(experiment, grid=grid, seeds=seeds, tier=tier, out=out, **how, **arguments)
    plan = _plan_of_function(experiment, dict(grid or {}), seeds, arguments)
    try:
        return Run(plan.run(out, **how))
    except Exception as error:
        _hint_at_grid(error, arguments)
        raise


def _plan_of_function(
    function: Callable[..., Any], grid: Mapping[str, Any], seeds: int | Sequence[int] | None, fixed: Mapping[str, Any]
) -> Plan:
    require(
        inspect.isfunction(function),
        f"A sweep takes a plain function (def or lambda), and {_name_of(function)} is a {type(function).__name__}; "
        "wrap it in one.",
    )
    unknown = unknown_values(function)
    require(
        not unknown,
        f"{_name_of(function)} uses {', '.join(unknown)} from outside, and a run cannot tell whether that has changed; "
        "make it inside the function.",
    )
    taken = inspect.signature(function).parameters
    anything = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values())
    described = parameters_of(function)
    values: dict[str, list[Any]] = {}
    for name, given in grid.items():
        require(
            anything or name in taken, f"{_name_of(function)} takes no argument {name!r}; it takes {', '.join(taken)}."
        )
        values[name] = _own_values(name, given, described.get(name))
    if seeds is not None:
        name = next((name for name in ("seed", "seeds") if name in taken), "seed")
        require(anything or name in taken, f"{_name_of(function)} takes no argument 'seed', so it takes no seeds.")
        values[name] = seed_list(seeds)
    for name in fixed:
        require(name not in values, f"{name} is given twice: as values of the grid and as an argument.")
        require(
            anything or name in taken, f"{_name_of(function)} takes no argument {name!r}; it takes {', '.join(taken)}."
        )
    cells = math.prod(len(listed) for listed in values.values())
    return Plan(
        f"own/{_name_of(function)}",
        function,
        values,
        dict(fixed),
        {name: name for name in values},
        one_at_a_time=list(values),
        together=max(1, math.ceil(cells / FEW_PIECES)),
        source=function_digest(function),
    )


def _hint_at_grid(error: Exception, arguments: Mapping[str, Any]) -> None:
    """Whoever writes rate=[.1, .2] gives the function a list; perhaps it was to be called once for each value."""
    listed = [name for name, value in arguments.items() if isinstance(value, list | tuple | range | np.ndarray)]
    if listed:
        each = ", ".join(f'"{name}": {arguments[name]!r}' for name in listed)
        error.add_note(
            f"The function got all values of {' and of '.join(listed)} at once; for one call per value, give "
            f"grid={{{each}}}."
        )


def _own_values(name: str, given: Any, described: Parameter | None) -> list[Any]:
    """The values of an argument of someone's own function: a list, a single value, or text such as "1:10:log5"."""
    if isinstance(given, str):
        require(
            described is not None and bool(described.schema().get("type")),
            f"{name} has no type, so that {given!r} cannot be read; write {name}: float in the function, or give "
            "a list.",
        )
        assert described is not None
        return values_of(described, given)
    values = list(given) if isinstance(given, Iterable) else [given]
    require(bool(values), f"{name} has no values; give at least one.")
    for value in values:
        require(
            isinstance(value, bool | int | float | str | np.generic),
            f"Values of a grid are numbers or text, and {name} has {value!r}; give it a name, and look that up in the "
            "function.",
        )
    return values


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
