"""kill -9 of a sweep that mostly writes: in the end every byte is as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from durability.harness import Commands, Kill, differences, files, left_behind, tries

SWEEP = ("run", "toy/noise", "--set", "eta_z=.5,1,2", "--seeds", "4", "--piece", "2")


@tries(sample=5, full=100)
def test_one_process(number: int, program: Commands, tmp_path: Path) -> None:
    _kill_and_go_on(program, SWEEP, tmp_path, number, "w", longest=0.004)


@tries(sample=1, full=20)
def test_two_workers(number: int, program: Commands, tmp_path: Path) -> None:
    """Workers outlive a killed parent for a moment, while the next process begins."""
    _kill_and_go_on(program, (*SWEEP, "--jobs", "2"), tmp_path, number, "p", longest=0.05)


def _kill_and_go_on(
    program: Commands, command: tuple[str, ...], folder: Path, number: int, event: str, longest: float
) -> None:
    """Killed at a random moment of its writing, sometimes twice, then given again until it is done."""
    draw = np.random.default_rng(number)
    reference = Kill(0, 0.0, event)
    whole = program.run(*command, "--out", str(folder / "whole"), folder=folder, kill=reference)
    assert whole.code == 0, whole.said
    expected, killed, dirty = files(folder / "whole"), 0, 0
    while killed < number:
        runs = folder / f"runs{killed}"
        code = -9
        while code == -9 and killed < number:
            kill = Kill.draw(draw, whole.events, event, longest)
            code = program.run(*command, "--out", str(runs), folder=folder, kill=kill).code
            assert code in (0, -9)
            killed += code == -9
            dirty += code == -9 and bool(left_behind(runs))
            if draw.integers(2):
                break
        ended = program.run(*command, "--out", str(runs), folder=folder)
        assert ended.code == 0, ended.said
        assert differences(files(runs), expected) == []
        assert left_behind(runs) == []
    print(f"{killed} kills, {dirty} of them left temporary files")


def test_given_again_with_its_options_in_another_order(program: Commands, tmp_path: Path) -> None:
    """The same grid with its axes exchanged may not be continued as if it were the same."""
    first, second, rest = ("--grid", "centred=true,false"), ("--grid", "label=a,b"), ("--seeds", "2", "--piece", "1")
    swapped = ("run", "toy/noise", *second, *first, *rest)
    whole = program.run(*swapped, "--out", str(tmp_path / "whole"), folder=tmp_path)
    assert whole.code == 0, whole.said
    runs = ("--out", str(tmp_path / "runs"))
    killed = program.run("run", "toy/noise", *first, *second, *rest, *runs, folder=tmp_path, kill=Kill(8, 0.0, "p"))
    assert killed.code == -9
    ended = program.run(*swapped, *runs, folder=tmp_path)
    assert ended.code == 0, ended.said
    expected, found = files(tmp_path / "whole"), files(tmp_path / "runs")
    assert differences({name: found.get(name) for name in expected}, expected) == []


@pytest.mark.full
def test_before_every_single_operation_on_a_file(program: Commands, tmp_path: Path) -> None:
    whole = program.run(*SWEEP, "--out", str(tmp_path / "whole"), folder=tmp_path, watched=True)
    expected = files(tmp_path / "whole")
    for after in range(1, whole.events + 1):
        runs = tmp_path / f"runs{after}"
        program.run(*SWEEP, "--out", str(runs), folder=tmp_path, kill=Kill(after, 0.0))
        assert program.run(*SWEEP, "--out", str(runs), folder=tmp_path).code == 0
        assert differences(files(runs), expected) == []
        assert left_behind(runs) == []
    print(f"{whole.events} operations")
