"""A library call changes nothing in the process that makes it: threads, environment, allocator, warnings, random state.

Every public function that trains, sweeps, judges or forecasts is called in a small setting, in a process of its own
that has only imported libraries: here, the type checker of the tests draws random numbers, and torch has one thread.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "import sys, pathlib, side_effects; side_effects.main(pathlib.Path(sys.argv[1]))"  # workers import none of it


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each call changed, by the name of the call."""
    folder = tmp_path_factory.mktemp("side_effects")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=environment,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    return dict(json.loads(said.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "call",
    ["train", "train_validated", "train_epochs", "integrate", "sweep", "sweep_in_processes", "sweep_that_is_refused",
     "judge", "judge_all", "judge_all_in_processes", "save_and_load", "report", "export", "forecast_templates",
     "forecast_corpus"],
)  # fmt: skip
def test_nothing_is_different_afterwards(changes: dict[str, list[str]], call: str) -> None:
    assert changes[call] == []


def test_a_change_would_be_noticed(changes: dict[str, list[str]]) -> None:
    expected = {"torch threads", "environment", "numpy errors", "warning filters", "allocator", "numpy random"}
    assert expected <= set(changes["change_everything"])
