"""A block in one thread."""

from __future__ import annotations

import torch
from threadpoolctl import threadpool_info, threadpool_limits

from foretrain.core.workers import single_threaded


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
