"""foretrain lab language."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrain.language.made_up import made_up_text
from made_up.fixtures import Foretrain

SMALL = [
    "--steps", "12", "--every", "1", "--set", "tokens=words", "--set", "vocabulary=60", "--set", "width=16",
    "--set", "heads=2", "--set", "hidden=16", "--set", "layers=1", "--set", "context=8", "--set", "batch=4",
]  # fmt: skip


def write(words: int = 2000) -> None:
    Path("text.txt").write_text(made_up_text(words))


def test_one_command_from_text_to_report(foretrain: Foretrain) -> None:
    write()
    printed = foretrain("lab", "language", "text.txt", "--out", "lm", *SMALL)
    assert printed.code == 0, printed.err
    assert printed.out.startswith("Validation loss fell from 3.")
    assert "perplexity of" in printed.out
    assert "Plotly.newPlot" in Path("lm/report.html").read_text()
    again = foretrain("lab", "language", "text.txt", "--out", "lm", *SMALL)
    assert again.out == printed.out
    more = [option if option != "12" else "14" for option in SMALL]
    assert foretrain("lab", "language", "text.txt", "--out", "lm", *more).code == 0
    assert Path("lm/checkpoints/step-14/model.safetensors").is_file()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--set", "context=500"], "fewer than one window of 500"),
        (["--set", "colour=red"], "There is no setting 'colour'"),
        (["--set", "rate=fast"], "rate must be a number; got 'fast'"),
        (["--set", "heads=3"], "width 16 must be a multiple of heads 3"),
        (["--set", "identity_scaling=maybe"], "identity_scaling must be true or false"),
        (["--set", "rate"], "must have the form NAME=VALUE"),
        (["--every", "0"], "--every must be at least 1"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(foretrain: Foretrain, more: list[str], words: str) -> None:
    write()
    printed = foretrain("lab", "language", "text.txt", "--out", "lm", *SMALL, *more)
    assert printed.code == 2
    assert words in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not Path("lm").exists()


def test_a_missing_text_and_a_foreign_folder_are_refused(foretrain: Foretrain) -> None:
    assert "There is no text file nowhere.txt" in foretrain("lab", "language", "nowhere.txt").err
    write()
    assert foretrain("lab", "language", "text.txt", "--out", "lm", *SMALL).code == 0
    before = {path: path.read_bytes() for path in Path("lm").rglob("*") if path.is_file()}
    printed = foretrain("lab", "language", "text.txt", "--out", "lm", *SMALL, "--set", "rate=0.5")
    assert (printed.code, "another setting" in printed.err) == (2, True)
    Path("text.txt").write_text(made_up_text(2000, seed=3))
    printed = foretrain("lab", "language", "text.txt", "--out", "lm", *SMALL)
    assert (printed.code, "another text or vocabulary" in printed.err) == (2, True)
    assert {path: path.read_bytes() for path in Path("lm").rglob("*") if path.is_file()} == before
