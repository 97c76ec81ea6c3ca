"""kill -9 of `foretrain check`: the same command goes on, with the verdicts of a check that was never killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from durability.harness import Commands, Kill, differences, files, left_behind, tries

CHECK = ("check", "toy/holds", "toy/misprint", "toy/means", "toy/bounds", "toy/matrix", "toy/coverage")
CHANGING = {"sha256", "check", "seconds"}  # of a verdict: its seal, the name of the check, and how long it took


def verdicts(folder: Path) -> dict[str, Any]:
    """Every file of a check; trajectories to the byte, verdicts without their times."""
    return {name: _timeless(json.loads(c)) if name.endswith(".json") else c for name, c in files(folder).items()}


def _timeless(record: Any) -> Any:
    if isinstance(record, dict):
        return {key: _timeless(value) for key, value in record.items() if key not in CHANGING}
    return record


@tries(sample=2, full=40)
def test_killed_at_any_moment(number: int, program: Commands, tmp_path: Path) -> None:
    draw = np.random.default_rng(number)
    whole = program.run(*CHECK, "--runs", str(tmp_path / "whole"), folder=tmp_path, watched=True)
    assert whole.code == 0, whole.said
    expected, killed, dirty = verdicts(tmp_path / "whole"), 0, 0
    assert len(expected) == 1 + 3 * 6
    while killed < number:
        runs = tmp_path / f"runs{killed}"
        for _ in range(int(draw.integers(1, 4))):
            ended = program.run(*CHECK, "--runs", str(runs), folder=tmp_path, kill=Kill.draw(draw, whole.events))
            assert ended.code in (0, -9)
            killed += ended.code == -9
            dirty += ended.code == -9 and bool(left_behind(runs))
        assert program.run(*CHECK, "--runs", str(runs), folder=tmp_path).code == 0
        assert differences(verdicts(runs), expected) == []
        assert left_behind(runs) == []
    print(f"{killed} kills, {dirty} of them left temporary files")


def test_a_continued_check_judges_only_what_is_missing(program: Commands, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    whole = program.run(*CHECK, "--runs", str(tmp_path / "whole"), folder=tmp_path, watched=True)
    program.run(*CHECK, "--runs", str(runs), folder=tmp_path, kill=Kill(whole.events * 3 // 4, 0.0))
    ended = program.run(*CHECK, "--runs", str(runs), folder=tmp_path)
    assert "Continuing an interrupted check" in ended.said


def test_a_damaged_record_of_a_check_is_told(program: Commands, tmp_path: Path) -> None:
    command = (*CHECK, "--runs", "runs")
    assert program.run(*command, folder=tmp_path).code == 0
    record = tmp_path / "runs" / "check" / "fast" / "check.json"
    record.write_bytes(record.read_bytes().replace(b"done", b"dome"))
    ended = program.run(*command, folder=tmp_path)
    assert ended.code == 0, ended.said
    assert "check.json is damaged: its contents do not match their seal. All claims are judged again." in ended.said
    assert "is damaged" not in program.run(*command, folder=tmp_path).said
