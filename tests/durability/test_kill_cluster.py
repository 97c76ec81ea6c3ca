"""The parts of a Dask cluster killed again and again; `tests/runs/test_cluster.py` kills each of them once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runs.test_cluster import (
    test_a_dead_scheduler_is_one_sentence_and_the_same_call_goes_on as kill_a_scheduler,
)
from runs.test_cluster import (
    test_a_killed_worker_and_a_killed_nanny_lose_nothing as kill_a_worker_and_a_nanny,
)

TIMES = 5


@pytest.mark.full
@pytest.mark.parametrize("kill", [kill_a_worker_and_a_nanny, kill_a_scheduler])
def test_killed_again_and_again(kill: Callable[[Path], None], tmp_path: Path) -> None:
    for turn in range(TIMES):
        (tmp_path / f"{turn}").mkdir()
        kill(tmp_path / f"{turn}")
