"""What `run.json` must look like. It may come from someone else: everything is checked before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from foretrain.core.errors import DamagedFile
from foretrain.runs.grid import Grid
from foretrain.runs.identity import RunIdentity

FORMAT = 3
MOST_CELLS = 10**9

MetadataName = Annotated[str, Field(pattern=r"^(?:[^/\x00]*[^/.\x00][^/\x00]*/)?zarr\.json$")]
Values = Annotated[list[Any], Field(min_length=1)]


@dataclass(frozen=True)
class GridRecord:
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    values: list[tuple[str, Values]]  # in the order of the axes
    axes: dict[str, str]
    lists: list[str]
    block: list[Annotated[int, Field(ge=1)]]


@dataclass(frozen=True)
class RunRecord:
    """The record of a run."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal[3]
    experiment: str
    config: dict[str, Any]
    grid: GridRecord
    status: Literal["running", "done"]
    metadata: dict[MetadataName, str]
    source: str
    versions: dict[str, str]
    machine: dict[str, str]

    def identity(self) -> RunIdentity:
        return RunIdentity(self.experiment, self.config, self.source, self.versions, tuple(dict(self.grid.values)))

    def the_grid(self) -> Grid:
        return Grid(dict(self.grid.values), self.grid.axes, frozenset(self.grid.lists), tuple(self.grid.block))


_ADAPTER = TypeAdapter(RunRecord)


def checked(record: Mapping[str, Any], name: str) -> RunRecord:
    """The record, if it has the right form. DamagedFile if not."""
    try:
        run = _ADAPTER.validate_json(json.dumps(record))
    except (ValidationError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{name} is damaged: it does not have the form of a run's record.") from error
    arguments = [argument for argument, _ in run.grid.values]
    axes = [run.grid.axes.get(argument) for argument in arguments]
    grid = run.the_grid()
    fits = (
        len(set(arguments)) == len(arguments) == len(run.grid.block)
        and set(run.grid.axes) == set(arguments)
        and len(set(axes)) == len(axes)
        and set(run.grid.lists) <= set(arguments)
        and grid.cells <= MOST_CELLS
        and all(step <= size for step, size in zip(grid.block, grid.shape, strict=True))
    )
    if not fits:
        raise DamagedFile(f"{name} is damaged: the grid it describes does not fit together.")
    return run
