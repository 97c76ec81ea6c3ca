"""Two processes that start at once in the same folder: one works, the other is refused or finds the work done."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from durability.harness import Commands, differences, files, left_behind, tries
from durability.test_kill_check import CHECK, verdicts
from durability.test_kill_sweep import SWEEP
from foretrain.core.errors import InputError
from foretrain.language.state import TrainingFolder
from made_up.fixtures import HERE, start

SLOW = (*SWEEP, "--set", "pause=.02")


def _both(folder: Path, first: tuple[str, ...], second: tuple[str, ...]) -> list[tuple[int, str]]:
    processes = [start(*command, folder=folder) for command in (first, second)]
    return [(process.returncode, said[1]) for process in processes if (said := process.communicate(timeout=120))]


@pytest.mark.parametrize("fresh", [(), ("--fresh",)], ids=["plain", "fresh"])
@tries(sample=1, full=12)
def test_sweeps(number: int, fresh: tuple[str, ...], program: Commands, tmp_path: Path) -> None:
    assert program.run(*SLOW, "--out", "whole", folder=tmp_path).code == 0
    expected, refused = files(tmp_path / "whole"), 0
    for turn in range(number):
        out = ("--out", f"runs{turn}")
        ended = _both(tmp_path, (*SLOW, *out), (*SLOW, *out, *fresh))
        assert {code for code, _ in ended} <= {0, 2}
        assert 0 in {code for code, _ in ended}
        for code, said in ended:
            assert code == 0 or "is being computed by another process; wait for it" in said
            refused += code == 2
        assert differences(files(tmp_path / f"runs{turn}"), expected) == []
        assert left_behind(tmp_path / f"runs{turn}") == []
    print(f"{refused} of {number} second processes were refused, the others came later")


@tries(sample=1, full=8)
def test_checks(number: int, program: Commands, tmp_path: Path) -> None:
    """Nobody is refused: both judge, and write the same."""
    assert program.run(*CHECK, "--runs", "whole", folder=tmp_path).code == 0
    for turn in range(number):
        command = (*CHECK, "--runs", f"runs{turn}")
        assert [code for code, _ in _both(tmp_path, command, command)] == [0, 0]
        assert differences(verdicts(tmp_path / f"runs{turn}"), verdicts(tmp_path / "whole")) == []
        assert left_behind(tmp_path / f"runs{turn}") == []


TRAINING = """
import sys
from foretrain.language.state import TrainingFolder
folder = TrainingFolder(__import__("pathlib").Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
with folder.locked(True):
    print("locked", flush=True)
    sys.stdin.readline()
"""


def test_the_lock_of_a_training_outlives_a_refused_one(tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path / "run")
    with folder.locked(True):
        for _ in range(2):
            with pytest.raises(InputError, match="Another process is training"), folder.locked(True):
                pass
    with folder.locked(True):
        pass
    assert not folder.path.exists()


@pytest.mark.full
def test_the_loser_of_a_training_leaves_the_lock_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third process must be refused, too, after a second one was."""
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent))
    options: dict[str, Any] = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, "text": True}
    processes = [Popen([sys.executable, "-c", TRAINING, str(tmp_path / "run")], **options) for _ in range(3)]
    try:
        first, *others = processes
        for process in processes:
            assert process.stdin
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            process.stdin.write("\n")
            process.stdin.flush()
            if process is first:
                assert process.stdout.readline() == "locked\n"
            else:
                process.wait(timeout=60)
        for process in others:
            assert process.returncode == 1
            assert process.stderr
            assert "Another process is training" in process.stderr.read()
        assert first.communicate("\n", timeout=60)[1] == ""
    finally:
        for process in processes:
            process.kill()
            process.communicate()
