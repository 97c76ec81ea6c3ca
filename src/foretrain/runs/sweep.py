"""A sweep: the grid of an experiment is cut into pieces, each computed and kept by itself.

An experiment takes a sequence for each argument it can be cut along and returns a trajectory with an axis for each.
Pieces are computed in this process, in local processes, or on a Dask cluster. Whoever computed a piece writes it; this
process hands out the work and counts. Who computes a piece cannot change it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.engines import Engine, engine_of
from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.progress import Progress, tell
from foretrain.core.provenance import (
    installed_digest,
    installed_module_digest,
    modules_beside,
    source_digest,
    versions,
)
from foretrain.core.trajectory import NOTES
from foretrain.core.workers import single_threaded
from foretrain.runs import shards
from foretrain.runs.grid import Grid, Piece, has_axis
from foretrain.runs.identity import RunIdentity
from foretrain.runs.run_folder import NotARun, RunFolder, held, take_back
from foretrain.runs.storage import Storage


def sweep(
    experiment: str,
    function: Callable[..., Any],
    *,
    cut: Mapping[str, Sequence[Any]],
    fixed: Mapping[str, Any],
    root: str | Path | Storage,
    axes: Mapping[str, str] | None = None,
    one_at_a_time: Sequence[str] = (),
    varied: Sequence[str] = (),
    together: int = 1,
    piece: int | None = None,
    files: Sequence[str] = (),
    source: str | None = None,
    jobs: int = 1,
    engine: Engine | None = None,
    fresh: bool = False,
) -> RunFolder:
    """Run `function(**fixed, argument=[values])` for every piece of the grid `cut` that is not there already.

    `axes` says which axis of the result each cut argument becomes (by default its own name). Arguments listed in
    `one_at_a_time` are given to the function as single values, and the axis is added to what it gives. Those listed in
    `varied` are among `fixed`, and each of their values must have its own place in the result. `together` is the number
    of cells in a piece, `piece` the number that someone asked for instead. `files` names arguments whose values may be
    paths of files: a changed file makes another run. `source` is a digest of the code, by default that of the
    function's module and all that it imports. `root` is a folder, or anything that fsspec opens, such as
    s3://bucket/runs. `fresh` deletes what this very run has there and computes it again. A piece that
    fails takes no finished one with it; a run that fails before anything is finished leaves nothing behind. Warnings
    are kept with the result (`trajectory.notes_of`).
    """
    grid = Grid.cut(cut, axes or {}, together=together, piece=piece, one_at_a_time=one_at_a_time)
    identity = RunIdentity.of(experiment, {**fixed, **cut}, source or source_digest(function), files, list(cut))
    place = Storage.of(root) / experiment / identity.name
    engine = engine or engine_of(min(jobs, int(np.prod(grid.blocks))))
    require(
        engine.own_process or not place.in_this_process_only,
        f"{place} lives in one process, and other processes cannot write to it; choose a folder or another store.",
    )
    finished = None if fresh else _finished(place, identity)
    if finished is not None:
        tell(Progress(grid.cells, grid.cells, experiment))
        finished.reused = True
        return finished
    absent = [above for above in (place.path, *place.path.parents) if not above.exists()] if place.path else []
    is_new = place.path in absent
    with held(place):
        folder = _opened(place, identity, grid, fresh)
        folder.mend()
        if fresh:
            folder.clear()
        try:
            code = installed_digest(function)
            beside = {module: installed_module_digest(module) for module in modules_beside(function)}
            compute = _Piece(
                place.absolute(), function, dict(fixed), folder.grid, identity, code, beside, tuple(varied)
            )
            _compute(folder, compute, engine)
        except Exception:
            if is_new and not folder.done().any():
                take_back(place, absent)
            raise
    return folder


def _finished(place: Storage, identity: RunIdentity) -> RunFolder | None:
    """The run, if it is there, done and undamaged."""
    try:
        folder = RunFolder.open(place)
    except InputError:
        return None
    if not folder.identity.is_that_of(identity) or folder.status != "done":
        return None
    whole = (not folder.is_made or folder.store.metadata() == folder.metadata) and bool(folder.done().all())
    return folder if whole else None


def _opened(place: Storage, identity: RunIdentity, grid: Grid, fresh: bool) -> RunFolder:
    """The folder of a run whose lock is held: what is there, or a new one."""
    try:
        folder = RunFolder.open(place)
        require(
            fresh or folder.identity.is_that_of(identity),
            f"{place} holds another run than its name says; move that run elsewhere, or replace it with --fresh.",
        )
        if folder.identity.is_that_of(identity) and not fresh:
            # the grid as it was cut when the run began, with the values as they are given now
            folder.grid = Grid(grid.values, grid.axes, grid.lists, folder.grid.block)
            return folder
    except DamagedFile as error:
        warnings.warn(f"{error} The run is computed again.", stacklevel=3)
    except shards.OlderFormat:
        warnings.warn(f"{place} was begun by an earlier version of foretrain and is computed again.", stacklevel=3)
    except NotARun:
        pass  # none yet
    folder = RunFolder(place, identity, grid)
    folder.write()
    return folder


def _compute(folder: RunFolder, compute: _Piece, engine: Engine) -> None:
    """Every piece that is not there yet."""
    grid, name = folder.grid, folder.identity.experiment
    done = folder.done()
    missing = [piece for piece in grid.pieces() if not done[piece]]
    finished = grid.cells - sum(map(grid.size, missing))
    tell(Progress(finished, grid.cells, name))
    for piece, dataset in engine.results((piece, partial(compute, piece)) for piece in missing):
        if dataset is not None:
            folder.put(piece, dataset)
        finished += grid.size(piece)
        tell(Progress(finished, grid.cells, name))
    folder.place.clear_up()  # workers outlive a killed parent for a moment, and may have left something since we began
    folder.finish()


@dataclass(frozen=True)
class _Piece:
    """Computes a piece, wherever, and writes it.

    Before the arrays are made nobody but the process that holds the run may write: the piece is given back to it.
    """

    place: Storage
    function: Callable[..., Any]
    fixed: dict[str, Any]
    grid: Grid
    identity: RunIdentity
    code: str  # digest of the installed code, which must be the same for all
    beside: Mapping[str, str]  # digests of the modules beside a script, which must be the same for all, too
    varied: tuple[str, ...]  # arguments in `fixed` that the result must have an axis for

    def __call__(self, piece: Piece) -> xr.Dataset | None:
        self._require_same_run()
        dataset = self._computed(piece)
        folder = RunFolder.open(self.place)
        if not folder.is_made:
            return dataset
        folder.put(piece, dataset)
        return None

    def _require_same_run(self) -> None:
        here, there = installed_digest(self.function), self.code
        require(
            here == there,
            f"A worker computes {self.identity.experiment} with other source code ({here}) than this program "
            f"({there}); install the same version of foretrain on both.",
        )
        for module, ours in self.beside.items():
            theirs = installed_module_digest(module)
            require(
                theirs == ours,
                f"A worker computes {self.identity.experiment} with another module {module} ({theirs}) than this "
                f"program ({ours}); make the modules beside your script the same everywhere, and restart the workers.",
            )
        other = {name: known for name, known in versions().items() if self.identity.versions.get(name) != known}
        require(
            not other,
            "A worker has "
            + ", ".join(f"{name} {known}" for name, known in other.items())
            + " where this program has "
            + ", ".join(f"{self.identity.versions.get(name)}" for name in other)
            + "; install the same versions on both.",
        )
        try:
            RunFolder.open(self.place)
        except NotARun as error:
            raise InputError(
                f"A worker cannot see {self.place}; choose a folder that all machines share, or a store such as s3://."
            ) from error

    def _require_every_value(self, dataset: xr.Dataset) -> None:
        """Some experiments choose among the values of an argument, or use them all for one result."""
        for name in self.varied:
            require(
                has_axis(dataset, name, self.fixed[name]),
                f"{self.identity.experiment} gives one result for all values of {name}, not one for each; give them "
                f"with --set {name}=… instead, or run it once for every value.",
            )

    def _computed(self, piece: Piece) -> xr.Dataset:
        with single_threaded(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                dataset = self.grid.compute(self.function, self.fixed, piece)
                self._require_every_value(dataset)
            except (MemoryError, OverflowError, np.linalg.LinAlgError) as error:
                refusal = InputError(
                    f"These values cannot be computed with ({type(error).__name__}: {error}); choose smaller ones. "
                    "Finished pieces are kept."
                )
                for note in getattr(error, "__notes__", ()):
                    refusal.add_note(note)
                raise refusal from error
        messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)]
        return dataset.assign_attrs({NOTES: json.dumps(list(dict.fromkeys(messages)))}) if messages else dataset
