"""kill -9 of a training that saves its state after every step: the weights end up the same, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from durability.harness import Commands, Kill, commands, differences, files, left_behind, tries
from foretrain.language.made_up import made_up_text
from foretrain.runs.training_log import as_dataset, read_lines

SMALL = ("tokens=words", "vocabulary=40", "layers=1", "width=8", "heads=2", "hidden=8", "context=8", "batch=4")
LINES = ("run.jsonl", "evaluations.jsonl")  # what is measured twice, after a kill, has two lines
REPORT = "report.html"  # its figures have random names


def training(text: Path, out: Path, steps: int = 8) -> tuple[str, ...]:
    chosen = [word for pair in SMALL for word in ("--set", pair)]
    return ("lab", "language", str(text), "--out", str(out), "--steps", str(steps), "--every", "3", *chosen)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with commands(tmp_path_factory.mktemp("program"), language=True) as made:
        yield made


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text(made_up_text(1500))
    return file


def results(folder: Path) -> dict[str, Any]:
    """Every file to the byte, and of measurements the numbers."""
    kept: dict[str, Any] = {name: content for name, content in files(folder).items() if name not in LINES}
    return kept | {REPORT: REPORT in kept} | {name: as_dataset(read_lines(folder / name)).to_dict() for name in LINES}


@tries(sample=2, full=40)
def test_killed_at_any_moment(number: int, program: Commands, text: Path, tmp_path: Path) -> None:
    draw = np.random.default_rng(number)
    name = "run"  # the report has the folder's name in its title
    whole = program.run(*training(text, tmp_path / "whole" / name), folder=tmp_path, watched=True)
    assert whole.code == 0, whole.said
    expected, killed, dirty = results(tmp_path / "whole" / name), 0, 0
    while killed < number:
        out = tmp_path / f"{killed}" / name
        for _ in range(int(draw.integers(1, 4))):
            ended = program.run(*training(text, out), folder=tmp_path, kill=Kill.draw(draw, whole.events))
            assert ended.code in (0, -9), ended.said
            killed += ended.code == -9
            dirty += ended.code == -9 and out.exists() and bool(left_behind(out))
        ended = program.run(*training(text, out), folder=tmp_path)
        assert ended.code == 0, ended.said
        assert differences(results(out), expected) == []
        assert left_behind(out) == []
    print(f"{killed} kills, {dirty} of them left temporary files")


@pytest.mark.full
def test_before_every_single_operation_on_a_file(program: Commands, text: Path, tmp_path: Path) -> None:
    whole = program.run(*training(text, tmp_path / "whole" / "run", 2), folder=tmp_path, watched=True)
    expected = results(tmp_path / "whole" / "run")
    for after in range(1, whole.events + 1):
        out = tmp_path / f"{after}" / "run"
        program.run(*training(text, out, 2), folder=tmp_path, kill=Kill(after, 0.0))
        ended = program.run(*training(text, out, 2), folder=tmp_path)
        assert ended.code == 0, f"killed before operation {after}: {ended.said}"
        assert differences(results(out), expected) == []
        assert left_behind(out) == []
    print(f"{whole.events} operations")
