"""foretrain list, foretrain show, and the command line as a whole."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from foretrain.cli import app, listing
from foretrain.cli.terminal import PlainConsole
from foretrain.ledger.tiers import SIZES
from made_up.fixtures import Foretrain

COMMANDS = (
    "watch", "analyze", "compare", "forecast", "lab", "list", "show", "check", "run", "explore", "new-paper"
)  # fmt: skip


def test_list_names_every_claim_with_its_source_and_expectation(foretrain: Foretrain) -> None:
    printed = foretrain("list")
    assert printed.code == 0
    for words in ("toy/holds", "toy/misprint_corrected", "Theorem 2, eq. 7", "(measured)", "<script>alert('says')"):
        assert words in printed.out
    (late,) = (line for line in printed.out.splitlines() if "toy/coverage" in line)
    assert "holds from tier full on" in late
    assert printed.out.count("from tier") == 1


def test_list_outside_a_terminal_is_one_line_per_claim_with_tabs(foretrain: Foretrain) -> None:
    printed = foretrain("list")
    head, *lines = (line.split("\t") for line in printed.out.splitlines())
    rows = {line[0]: line for line in lines}
    assert head == ["claim", "source", "expected", "last", "says"]
    assert len(rows) == len(lines) == len(json.loads(foretrain("list", "--json").out))
    assert rows["toy/misprint"] == ["toy/misprint", "Theorem 2, eq. 7", "fails", "never", "Decay goes at the rate."]
    assert "  " not in printed.out
    assert f"{len(rows)} claims; foretrain show CLAIM" in printed.err
    for line in foretrain("list", "--experiments").out.splitlines():
        assert len(line.split("\t")) == 3


def test_list_on_a_terminal_of_80_columns(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        listing, "console", lambda *, results: PlainConsole(width=80, force_terminal=True, no_color=True)
    )
    for arguments in (("list",), ("list", "--experiments"), ("show", "toy/")):
        lines = re.sub(r"\x1b\[[0-9;]*m", "", foretrain(*arguments).out).splitlines()
        assert max(map(len, lines)) <= 80
        assert all(line == line.rstrip() for line in lines if line.startswith(("toy/", "    ")))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", foretrain("list").out).splitlines()
    at = lines.index("toy/misprint  expected: fails; last: never")
    assert lines[at + 1] == "    Theorem 2, eq. 7: Decay goes at the rate."
    assert "toy/stops  (measured); last: never" in lines


def test_list_as_json_is_clean(foretrain: Foretrain) -> None:
    rows = {row["id"]: row for row in json.loads(foretrain("list", "--json").out)}
    assert rows["toy/misprint"]["expected"] == "fails"
    assert "printed .135" in rows["toy/misprint"]["erratum"]
    assert rows["toy/stops"] == {**rows["toy/stops"], "paper": "toy", "expected": None, "source": "Remark 3"}
    assert [rows[f"toy/{name}"]["expected_from"] for name in ("holds", "coverage", "stops")] == ["fast", "full", None]


def test_list_takes_patterns(foretrain: Foretrain) -> None:
    names = [row["id"] for row in json.loads(foretrain("list", "misprint*", "toy/holds", "--json").out)]
    assert names == ["toy/holds", "toy/misprint", "toy/misprint_corrected"]


def test_list_experiments(foretrain: Foretrain) -> None:
    assert "toy/noise" in foretrain("list", "--experiments").out
    rows = {row["id"]: row for row in json.loads(foretrain("list", "--experiments", "--json").out)}
    assert rows["toy/noise"]["arguments"]["eta_z"] == [0.5, 1.0]


def test_show_claim(foretrain: Foretrain) -> None:
    printed = foretrain("show", "toy/misprint")
    for words in ("Theorem 2, eq. 7", "printed .135", "toy/misprint_corrected", "rate = 1.0", "corrected formula"):
        assert words in printed.out
    assert "claims.py:" in printed.out
    assumptions = foretrain("show", "toy/holds").out
    assert "the rate is above 0" in assumptions
    assert "reported, not needed" in assumptions
    assert "holds from tier full on; at smaller tiers, a measurement" in foretrain("show", "toy/coverage").out


def test_show_experiment(foretrain: Foretrain) -> None:
    printed = foretrain("show", "toy/noise")
    assert printed.code == 0
    for words in (
        "--set eta_z",
        "(0.5, 1.0)",
        "steps = 2",
        "experiments.py:",
        "= 4 [steps]. Points of a series. Takes a whole number of at least 1.",
    ):
        assert words in printed.out
    assert "--tier full" not in printed.out
    sizes = [line.split() for line in foretrain("show", "toy/plain").out.splitlines() if "--tier" in line]
    assert [" ".join(words) for words in sizes] == ["--tier fast size = 2", "--tier full size = 4, offset = 1.0"]


def test_show_by_number_and_by_words(foretrain: Foretrain) -> None:
    assert "claim toy/coverage" in foretrain("show", "Lemma 8").out
    several = foretrain("show", "Theorem 2").out
    assert "toy/misprint\t" in several
    assert "toy/misprint_corrected" in several
    assert "decay_printed" in several  # the theory that cites it
    assert "experiment toy/diverges" in foretrain("show", "rate too large").out
    assert [row["id"] for row in json.loads(foretrain("list", "nine in ten", "--json").out)] == ["toy/coverage"]
    assert foretrain("check", "Lemma 6").code == 0
    (erratum,) = json.loads(foretrain("list", "correction factor", "--json").out)  # the name of a symbol it uses
    assert erratum["id"] == "toy/bounds"


def test_unknown_name_gives_the_three_nearest(foretrain: Foretrain) -> None:
    printed = foretrain("show", "toy/misprit")
    assert printed.code == 2
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    near = printed.err.split("nearest names are ")[1].split(". ")[0].split(", ")
    assert len(near) == 3
    assert near[0] == "toy/misprint"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chekc"], "Did you mean 'check'"),
        (["check", "--teir", "fast"], "--teir"),
        (["check", "--jobs", "two"], "--jobs"),
        (["show"], "QUERY"),
        (["export", "x"], "--to"),
    ],
)
def test_misuse_is_one_sentence(foretrain: Foretrain, arguments: list[str], words: str) -> None:
    printed = foretrain(*arguments)
    assert printed.code == 2
    assert words in printed.err
    assert len(printed.err.splitlines()) == 1


def every_command(command: Any = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command and group, such as ("forecast", "corpus")."""
    command = typer.main.get_command(app) if command is None else command
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    inner = ((name, command.get_command(None, name)) for name in names)
    return [path, *(words for name, one in inner for words in every_command(one, (*path, name)))]


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_help_has_examples_and_none_of_them_wraps_at_80_columns(
    foretrain: Foretrain, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    printed = foretrain(*command, "--help")
    assert printed.code == 0
    lines = [line.rstrip() for line in printed.out.splitlines()]
    assert max(map(len, lines)) <= 80
    written: Any = typer.main.get_command(app)
    for name in command:
        written = written.get_command(None, name)
    examples = [
        line
        for line in inspect.cleandoc(written.help).splitlines()
        if line.startswith(("  foretrain ", "  torchrun ")) and " ".join(command) in line
    ]
    assert examples
    assert [f" {line}" for line in examples if f" {line}" not in lines] == []


def test_tiers_are_described_in_the_same_words_everywhere(foretrain: Foretrain) -> None:
    for command in ("check", "run"):
        assert SIZES in re.sub(r"[\s│]+", " ", foretrain(command, "--help").out)
    readme = (Path(__file__).parent.parent.parent / "README.md").read_text(encoding="utf-8")
    assert f"A *tier* is a size: {SIZES}." in " ".join(readme.replace("`", "").split())


def test_without_a_command_help_is_shown(foretrain: Foretrain) -> None:
    printed = foretrain()
    assert printed.code == 0
    assert all(f" {command} " in printed.out for command in COMMANDS)
    panels = [line.split("─ ")[1].split(" ─")[0] for line in printed.out.splitlines() if line.startswith("╭")]
    assert panels == ["Options", "Your models and data", "Theory"]
    assert foretrain("--version").out.startswith("foretrain 0.")


@pytest.mark.parametrize(
    ("arguments", "large"),
    [
        (["--help"], {"torch", "xarray", "pandas", "plotly", "scipy"}),
        (["show", "scan_snap/lemma6"], {"torch", "plotly", "foretrain.papers.deep_linear.claims"}),
    ],
)
def test_no_large_library_is_loaded_in_vain(arguments: list[str], large: set[str]) -> None:
    """Starting torch takes a second or more; asking for help, or for one claim, should not."""
    code = (
        f"import sys\nfrom foretrain.cli import main\n"
        f"try:\n    main({arguments})\nexcept SystemExit:\n    pass\n"
        f"print('LOADED', sorted(set({sorted(large)}) & sys.modules.keys()))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert printed.stdout.splitlines()[-1] == "LOADED []"


def test_an_error_inside_is_a_sentence_too(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    from foretrain.api import find

    monkeypatch.setattr(find, "select", lambda *_: 1 / 0)
    printed = foretrain("list")
    assert printed.code == 2
    assert "ZeroDivisionError" in printed.err
    assert "test_list_show.py" in printed.err
