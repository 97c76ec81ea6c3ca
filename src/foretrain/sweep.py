"""A sweep on disk: the grid of an experiment is cut into shards, each computed and saved by itself.

An experiment takes a sequence on each of its sweep axes and returns a trajectory with these axes, so a
shard is the same function called with one value of each cut axis. Shards run one after another, in local
processes, or on a Dask cluster; who computes a shard cannot change it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import xarray as xr

from foretrain.runfolder import RunFolder

Progress = Callable[[int, int], None]  # shards done, shards in all


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

    `executor` is anything with `submit` (a `dask.distributed.Client.get_executor()` for a cluster).
    """
    folder = RunFolder.at(root, experiment, {**fixed, **cut})
    cells = dict(_cells(cut))
    missing = {name: cell for name, cell in cells.items() if not folder.has(name)}
    done = len(cells) - len(missing)
    report = progress or (lambda done, total: None)
    report(done, len(cells))
    for name, dataset in _computed(function, fixed, missing, jobs, executor):
        folder.put(name, dataset)
        done += 1
        report(done, len(cells))
    folder.finish()
    return folder


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
    pool = executor or ProcessPoolExecutor(min(jobs, len(cells)), mp_context=get_context("spawn"))
    try:
        futures = {pool.submit(function, **fixed, **cell): name for name, cell in cells.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        if executor is None:
            pool.shutdown(cancel_futures=True)
