"""A sweep on disk: the grid of an experiment is cut into shards, each computed and saved by itself.

An experiment takes a sequence on each of its sweep axes and returns a trajectory with these axes, so a
shard is the same function called with one value of each cut axis. Shards run one after another, in local
processes, or on a Dask cluster; who computes a shard cannot change it.
"""

from __future__ import annotations

import itertools
import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from foretrain.errors import InputError, require, require_distinct
from foretrain.runfolder import RunFolder, run_path
from foretrain.trajectory import NOTES
from foretrain.workers import one_thread, worker_pool

Progress = Callable[[int, int], None]  # shards done, shards in all


class Refused(InputError):
    """The experiment itself cannot use a value it was given."""


def sweep(
    experiment: str,
    function: Callable[..., xr.Dataset],
    *,
    cut: Mapping[str, Sequence[Any]],
    fixed: Mapping[str, Any],
    root: Path,
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> RunFolder:
    """Run `function(**fixed, axis=[value])` for every cell of `cut`, skipping shards already on disk.

    `executor` is anything with `submit` (a `dask.distributed.Client.get_executor()` for a cluster). Input that
    the experiment refuses leaves nothing behind. Warnings are kept with the shard (`trajectory.notes_of`).
    """
    for axis, values in cut.items():
        require(len(values) > 0, f"{axis} has no values; give at least one.")
        require_distinct(axis, values)
    config = {**fixed, **cut}
    path = run_path(root, experiment, config)
    absent = [place for place in (path, *path.parents) if not place.exists()]
    folder = RunFolder.at(root, experiment, config)
    cells = dict(_cells(cut))
    report = progress or (lambda done, total: None)
    if folder.status == "done" and all(map(folder.has, cells)):
        report(len(cells), len(cells))
        return folder
    try:
        with folder.held():
            _compute(folder, _Noting(function), fixed, cells, jobs, executor, report)
    except Exception as error:  # a full disk or a lost worker keeps what is done; a refused value leaves nothing
        if path in absent and (isinstance(error, Refused) or not folder.checksums):
            _remove(absent)
        raise
    return folder


def _compute(
    folder: RunFolder,
    function: Callable[..., xr.Dataset],
    fixed: Mapping[str, Any],
    cells: Mapping[str, Mapping[str, Any]],
    jobs: int,
    executor: Executor | None,
    report: Progress,
) -> None:
    """Every cell that is not on disk."""
    if folder.stale:
        folder.begin_anew()  # shards of two versions of the code must not be mixed
    missing = {name: cell for name, cell in cells.items() if not folder.has(name)}
    done = len(cells) - len(missing)
    report(done, len(cells))
    for name, dataset in _computed(function, fixed, missing, jobs, executor):
        folder.put(name, dataset)
        done += 1
        report(done, len(cells))
    folder.finish()


def _cells(cut: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, values in enumerate(itertools.product(*cut.values())):
        label = "_".join(f"{k}={v}" for k, v in zip(cut, values, strict=True) if isinstance(v, int | float))
        yield f"{number:05d}_{label}"[:120].rstrip("_"), {k: [v] for k, v in zip(cut, values, strict=True)}


def _computed(
    function: Callable[..., xr.Dataset],
    fixed: Mapping[str, Any],
    cells: Mapping[str, Mapping[str, Any]],
    jobs: int,
    executor: Executor | None,
) -> Iterator[tuple[str, xr.Dataset]]:
    if executor is None and (jobs <= 1 or len(cells) <= 1):
        for name, cell in cells.items():
            yield name, function(**fixed, **cell)
        return
    with nullcontext(executor) if executor else worker_pool(min(jobs, len(cells))) as pool:
        futures = {pool.submit(function, **fixed, **cell): name for name, cell in cells.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()


@dataclass(frozen=True)
class _Noting:
    """An experiment that keeps the warnings it gives in its trajectory, wherever it is computed."""

    function: Callable[..., xr.Dataset]

    def __call__(self, **arguments: Any) -> xr.Dataset:
        one_thread()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                dataset = self.function(**arguments)
            except InputError as error:
                raise Refused(str(error)) from error
        told = [str(w.message) for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)]
        return dataset.assign_attrs({NOTES: json.dumps(list(dict.fromkeys(told)))}) if told else dataset


def _remove(absent: Sequence[Path]) -> None:
    """Take back the folders of a refused run: the run's own, then those above it that are empty."""
    shutil.rmtree(absent[0])
    for parent in absent[1:]:
        try:
            parent.rmdir()
        except OSError:  # someone else's run is in it by now
            return
