"""Processes and threads: local worker processes, and how many threads this process uses.

A library call changes nothing in the process that makes it: `single_threaded` lasts for a block. What is meant to last,
`settle`, belongs in the command line's main and in the start of a worker.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import active_children, connection, get_context, parent_process
from typing import Any

from foretrain.core import progress
from foretrain.core.errors import InputError
from foretrain.core.worker_events import events_of_workers, send_event

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # in malloc.h


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `jobs` fresh processes. Leaving the block early ends them at once."""
    before = set(active_children())
    with events_of_workers() as events:
        pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin_worker, initargs=(events,))
        try:
            yield pool
        except BaseException as error:
            for child in set(active_children()) - before:
                child.terminate()  # what it was computing may take an hour; what it finished is on disk
            if isinstance(error, BrokenProcessPool):
                raise InputError(
                    "A worker process ended before its work was done. In a script of your own, put what starts jobs "
                    'below `if __name__ == "__main__":`. Otherwise it was killed, perhaps for lack of memory: fewer '
                    "jobs need less, and the same call goes on where it stopped."
                ) from error
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def settle() -> None:
    """Make this process fit for training, for good: one thread, and freed memory is kept.

    Runs are spread over processes, not threads: two torch threads on a busy small machine are slower than one.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for a torch that is not loaded yet
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Keep glibc from returning freed memory to the system, and from mapping blocks of a few MB one by one.

    Otherwise every training step gets its tensors as fresh pages and spends up to a third of its time on page faults.
    """
    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most it takes
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


class _OfThisThread(threading.local):
    """What one Python thread has set, and goes back to when its outermost block ends."""

    depth = 0
    blas: Any = None
    torch_threads: int | None = None


class _Threads:
    """Which blocks want one thread, and what to go back to when they end.

    BLAS has one setting for the whole process: the Python thread that first asked for one thread sets it back. torch
    has a setting per Python thread, and a new thread starts with the last one that any thread set: each thread sets
    back its own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.here = _OfThisThread()
        self.blocks = 0
        self.torch_default: int | None = None  # before the first of the blocks that are running

    def enter(self) -> None:
        with self.lock:
            self.blocks += 1
            self.here.depth += 1
            if self.blocks == 1:
                from threadpoolctl import threadpool_limits  # here: processes that only start workers do not need it

                self.here.blas = threadpool_limits(limits=1, user_api="blas")
            torch = sys.modules.get("torch")
            if torch is not None and self.here.torch_threads is None:
                now = torch.get_num_threads()
                self.torch_default = self.torch_default or now
                self.here.torch_threads = now if now > 1 else self.torch_default  # 1 may be another block's
                torch.set_num_threads(1)

    def leave(self) -> None:
        with self.lock:
            self.blocks -= 1
            self.here.depth -= 1
            if self.here.depth == 0:
                if self.here.blas is not None:
                    self.here.blas.restore_original_limits()
                if self.here.torch_threads is not None:
                    sys.modules["torch"].set_num_threads(self.here.torch_threads)
                self.here.blas = self.here.torch_threads = None
            if self.blocks == 0:
                self.torch_default = None


_threads = _Threads()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Keep torch and NumPy on one thread inside this block.

    Sharing out small matrices among threads takes many times as long on a busy machine. For NumPy this holds in the
    whole process, as long as the thread that asked first stays in its block.
    """
    _threads.enter()
    try:
        yield
    finally:
        _threads.leave()


def _begin_worker(events: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends the workers
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    settle()
    if events is not None:
        progress.listen_for_good(partial(send_event, events))


def _leave_with_parent() -> None:
    """A killed parent cannot tell its workers to stop; without this they would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
