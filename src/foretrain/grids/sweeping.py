"""Runs an experiment, or a function of one's own, over a grid of settings."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from foretrain.core.engines import cluster as cluster_at
from foretrain.core.errors import require, require_known
from foretrain.core.provenance import function_digest, unknown_values
from foretrain.core.streams import seed_list
from foretrain.grids.values import values_of
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Parameter, parameters_of
from foretrain.ledger.tiers import TIERS
from foretrain.runs.stored import RunFolder
from foretrain.runs.sweep import sweep as run_pieces
from foretrain.show.finding import find_experiment

FEW_PIECES = 250  # into which the grid of a plain function is cut


@dataclass(frozen=True)
class Plan:
    """What is run: a function, the arguments that vary, and those that do not."""

    name: str
    function: Callable[..., Any]
    cut: Mapping[str, Sequence[Any]]
    fixed: Mapping[str, Any]
    axes: Mapping[str, str]
    one_at_a_time: Sequence[str] = ()
    varied: Sequence[str] = ()  # among `fixed`: each value needs a place of its own in the result
    together: int = 1
    files: Sequence[str] = field(default_factory=tuple)
    source: str | None = None  # a digest of the code, if the function's module does not say all

    def run(
        self,
        out: str | Path,
        *,
        jobs: int = 1,
        cluster: str | None = None,
        piece: int | None = None,
        fresh: bool = False,
    ) -> RunFolder:
        """Compute what is missing. `piece` is the number of cells that are computed and written at once."""
        require(jobs >= 1, f"jobs must be at least 1; got {jobs}.")
        with nullcontext() if cluster is None else cluster_at(cluster) as engine:
            return run_pieces(
                self.name,
                self.function,
                cut=self.cut,
                fixed=self.fixed,
                axes=self.axes,
                one_at_a_time=self.one_at_a_time,
                varied=self.varied,
                together=self.together,
                piece=piece,
                files=self.files,
                source=self.source,
                root=out,
                jobs=jobs,
                engine=engine,
                fresh=fresh,
            )


def plan_of(experiment: Experiment, arguments: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> Plan:
    """An experiment with these arguments, some of them over a grid.

    What the experiment takes several values of, it gets as they are, and its result must have an axis for them. For
    other arguments it is called once per value, and its result gets an axis with the name of the argument.
    """
    parameters = experiment.parameters()
    several = {name: tuple(values) for name, values in grid.items() if parameters[name].several}
    single = {name: list(values) for name, values in grid.items() if name not in several}
    axes, lists, fixed = experiment.split({**arguments, **several})
    fixed = {name: value for name, value in fixed.items() if name not in single}
    return Plan(
        experiment.id,
        experiment.cell,
        {**single, **axes, **lists},
        fixed,
        experiment.batched,
        one_at_a_time=[*single, *axes],
        varied=[name for name, values in several.items() if name in fixed and len(values) > 1],
        together=experiment.together,
        files=experiment.files(),
    )


def sweep(
    experiment: str | Callable[..., Any],
    *,
    grid: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    tier: str = "paper",
    out: str | Path = "runs",
    jobs: int = 1,
    cluster: str | None = None,
    piece: int | None = None,
    fresh: bool = False,
    **arguments: Any,
) -> RunFolder:
    """Run an experiment, or a function of your own, for every combination of the values in `grid`.

    Values are sequences, or text such as "1:10:log5" (five values with equal ratios) and "0:1:5". An experiment is
    named as in `foretrain list --experiments`; its other arguments are those of the `tier`, unless given here. A
    function is called with one value of each argument, and gives a number, numbers by name, or a Dataset.

    Results go to `out`, a folder or anything that fsspec opens (s3://bucket/runs), piece by piece; the same call goes
    on where it stopped. `jobs` is the number of local processes, `cluster` the address of a Dask scheduler. The result
    has `.dataset()`, and its `.path` opens with `xarray.open_zarr(path / "sweep.zarr")` while it is running.
    """
    given = dict(grid or {})
    if not isinstance(experiment, str):
        plan = _plan_of_function(experiment, given, seeds, arguments)
        try:
            return plan.run(out, jobs=jobs, cluster=cluster, piece=piece, fresh=fresh)
        except Exception as error:
            _hint_at_grid(error, arguments)
            raise
    require_known("tier", tier, TIERS)
    found = find_experiment(experiment)
    parameters = found.parameters()
    for name in (*given, *arguments):
        require_known("setting", name, parameters)
    if seeds is not None:
        require("seeds" in parameters, f"{found.id} draws no random numbers, so it takes no seeds.")
        arguments["seeds"] = seeds
    values = {name: values_of(parameters[name], value) for name, value in given.items()}
    plan = plan_of(found, {**found.arguments(tier), **arguments}, values)
    return plan.run(out, jobs=jobs, cluster=cluster, piece=piece, fresh=fresh)


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
