"""Who computes the pieces of a run, or judges claims: this process, processes of this machine, or a Dask cluster.

An engine takes calls and gives their results as they come. It never has more calls under way than its workers can soon
begin, so that a grid of any size needs no memory in the process that hands out the work.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from foretrain.core.errors import InputError
from foretrain.core.progress import Progress, tell
from foretrain.core.quiet import quiet_dask
from foretrain.core.workers import worker_pool

Key = TypeVar("Key", bound=Hashable)
AHEAD = 2  # calls per worker: one that it computes and one that waits
LOOK_EVERY = 5.0  # seconds after which the number of workers is asked for again, if no call has ended


@runtime_checkable
class Engine(Protocol):
    """Computes calls and gives each result with the key of its call, in any order."""

    own_process: bool  # whether calls run in this very process

    def results(self, calls: Iterable[tuple[Key, Callable[[], Any]]]) -> Iterator[tuple[Key, Any]]:
        """Each result with the key of its call, as soon as it is there."""


class Serial:
    """One call after another, in this process."""

    own_process = True

    def results(self, calls: Iterable[tuple[Key, Callable[[], Any]]]) -> Iterator[tuple[Key, Any]]:
        """Results in the order of the calls."""
        for key, call in calls:
            yield key, call()


class Processes:
    """Local processes with one thread each."""

    own_process = False

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def results(self, calls: Iterable[tuple[Key, Callable[[], Any]]]) -> Iterator[tuple[Key, Any]]:
        """Results in the order in which processes finish."""
        with worker_pool(self.jobs) as pool:
            yield from bounded(pool, calls, lambda: AHEAD * self.jobs)


class Cluster:
    """An existing Dask cluster. Dask computes the calls of a lost worker elsewhere."""

    own_process = False

    def __init__(self, client: Any, address: str) -> None:
        self.client, self.address = client, address

    def results(self, calls: Iterable[tuple[Key, Callable[[], Any]]]) -> Iterator[tuple[Key, Any]]:
        """Results in the order in which workers finish."""

        on_workers = ((key, partial(_on_worker, call)) for key, call in calls)
        yield from bounded(self.client.get_executor(pure=False), on_workers, self._room)

    def _room(self) -> int:
        """How many calls may be under way. A cluster may start without workers and submit jobs only for calls."""
        threads = sum(self.client.nthreads().values())
        if not threads:
            tell(Progress(0, 0, f"waiting: the cluster at {self.address} has no workers yet", inner=True))
        return AHEAD * max(1, threads)


def _on_worker(call: Callable[[], Any]) -> Any:
    """Without Dask inside the call: xarray would ask the scheduler for a lock to write a file in memory."""
    import dask

    with dask.config.set(scheduler="synchronous"):
        return call()


def engine_of(jobs: int) -> Engine:
    """This process, or `jobs` others."""
    return Processes(jobs) if jobs > 1 else Serial()


def bounded(
    executor: Executor, calls: Iterable[tuple[Key, Callable[[], Any]]], most: Callable[[], int]
) -> Iterator[tuple[Key, Any]]:
    """Results of calls on an executor, with at most `most()` of them under way."""
    under_way: dict[Future[Any], Key] = {}
    for key, call in calls:
        while len(under_way) >= most():
            yield from _finished(under_way)
        under_way[executor.submit(call)] = key
    while under_way:
        yield from _finished(under_way)
        most()  # says so if the last workers are gone


def _finished(under_way: dict[Future[Any], Key]) -> Iterator[tuple[Key, Any]]:
    """What has ended by now, or ends in the next few seconds; results come before the first failure."""
    ended = wait(under_way, timeout=LOOK_EVERY, return_when=FIRST_COMPLETED).done
    for future in sorted(ended, key=lambda future: future.cancelled() or future.exception() is not None):
        yield under_way.pop(future), future.result()


@contextmanager
def cluster(address: str) -> Iterator[Cluster]:
    """The Dask cluster whose scheduler has this address, such as tcp://scheduler:8786."""
    if importlib.util.find_spec("distributed") is None:
        raise InputError("--cluster needs Dask, which is not installed; install foretrain with its extra 'cluster'.")
    from distributed import Client, KilledWorker

    try:
        client = Client(address, timeout="5s", set_as_default=False)  # else xarray computes through it, too
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"There is no Dask scheduler at {address!r} ({type(error).__name__}); start one, or correct the address."
        ) from error
    try:
        with quiet_dask():
            yield Cluster(client, address)
    except (CancelledError, OSError) as error:
        if isinstance(error, OSError) and client.status == "running":
            raise
        raise InputError(
            f"The scheduler at {address} is gone; what was finished is kept, and the same command goes on from there "
            "when a scheduler runs again."
        ) from error
    except KilledWorker as error:
        raise InputError(
            f"The cluster at {address} lost several workers to the same piece (out of memory?); give workers more "
            "memory, or choose a smaller --piece."
        ) from error
    except RuntimeError as error:
        if "deserialization" not in str(error):  # Dask says it in this word; other errors come from what is computed
            raise
        raise InputError(
            f"The cluster at {address} cannot load what it is to compute ({_first_cause(error)}); install the same "
            "version of foretrain, and the module of a function of your own, on its scheduler and workers."
        ) from error
    finally:
        client.close(timeout=2)


def _first_cause(error: BaseException) -> str:
    """The error that the others came from, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
