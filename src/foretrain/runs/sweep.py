"""A sweep: the grid of an experiment is cut into pieces, each computed and kept by itself.

An experiment takes a list of values, or one value at a time, for each argument it can be cut along. The result has an
axis for each of them.
Pieces are computed in this process, in local processes, or on a Dask cluster. The worker that computed a piece writes
it; this process hands out the work, counts, and keeps the record. A piece has the same numbers wherever it is computed.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.engines import Engine, engine_of
from foretrain.core.engines import cluster as cluster_at
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
from foretrain.runs.grid import Grid, Piece, has_axis
from foretrain.runs.identity import RunIdentity
from foretrain.runs.run_folder import RECORD, NotARun, RunFolder, held, take_back
from foretrain.runs.storage import Storage


@dataclass(frozen=True)
class Plan:
    """What is run: a function, the arguments that vary, and those that do not."""

    experiment: str
    function: Callable[..., Any]
    cut: Mapping[str, Sequence[Any]]  # all values of each argument that varies
    fixed: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)  # of the result, if they are not called like the argument
    one_at_a_time: Sequence[str] = ()  # in `cut`: the function takes a single value, and the result gets an axis for it
    varied: Sequence[str] = ()  # in `fixed`: the result must have a place for each value
    together: int = 1  # cells in a piece
    files: Sequence[str] = ()  # arguments that may be paths: a changed file makes another run
    source: str | None = None  # digest of the code, if the function's module and its imports do not say all

    def run(
        self,
        root: str | Path | Storage,
        *,
        jobs: int = 1,
        cluster: str | None = None,
        engine: Engine | None = None,
        piece: int | None = None,
        fresh: bool = False,
    ) -> RunFolder:
        """Call `function(**fixed, argument=[values])` for every piece of the grid that is not there already.

        `root` is a folder, or anything that fsspec opens, such as s3://bucket/runs. Pieces are computed by `jobs` local
        processes, by the Dask cluster at the address `cluster`, or by `engine`. `piece` is the number of cells that are
        computed and written at once. `fresh` deletes what this very run has there and computes it again.

        A piece that fails takes no finished one with it; a run that fails before anything is finished leaves nothing
        behind. Warnings are kept with the result (`trajectory.notes_of`).
        """
        require(jobs >= 1, f"jobs must be at least 1; got {jobs}.")
        grid = Grid.cut(self.cut, self.axes, together=self.together, piece=piece, one_at_a_time=self.one_at_a_time)
        source = self.source or source_digest(self.function)
        identity = RunIdentity.of(self.experiment, {**self.fixed, **self.cut}, source, self.files, list(self.cut))
        storage = Storage.of(root) / self.experiment / identity.name
        with nullcontext(engine) if cluster is None else cluster_at(cluster) as workers:
            return self._run(storage, identity, grid, workers or engine_of(min(jobs, int(np.prod(grid.blocks)))), fresh)

    def _run(self, storage: Storage, identity: RunIdentity, grid: Grid, engine: Engine, fresh: bool) -> RunFolder:
        require(
            engine.own_process or not storage.in_this_process_only,
            f"{storage} lives in one process, and others cannot write to it; choose a folder or another store.",
        )
        finished = None if fresh else _finished(storage, identity)
        if finished is not None:
            tell(Progress(grid.cells, grid.cells, self.experiment))
            return finished
        absent = [path for path in (storage.path, *storage.path.parents) if not path.exists()] if storage.path else []
        with held(storage):
            folder = _opened(storage, identity, grid, fresh)
            folder.mend()
            try:
                _compute(folder, self, engine)
            except Exception:
                with suppress(InputError):  # a full disk, say: the failure itself says more
                    folder.note_arrays(folder.store.listed_metadata())  # of pieces that no engine has handed out yet
                if storage.path in absent and not folder.done().any():
                    take_back(storage, absent)
                raise
        return folder


def _finished(storage: Storage, identity: RunIdentity) -> RunFolder | None:
    """The run, if it is there, done and undamaged."""
    try:
        folder = RunFolder.open(storage)
    except InputError:
        return None
    folder.reused = folder.identity.is_that_of(identity) and folder.is_whole()
    return folder if folder.reused else None


def _opened(storage: Storage, identity: RunIdentity, grid: Grid, fresh: bool) -> RunFolder:
    """The folder of a run whose lock is held: what is there, or a new one."""
    try:
        folder = RunFolder.open(storage)
        same = folder.identity.is_that_of(identity)
        require(
            fresh or same,
            f"{storage} holds another run than its name says; move that run elsewhere, or replace it with --fresh.",
        )
        if not fresh:
            # the grid as it was cut when the run began, with the values as they are given now
            folder.grid = replace(grid, block=folder.grid.block)
            return folder
    except DamagedFile as error:
        warnings.warn(f"{error} The run is computed again.", stacklevel=4)
    except NotARun:
        pass  # none yet
    return RunFolder.begin(storage, identity, grid)


def _compute(folder: RunFolder, plan: Plan, engine: Engine) -> None:
    """Every piece that is not there yet."""
    grid, done = folder.grid, folder.done()
    missing = [piece for piece in grid.pieces() if not done[piece]]
    finished = grid.cells - sum(map(grid.size, missing))
    tell(Progress(finished, grid.cells, plan.experiment))
    compute = _Compute(plan, folder.storage.absolute(), folder.identity, grid)
    # An object store cannot say which of two pieces was first: there, one makes the arrays before the others begin.
    alone = 0 if folder.storage.path is not None or folder.is_made else 1
    for pieces in filter(None, (missing[:alone], missing[alone:])):
        for piece, metadata in engine.results((piece, partial(compute, piece, folder.is_made)) for piece in pieces):
            folder.note_arrays(metadata)
            finished += grid.size(piece)
            tell(Progress(finished, grid.cells, plan.experiment))
    folder.storage.clear_up()  # after workers of a killed program, which outlive it for a moment
    folder.finish()


class _Compute:
    """Computes a piece and writes it, in any process."""

    def __init__(self, plan: Plan, storage: Storage, identity: RunIdentity, grid: Grid) -> None:
        self.plan, self.storage, self.identity, self.grid = plan, storage, identity, grid
        self.code = installed_digest(plan.function)  # which must be the same for all
        # and so must the modules beside a script
        self.beside = {module: installed_module_digest(module) for module in modules_beside(plan.function)}

    def __call__(self, piece: Piece, is_made: bool) -> dict[str, str]:
        """The metadata of the arrays that the piece is in, unless they were made before."""
        self._require_same_code()
        self._require_storage()
        dataset = self._computed(piece)
        self._require_storage()  # a run that is refused is taken back while other pieces are still computed
        folder = RunFolder(self.storage, self.identity, self.grid)
        folder.put(piece, dataset)
        return {} if is_made else folder.store.metadata()

    def _require_same_code(self) -> None:
        ours, theirs = installed_digest(self.plan.function), self.code
        require(
            ours == theirs,
            f"A worker computes {self.plan.experiment} with other source code ({ours}) than this program ({theirs}); "
            "install the same version of foretrain on both.",
        )
        for module, theirs in self.beside.items():
            ours = installed_module_digest(module)
            require(
                ours == theirs,
                f"A worker computes {self.plan.experiment} with another module {module} ({ours}) than this program "
                f"({theirs}); make the modules beside your script the same everywhere, and restart the workers.",
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

    def _require_storage(self) -> None:
        require(
            self.storage.has(RECORD),
            f"A worker cannot see {self.storage}; choose a folder that all machines share, or a store such as s3://.",
        )

    def _require_every_value(self, dataset: xr.Dataset) -> None:
        """Some experiments choose among the values of an argument, or use them all for one result."""
        for name in self.plan.varied:
            require(
                has_axis(dataset, name, self.plan.fixed[name]),
                f"{self.plan.experiment} gives one result for all values of {name}, not one for each; give them "
                f"with --set {name}=… instead, or run it once for every value.",
            )

    def _computed(self, piece: Piece) -> xr.Dataset:
        with single_threaded(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                dataset = self.grid.compute(self.plan.function, self.plan.fixed, piece)
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
