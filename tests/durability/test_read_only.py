"""Folders that cannot be written to: refused in a sentence before any work; what is in them can still be read."""

from __future__ import annotations

from pathlib import Path

from durability.disks import make_read_only, small_disk
from durability.harness import Commands, files
from durability.test_kill_check import CHECK
from durability.test_kill_sweep import SWEEP
from foretrain.runs.run_folder import load

COMMANDS = [
    (*SWEEP, "--out", "runs"),
    (*SWEEP, "--out", "runs", "--fresh"),
    (*SWEEP, "--out", "runs", "--jobs", "2"),
    (*SWEEP, "--out", "deeper/than/that"),
    (*CHECK, "--runs", "runs"),
    (*CHECK, "--runs", "runs", "--json", "v.json"),
    (*SWEEP, "--out", "runs", "--figure", "figure.html"),
    (*CHECK, "--runs", "runs", "--report", "report.html"),
]


def test_refused_in_a_sentence(program: Commands, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        assert program.run(*SWEEP, "--out", str(disk / "runs"), folder=tmp_path).code == 0
        before = files(disk)
        make_read_only(disk)
        for command in COMMANDS:
            ended = program.run(*command, folder=disk)
            assert ended.code == 2, ended.said
            assert "Read-only file system" in ended.said
            assert len(ended.said.splitlines()) == 1
        assert files(disk) == before


def test_a_finished_run_can_be_read(program: Commands, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        path = Path(program.run(*SWEEP, "--out", str(disk / "runs"), folder=tmp_path).said.split()[-1])
        make_read_only(disk)
        assert load(path).level.size == 3 * 4 * 2
        ended = program.run("run", str(path), "--to", str(tmp_path / "out.csv"), folder=disk)
        assert ended.code == 0, ended.said
