"""A sweep on disk: the grid of an experiment is cut into shards, each computed and saved by itself.

An experiment takes a sequence for each argument it can be cut along and returns a trajectory with an axis for each. A
shard is the same function called with one value of each. Shards run one after another, in local processes, or on a
Dask cluster; who computes a shard cannot change it.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from foretrain.core.errors import DamagedFile, InputError, MissingData, require, require_distinct
from foretrain.core.files import remove_abandoned
from foretrain.core.progress import Progress, tell
from foretrain.core.provenance import source_digest
from foretrain.core.trajectory import NOTES
from foretrain.core.workers import single_threaded, worker_pool
from foretrain.runs.stored import NotARun, RunFolder, RunIdentity, held, take_back


class Refused(InputError):
    """The experiment itself cannot use a value it was given."""


class Shard(NamedTuple):
    """A part of the result, and the digest of the source code that computed it."""

    dataset: xr.Dataset
    source: str


def sweep(
    experiment: str,
    function: Callable[..., xr.Dataset],
    *,
    cut: Mapping[str, Sequence[Any]],
    fixed: Mapping[str, Any],
    root: Path,
    axes: Mapping[str, str] | None = None,
    files: Sequence[str] = (),
    jobs: int = 1,
    executor: Executor | None = None,
    fresh: bool = False,
) -> RunFolder:
    """Run `function(**fixed, argument=[value])` for every cell of `cut`, skipping shards that are already on disk.

    `axes` says which axis of the result each cut argument becomes (by default its own name). `files` names arguments
    whose values may be paths of files: a changed file is another run. `executor` is anything with `submit`, such as
    `dask.distributed.Client.get_executor()` for a cluster. `fresh` deletes what this very run has on disk and computes
    it again. Input that the experiment refuses leaves nothing behind. Warnings are kept with the shard
    (`trajectory.notes_of`).
    """
    for argument, values in cut.items():
        require(len(values) > 0, f"{argument} has no values; give at least one.")
        require_distinct(argument, values)
    identity = RunIdentity.of(experiment, {**fixed, **cut}, source_digest(function), files)
    path, cells = identity.path(root), dict(_cells(cut))
    finished = None if fresh else _finished(path, identity, cells)
    if finished is not None:
        tell(Progress(len(cells), len(cells), experiment))
        return finished
    absent = [place for place in (path, *path.parents) if not place.exists()]
    with held(path):
        folder = _opened(path, identity, dict(axes) if axes is not None else {name: name for name in cut}, fresh)
        remove_abandoned(path)
        if fresh:
            folder.clear()
        try:
            _compute(folder, _Noting(function), fixed, cells, jobs, executor)
        except Exception as error:  # a full disk or a lost worker keeps what is done; a refused value leaves nothing
            if path in absent and (isinstance(error, Refused) or not folder.checksums):
                take_back(path, absent)
            raise
    return folder


def _finished(path: Path, identity: RunIdentity, cells: Mapping[str, Any]) -> RunFolder | None:
    """The run, if it is on disk, done and undamaged."""
    try:
        folder = RunFolder.open(path)
    except InputError:
        return None
    done = folder.identity == identity and folder.status == "done" and all(map(folder.has, cells))
    return folder if done else None


def _opened(path: Path, identity: RunIdentity, axes: dict[str, str], fresh: bool) -> RunFolder:
    """The folder of a run whose lock is held: what is there, or a new one."""
    try:
        folder = RunFolder.open(path)
        require(
            fresh or folder.identity == identity,
            f"{path} holds another run than its name says; move that run elsewhere, or replace it with --fresh.",
        )
        if folder.identity == identity:
            return folder
    except DamagedFile as error:
        warnings.warn(f"{error} The run is computed again.", stacklevel=3)
    except NotARun:
        pass  # none yet
    folder = RunFolder(path, identity, axes)
    folder.write()
    return folder


def _compute(
    folder: RunFolder,
    function: Callable[..., Shard],
    fixed: Mapping[str, Any],
    cells: Mapping[str, Mapping[str, Any]],
    jobs: int,
    executor: Executor | None,
) -> None:
    """Every cell that is not on disk yet."""
    missing = {name: cell for name, cell in cells.items() if not folder.has(name)}
    done, name = len(cells) - len(missing), folder.identity.experiment
    tell(Progress(done, len(cells), name))
    for cell, shard in _computed(function, fixed, missing, jobs, executor):
        require(
            shard.source == folder.identity.source,
            f"A worker computes {name} with other source code ({shard.source}) than this program "
            f"({folder.identity.source}); install the same version of foretrain on both.",
        )
        folder.put(cell, shard.dataset)
        done += 1
        tell(Progress(done, len(cells), name))
    folder.finish()


def _cells(cut: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, values in enumerate(itertools.product(*cut.values())):
        label = "_".join(f"{k}={v}" for k, v in zip(cut, values, strict=True) if isinstance(v, int | float))
        yield f"{number:05d}_{label}"[:120].rstrip("_"), {k: [v] for k, v in zip(cut, values, strict=True)}


def _computed(
    function: Callable[..., Shard],
    fixed: Mapping[str, Any],
    cells: Mapping[str, Mapping[str, Any]],
    jobs: int,
    executor: Executor | None,
) -> Iterator[tuple[str, Shard]]:
    if executor is None and (jobs <= 1 or len(cells) <= 1):
        for name, cell in cells.items():
            yield name, function(**fixed, **cell)
        return
    with nullcontext(executor) if executor else worker_pool(min(jobs, len(cells))) as pool:
        # A partial, because Dask's submit has keywords of its own, such as `key` and `workers`.
        futures = {pool.submit(partial(function, **fixed, **cell)): name for name, cell in cells.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()


@dataclass(frozen=True)
class _Noting:
    """An experiment that keeps the warnings it gives in its trajectory, wherever it is computed."""

    function: Callable[..., xr.Dataset]

    def __call__(self, **arguments: Any) -> Shard:
        with single_threaded(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                dataset = self.function(**arguments)
            except (MissingData, DamagedFile):
                raise  # nothing is wrong with the values
            except InputError as error:
                raise Refused(str(error)) from error
            except (MemoryError, OverflowError, np.linalg.LinAlgError) as error:
                raise Refused(
                    f"These values cannot be computed with ({type(error).__name__}: {error}); choose smaller ones."
                ) from error
        messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)]
        notes = {NOTES: json.dumps(list(dict.fromkeys(messages)))} if messages else {}
        return Shard(dataset.assign_attrs(notes), source_digest(self.function))
