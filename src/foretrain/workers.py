"""Local worker processes: one thread each, silent on Ctrl-C, and gone when the program that started them is.

And this process in one thread: for good (`one_thread`), or while a block lasts (`single_threaded`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import active_children, connection, get_context, parent_process
from typing import Any

from foretrain.errors import InputError


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `jobs` fresh processes; whatever leaves the block early ends them at once."""
    before = set(active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin)
    try:
        yield pool
    except BaseException as error:
        for child in set(active_children()) - before:
            child.terminate()  # what it had in hand may take an hour; what it finished is on disk
        if isinstance(error, BrokenProcessPool):
            raise InputError(
                "A worker process was ended from outside (out of memory?); the same command goes on where it "
                "stopped, and fewer --jobs need less memory."
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def one_thread() -> None:
    """Runs are spread over processes, not threads: two torch threads on a busy small machine are slower than one."""
    os.environ["OMP_NUM_THREADS"] = "1"  # for a torch that is not loaded yet
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # here, as torch below: those who only start workers load neither

    return ThreadpoolController()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Keep torch and NumPy from sharing out small matrices among threads: on a busy machine that takes many times as
    long. It holds for the whole process, other Python threads included."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(threads)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends the workers
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    one_thread()


def _leave_with_parent() -> None:
    """A killed parent cannot tell its workers to stop; without this they would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
