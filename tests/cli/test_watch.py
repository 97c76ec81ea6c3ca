"""foretrain watch."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from foretrain.cli.watching import _follow, bars
from foretrain.runs.training_log import append_line, read_lines
from made_up.fixtures import Foretrain
from monitor.test_story import dip, records


def write(file: Path, count: int = 100, *, finished: bool = False) -> None:
    for record in records({"h.0.attn": dip(0.4, 0.2), "h.1.attn": dip(0.4, 0.0)})[:count]:
        append_line(file, record)
    if finished:
        append_line(file, {"finished": 2000})


def test_the_first_screen_answers_first(foretrain: Foretrain) -> None:
    write(Path("run.jsonl"), finished=True)
    printed = foretrain("watch", "run.jsonl", "--report", "run.html")
    assert printed.code == 0
    assert printed.out.startswith("Step 1980, loss 2")
    assert "spread again in layer 0." in " ".join(printed.out.split())
    assert "The training is finished." in printed.out
    assert "Plotly.newPlot" in Path("run.html").read_text()


def test_the_same_number_is_the_same_everywhere_on_the_screen(foretrain: Foretrain) -> None:
    """Also where measurements scatter: a sentence and the table must not give two entropies of one layer."""
    scatter = 0.02 * np.random.default_rng(3).standard_normal(100)
    scatter[-1] = 0.03
    for record in records({"h.0.attn": dip(0.4, 0.0) + scatter, "h.1.attn": dip(0.0, 0.0)}):
        append_line(Path("run.jsonl"), {**record, "loss": record["loss"] + 0.001234})
    printed = foretrain("watch", "run.jsonl").out
    (entropy,) = re.findall(r"→ (0\.\d\d) of its largest entropy", " ".join(printed.split()))
    (row,) = (line.split() for line in printed.splitlines() if line.startswith("0 "))
    assert row[2] == entropy
    assert abs(float(entropy) - (dip(0.4, 0.0) + scatter)[-1]) > 0.005  # the last measurement alone is another number
    (in_words,) = re.findall(r", loss (\S+) \(at the start", printed)
    (beside_the_bars,) = re.findall(r"^loss \S+  (\S+)$", printed, re.MULTILINE)
    assert in_words == beside_the_bars


def test_it_follows_a_growing_file_until_the_end(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    write(file, 10)

    def go_on() -> None:
        time.sleep(0.3)
        write(file, finished=True)

    thread = threading.Thread(target=go_on)
    thread.start()
    screen = StringIO()
    _follow([file], Console(file=screen, force_terminal=True, width=120))
    thread.join()
    assert len({record["step"] for record in read_lines(file)}) == 100
    assert "Step 180" in screen.getvalue()
    assert "The training is finished." in screen.getvalue()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("missing.jsonl", None, "There is no file missing.jsonl"),
        ("bad.jsonl", "what is this\n", "bad.jsonl is not a record of a training"),
        ("picture.html", "<html></html>\n", "picture.html is not a record of a training"),
        ("bad.jsonl", '{"step": 0}\n[1]\n{"step": 2}\n', "bad.jsonl, line 2 is damaged"),
    ],
)
def test_bad_input_is_one_sentence(foretrain: Foretrain, name: str, text: str | None, words: str) -> None:
    if text is not None:
        Path(name).write_text(text)
    printed = foretrain("watch", name)
    assert (printed.code, printed.out) == (2, "")
    assert words in printed.err
    assert len(printed.err.splitlines()) == 1


def test_an_empty_file_says_so(foretrain: Foretrain) -> None:
    Path("run.jsonl").write_text("")
    assert "Nothing has been measured yet" in foretrain("watch", "run.jsonl").out


def test_bars_show_the_curve() -> None:
    assert bars([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert bars([0.5, np.nan, 1.0], low=0.0, high=1.0) == "▅·█"
    assert bars([np.nan]) == "·"
    assert bars([3.0, 3.0]) == "▁▁"


def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("process", "last", "words"),
    [
        ({}, {"stopped": 1981, "error": "KeyboardInterrupt"}, "was stopped by KeyboardInterrupt after 1981 steps."),
        (
            {"host": socket.gethostname(), "number": "gone"},
            None,
            "was killed: it is gone and left no last line; last record",
        ),
        ({"host": socket.gethostname(), "number": os.getpid()}, None, "Last record just now."),
        ({"host": "elsewhere", "number": "gone"}, None, "Last record just now."),
    ],
)
def test_a_training_that_was_killed_is_known_from_one_that_ended(
    foretrain: Foretrain, process: dict[str, Any], last: dict[str, Any] | None, words: str
) -> None:
    file = Path("run.jsonl")
    first = {"process": process | ({"number": gone()} if process.get("number") == "gone" else {})} if process else {}
    for record in records({"h.0.attn": dip(0.4, 0.2)}):
        append_line(file, {**record, **first})
    if last is not None:
        append_line(file, last)
    os.utime(file)
    assert words in " ".join(foretrain("watch", "run.jsonl").out.split())


def test_several_trainings_are_compared(foretrain: Foretrain) -> None:
    for name, rise in (("low.jsonl", 0.0), ("high.jsonl", 3.0)):
        for record in records({"h.0.attn": dip(0.4, 0.2), "h.1.attn": dip(0.4, 0.0)}):
            step = record["step"]
            losses = [2.0 + rise * max(0, at - 1000) / 1000 for at in range(max(0, step - 19), step + 1)]
            append_line(Path(name), {**record, "every_step": {"first": step - len(losses) + 1, "loss": losses}})
    append_line(Path("low.jsonl"), {"finished": 1981})
    printed = foretrain("watch", "low.jsonl", "high.jsonl", "--report", "both.html")
    assert printed.code == 0, printed.err
    words = " ".join(printed.out.split())
    assert words.startswith("low.jsonl has the lowest loss now: 2. high.jsonl: The loss rose from 2")
    rows = {line.split()[0]: line.split() for line in printed.out.splitlines() if line.startswith(("low", "high"))}
    assert rows["low.jsonl"][-1] != ""
    page = Path("both.html").read_text()
    assert page.count("<tr>") == 3
    assert "The loss rose from" in page
    assert page.count('"name":"low.jsonl"') >= 2
