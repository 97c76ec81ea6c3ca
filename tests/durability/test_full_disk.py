"""A full disk: one sentence, exit code 2; with room again, the same command goes on to the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from durability.disks import fill, small_disk
from durability.harness import Commands, Ended, differences, files, left_behind, tries
from durability.test_kill_check import CHECK, verdicts
from durability.test_kill_sweep import SWEEP


def require_refused(ended: Ended) -> None:
    assert ended.code == 2, ended.said
    lines = [line for line in ended.said.splitlines() if line.strip()]
    assert len([line for line in lines if line.startswith("foretrain:")]) == 1, ended.said
    assert "disk is full" in ended.said or "No space left" in ended.said, ended.said


@tries(sample=2, full=40)
def test_a_sweep(number: int, program: Commands, tmp_path: Path) -> None:
    whole = program.run(*SWEEP, "--out", str(tmp_path / "whole"), folder=tmp_path)
    assert whole.code == 0
    expected, draw, refused = files(tmp_path / "whole"), np.random.default_rng(number), 0
    pages = sum(1 + len(content) // 4096 for content in expected.values())
    for turn in range(number):
        with small_disk(tmp_path / f"disk{turn}", "4m") as disk:
            ballast = fill(disk, but=4096 * int(draw.integers(0, pages + 10)))
            ended = program.run(*SWEEP, "--out", str(disk / "runs"), folder=tmp_path)
            if ended.code != 0:
                require_refused(ended)
                refused += 1
            ballast.unlink()
            assert program.run(*SWEEP, "--out", str(disk / "runs"), folder=tmp_path).code == 0
            assert differences(files(disk / "runs"), expected) == []
            assert left_behind(disk) == []
    assert refused >= number // 2
    print(f"{refused} of {number} disks were full")


@tries(sample=1, full=20)
def test_a_check(number: int, program: Commands, tmp_path: Path) -> None:
    assert program.run(*CHECK, "--runs", str(tmp_path / "whole"), folder=tmp_path).code == 0
    expected, draw, refused = verdicts(tmp_path / "whole"), np.random.default_rng(number), 0
    pages = sum(1 + len(content) // 4096 for content in files(tmp_path / "whole").values())
    for turn in range(number):
        with small_disk(tmp_path / f"disk{turn}", "4m") as disk:
            ballast = fill(disk, but=4096 * int(draw.integers(0, pages)))
            ended = program.run(*CHECK, "--runs", str(disk / "runs"), folder=tmp_path)
            if ended.code != 0:
                require_refused(ended)
                refused += 1
            ballast.unlink()
            assert program.run(*CHECK, "--runs", str(disk / "runs"), folder=tmp_path).code == 0
            assert differences(verdicts(disk / "runs"), expected) == []
            assert left_behind(disk) == []
    assert refused or number == 1
    print(f"{refused} of {number} disks were full")


@pytest.mark.parametrize("largest", [500, 1000, 3000])
def test_a_file_that_may_not_grow(largest: int, program: Commands, tmp_path: Path) -> None:
    """The same without root: files larger than so many bytes cannot be written."""
    command = (*SWEEP, "--out", str(tmp_path / "runs"))
    ended = program.run(*command, folder=tmp_path, largest_file=largest)
    assert ended.code == 2, ended.said
    assert "the disk is full" in ended.said
    assert program.run(*command, folder=tmp_path).code == 0
    assert left_behind(tmp_path / "runs") == []
