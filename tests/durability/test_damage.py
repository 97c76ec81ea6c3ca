"""A flipped byte, a cut or a deleted file is noticed when it is read, and the same command repairs it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from durability.harness import files, tries
from durability.kinds import Kind, every_kind
from foretrain import papers
from foretrain.core.errors import InputError
from made_up.fixtures import HERE as MADE_UP

Harm = Callable[[Path, np.random.Generator], None]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Kind]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(papers, "__path__", [str(MADE_UP / "papers")])
        papers.forget()
        yield every_kind(tmp_path_factory.mktemp("kinds"))
    papers.forget()


def flip(file: Path, draw: np.random.Generator) -> None:
    content = bytearray(file.read_bytes())
    content[int(draw.integers(len(content)))] ^= int(draw.integers(1, 256))
    file.write_bytes(bytes(content))


def cut(file: Path, draw: np.random.Generator) -> None:
    """Shorter, often empty, as after a loss of power."""
    content = file.read_bytes()
    file.write_bytes(content[: int(draw.integers(len(content))) * int(draw.integers(2))])


def zero(file: Path, draw: np.random.Generator) -> None:
    """Of the right length, and nothing but zeros."""
    file.write_bytes(bytes(file.stat().st_size))


def delete(file: Path, draw: np.random.Generator) -> None:
    file.unlink()


def outcome(kind: Kind, file: Path, harm: Harm, draw: np.random.Generator, expected: object) -> str:
    """What reading says of a harmed file, which is put back afterwards."""
    good = file.read_bytes()
    try:
        harm(file, draw)
        try:
            return "no effect" if kind.read() == expected else "SILENT"
        except InputError:
            return "noticed"
    finally:
        file.write_bytes(good)


@tries(sample=70, full=1400)
def test_flipped_bytes(number: int, kinds: dict[str, Kind]) -> None:
    draw = np.random.default_rng(number)
    counts: Counter[tuple[str, str]] = Counter()
    for name, kind in kinds.items():
        expected = kind.read()
        for _ in range(number // len(kinds)):
            file = kind.files[int(draw.integers(len(kind.files)))]
            counts[name, outcome(kind, file, flip, draw, expected)] += 1
    _show(counts)
    assert not [key for key in counts if key[1] == "SILENT"]
    # white space in JSON says nothing; where foreign files may be read, only the word before a digest can be flipped
    # without a refusal, and the numbers are right then
    json_or_foreign = {"run.json", "verdict .json", "check.json", "state of a training", "checkpoint", "exported .nc"}
    lines = {"monitor .jsonl", "measurements of a training"}
    dull = {name for name, answer in counts if answer == "no effect"}
    assert dull <= json_or_foreign | lines


@pytest.mark.parametrize("harm", [cut, zero, delete])
def test_cut_emptied_and_deleted_files(harm: Harm, kinds: dict[str, Kind]) -> None:
    """Every file of every kind, once."""
    draw = np.random.default_rng(1)
    counts: Counter[tuple[str, str]] = Counter()
    for name, kind in kinds.items():
        expected = kind.read()
        for file in kind.files:
            if file.stat().st_size:
                counts[name, outcome(kind, file, harm, draw, expected)] += 1
    _show(counts)
    silent = {name for name, answer in counts if answer == "SILENT"}
    # a line that was cut off is what a killed process leaves; what is missing may never have been there
    allowed = {
        cut: {"monitor .jsonl", "measurements of a training"},
        zero: set(),
        delete: {"verdict .json", "check.json", "state of a training"},
    }
    assert silent <= allowed[harm]
    assert {name for name, answer in counts if answer == "no effect"} <= allowed[harm]


@pytest.mark.parametrize("harm", [flip, cut, delete])
@tries(sample=3, full=90)
def test_the_same_command_repairs(number: int, harm: Harm, kinds: dict[str, Kind]) -> None:
    draw = np.random.default_rng(number)
    repaired = {name: kind for name, kind in kinds.items() if kind.repair is not None}
    for turn in range(number):
        name, kind = list(repaired.items())[(number + turn * 2) % len(repaired)]
        file = kind.files[int(draw.integers(len(kind.files)))]
        expected, good = kind.read(), files(file.parents[1])
        harm(file, draw)
        assert kind.repair is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a damaged record means computing again
            kind.repair()
        assert kind.read() == expected, (name, file)
        assert files(file.parents[1]).keys() == good.keys()


def _show(counts: Counter[tuple[str, str]]) -> None:
    for (name, answer), times in sorted(counts.items()):
        print(f"{name}: {times} {answer}")
