"""A clock that goes backwards, and file times in the past and in the future: nothing depends on them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from durability.harness import Commands, Kill, differences, files, left_behind
from durability.test_kill_check import CHECK, verdicts
from durability.test_kill_sweep import SWEEP

LATER = {"clock": 400.0}  # days
EARLIER = {"clock": -9000.0}


def set_times(folder: Path, when: float) -> None:
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (when, when))


@pytest.mark.parametrize("when", [0.0, pytest.param(4e9, marks=pytest.mark.full)])
def test_a_killed_sweep_goes_on_before_it_began(when: float, program: Commands, tmp_path: Path) -> None:
    whole = program.run(*SWEEP, "--out", "whole", folder=tmp_path, watched=True)
    command = (*SWEEP, "--out", "runs")
    killed = program.run(*command, folder=tmp_path, kill=Kill(whole.events * 2 // 3, 0.0), **LATER)
    assert killed.code == -9
    set_times(tmp_path / "runs", when)
    ended = program.run(*command, folder=tmp_path, watched=True, **EARLIER)
    assert ended.code == 0
    assert 0 < ended.events < whole.events, "what was finished is not computed again"
    assert differences(files(tmp_path / "runs"), files(tmp_path / "whole")) == []
    assert left_behind(tmp_path / "runs") == []


def test_a_finished_run_and_a_check_stay_finished(program: Commands, tmp_path: Path) -> None:
    assert program.run(*SWEEP, "--out", "runs", folder=tmp_path, **LATER).code == 0
    whole = program.run(*CHECK, "--runs", "whole", folder=tmp_path, watched=True)
    killed = program.run(*CHECK, "--runs", "runs", folder=tmp_path, kill=Kill(whole.events * 2 // 3, 0.0), **LATER)
    assert killed.code == -9
    set_times(tmp_path / "runs", 0.0)
    before = files(tmp_path / "runs" / "toy")
    assert program.run(*SWEEP, "--out", "runs", folder=tmp_path, **EARLIER).code == 0
    assert files(tmp_path / "runs" / "toy") == before
    ended = program.run(*CHECK, "--runs", "runs", folder=tmp_path, **EARLIER)
    assert "Continuing an interrupted check" in ended.said
    assert differences(verdicts(tmp_path / "runs" / "check"), verdicts(tmp_path / "whole" / "check")) == []
