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
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import active_children, connection, get_context, parent_process
from typing import Any

from foretrain.core import progress
from foretrain.core.errors import InputError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # in malloc.h


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `jobs` fresh processes. Leaving the block early ends them at once."""
    before = set(active_children())
    context = get_context("spawn")
    listener = progress.current_listener()
    events = context.SimpleQueue() if listener else None
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker, initargs=(events,))
    with _passed_on(events, listener) if events and listener else nullcontext():
        try:
            yield pool
        except BaseException as error:
            for child in set(active_children()) - before:
                child.terminate()  # what it was computing may take an hour; what it finished is on disk
            if isinstance(error, BrokenProcessPool):
                raise InputError(
                    "A worker process was killed (out of memory?); the same command goes on where it stopped, and "
                    "fewer --jobs need less memory."
                ) from error
            raise
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _passed_on(events: Any, listener: progress.Listener) -> Iterator[None]:
    """Tell this process's listener what its workers tell."""

    def pass_on() -> None:
        while (event := events.get()) is not None:
            listener(event)

    thread = threading.Thread(target=pass_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        events.put(None)
        thread.join(timeout=5)


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


@contextmanager
def single_threaded() -> Iterator[None]:
    """Keep torch and NumPy on one thread inside this block.

    Sharing out small matrices among threads takes many times as long on a busy machine. This holds for the whole
    process, other Python threads included, until the block is left.
    """
    from threadpoolctl import threadpool_limits  # here, because processes that only start workers do not need it

    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else None
    if torch:
        torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        if torch:
            torch.set_num_threads(threads)


def _begin_worker(events: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends the workers
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    settle()
    if events is not None:
        progress.listen_for_good(events.put)


def _leave_with_parent() -> None:
    """A killed parent cannot tell its workers to stop; without this they would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
