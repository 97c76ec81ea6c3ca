"""A block in one thread."""

from __future__ import annotations

import threading

import torch
from threadpoolctl import threadpool_info, threadpool_limits

from foretrain.core.workers import single_threaded


def test_overlapping_blocks_in_threads_leave_everything_as_it_was():
    """The first block ends before the second, which began while the first one had set a single thread."""
    torch.set_num_threads(2)
    started, finish = threading.Event(), threading.Event()
    inside: list[int] = []

    def block():
        with single_threaded():
            inside.append(torch.get_num_threads())
            started.set()
            finish.wait(10)
        inside.append(torch.get_num_threads())

    try:
        with threadpool_limits(2, user_api="blas"):
            thread = threading.Thread(target=block)
            with single_threaded():
                thread.start()
                started.wait(10)
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 2
            finish.set()
            thread.join()
            assert inside == [1, 2]
            assert {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"} == {2}
            later: list[int] = []
            new = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
            new.start()
            new.join()
            assert later == [2]
    finally:
        torch.set_num_threads(1)


def test_torch_and_numpy_keep_to_one_thread_only_within():
    def threads():
        of_numpy = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
        return [torch.get_num_threads(), *of_numpy]

    torch.set_num_threads(2)
    try:
        with threadpool_limits(2, user_api="blas"):
            assert set(threads()) == {2}
            with single_threaded():
                assert set(threads()) == {1}
            assert set(threads()) == {2}
    finally:
        torch.set_num_threads(1)
