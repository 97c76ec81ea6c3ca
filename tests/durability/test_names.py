"""Names with spaces, quotes, unicode, emoji, dashes and worse, for folders and for files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from durability.harness import Commands, Kill, differences, files, left_behind
from durability.test_kill_sweep import SWEEP
from foretrain.core.files import remove_abandoned, temporary_name, write_bytes
from foretrain.runs.run_folder import load

ALL_AT_ONCE = '-it\'s "Größe" 中文 🦊 [a]*?\\ $HOME %20 #'
NAMES = [
    "with space ", "it's", 'say "yes"', "back\\slash", "Größe-中文-ελ", "🦊🚀", "-dash", "--out", "[glob]*?", "a%20b#c",
    "{brace}$HOME`x`", "~", "new\nline", "e\u0301 combining", "x" * 200, "ünï" * 40, ".hidden", "a:b;c|d>e<f",
]  # fmt: skip


@pytest.mark.parametrize("name", [ALL_AT_ONCE, *(pytest.param(name, marks=pytest.mark.full) for name in NAMES)])
def test_folders_and_files(name: str, program: Commands, tmp_path: Path) -> None:
    runs = tmp_path / "whole"
    assert program.run("run", "toy/noise", f"--out={runs}", folder=tmp_path).code == 0
    ended = program.run("run", "toy/noise", f"--out={name}", folder=tmp_path)
    assert ended.code == 0, ended.said
    assert differences(files(tmp_path / name), files(runs)) == []
    (path,) = (tmp_path / name / "toy" / "noise").iterdir()
    assert load(path).level.size
    page, verdicts = f"{name}.html", f"{name}.json"
    check = ("check", "toy/holds", f"--runs={name}", f"--json={verdicts}", f"--report={page}")
    ended = program.run(*check, folder=tmp_path)
    assert ended.code == 0, ended.said
    assert "toy/holds" in json.loads((tmp_path / verdicts).read_text())[0].values()
    assert "</html>" in (tmp_path / page).read_text()
    ended = program.run("run", str(path), f"--to={name}.csv", folder=tmp_path)
    assert ended.code == 0, ended.said
    assert {p.name for p in tmp_path.iterdir()} == {"whole", name, page, verdicts, f"{name}.csv"}


def test_a_name_as_long_as_names_may_be(tmp_path: Path) -> None:
    """Temporary files have longer names than the file that they become, but not too long ones."""
    for name in ("x" * 255, "🦊" * 63):
        write_bytes(tmp_path / name, b"whole")
        assert (tmp_path / name).read_bytes() == b"whole"
        (tmp_path / temporary_name(name).replace(str(os.getpid()), "4194999")).write_bytes(b"half")
        remove_abandoned(tmp_path, name)
        assert [path.name for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()


@pytest.mark.parametrize("name", [ALL_AT_ONCE, *(pytest.param(name, marks=pytest.mark.full) for name in NAMES)])
def test_killed_and_cleared_up(name: str, program: Commands, tmp_path: Path) -> None:
    """What a killed process left under such a name is found again."""
    whole = program.run(*SWEEP, "--out=whole", folder=tmp_path, watched=True)
    for after in (3, whole.events // 2, whole.events - 1):
        program.run(*SWEEP, f"--out={name}", folder=tmp_path, kill=Kill(after, 0.001))
    assert program.run(*SWEEP, f"--out={name}", folder=tmp_path).code == 0
    assert differences(files(tmp_path / name), files(tmp_path / "whole")) == []
    assert left_behind(tmp_path) == []
