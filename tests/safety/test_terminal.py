"""Nothing that stands in a file or in a name can steer the terminal."""

from __future__ import annotations

import ast
import csv
import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from rich.live import Live
from rich.table import Table
from rich.text import Text
from safetensors.torch import save_file

import foretrain
from foretrain.cli import main
from foretrain.cli.common import say, show
from foretrain.cli.terminal import PlainConsole, show_json
from foretrain.core.trajectory import save
from safety.hostile import ALL, CONTROLS, FILE, SCRIPTS

ROOT = Path(__file__).parents[2]
CLI = Path(foretrain.__file__).parent / "cli"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def steering(text: str) -> list[str]:
    """Characters that a terminal does not simply show: controls, C1 controls, invisible and reversing ones."""
    return [c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]


def test_each_hostile_text_steers() -> None:
    assert all(steering(text) for text in CONTROLS)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_console_shows_only_plain_characters_and_its_own_colours(terminal: bool, tmp_path: Path) -> None:
    with open(tmp_path / "out", "w+", encoding="utf-8") as file:
        console = PlainConsole(
            file=file, width=60, force_terminal=terminal, color_system="standard" if terminal else None
        )
        table = Table(ALL, title=ALL, caption=ALL)
        table.add_column(Text(ALL))
        table.add_row(ALL, Text(ALL, style="red"))
        for item in (ALL, Text(ALL), table, f"[link=https://example.org]{ALL}[/link] [red]x[/red] :smile:"):
            console.print(item)
        console.print(ALL, soft_wrap=True, style="bold")
        with Live(table, console=console, refresh_per_second=1, auto_refresh=False, transient=True):
            pass
        file.seek(0)
        printed = file.read()
    moves = r"\x1b\[(\d*[A-K]|\?25[hl])|\r"  # of Live, which draws the table again in its place
    plain = re.sub(moves, "", COLOURS.sub("", printed)) if terminal else printed
    assert steering(plain) == []
    assert "[link=https://example.org]" in plain  # markup in a text is text
    assert ":smile:" in plain
    assert ("\x1b[31m" in printed) == terminal


def test_what_is_said_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    say(ALL)
    show(f"{ALL}\nsecond line")
    show_json({ALL: [ALL, 1.5]})
    printed = capsys.readouterr()
    assert steering(printed.out + printed.err) == []
    assert printed.err.count("\n") == 1
    assert json.loads(printed.out.split("second line\n")[1]) == {ALL: [ALL, 1.5]}


PRINTING = ("print", "typer.echo", "click.echo", "typer.secho", "Console", "sys.stdout.write", "sys.stderr.write")
ALLOWED = {  # besides `common` and `terminal`, which make everything visible
    "__init__.py": "print(visible_lines(''.join(traceback.format_exception(error))), file=sys.stderr)",
}


def test_every_command_prints_through_one_place() -> None:
    calls = [
        (path.name, ast.unparse(node))
        for path in CLI.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTING
    ]
    assert len(calls) >= 3
    others = [(name, call) for name, call in calls if name not in ("common.py", "terminal.py")]
    assert [(name, call) for name, call in others if ALLOWED.get(name) != call] == []


def _printed(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str]:
    capfd.readouterr()
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    assert steering(out + err) == [], arguments
    return left.value.code, out + err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_users_run_it: None) -> Path:
    """A folder with one hostile file for every command that reads one."""
    monkeypatch.chdir(tmp_path)
    quoted = json.dumps(ALL)
    Path("task.toml").write_text(
        f'name = {quoted}\nkind = "next-token"\n[[template]]\nstring = ["α", {quoted}]\nlabel = {quoted}\n'
        f'[[template]]\nstring = [{quoted}, "α"]\nlabel = "α"\n',
        "utf-8",
    )
    with open(FILE, "w", newline="", encoding="utf-8") as stream:
        rows = [(f"word{k % 7} {ALL}", f"class {k % 2} {ALL.replace(chr(13), '')}") for k in range(40)]
        csv.writer(stream).writerows([("text", "label"), *rows])
    lines = [json.loads(line) for line in (ROOT / "examples" / "training.jsonl").read_text().splitlines()[::60]]
    parts = ("attention", "identity", "weights")
    with open("run.jsonl", "w", encoding="utf-8") as stream:
        for record in lines:
            named = {k: {f"{n}{ALL}": w for n, w in v.items()} if k in parts else v for k, v in record.items()}
            stream.write(json.dumps(named) + "\n")
    for name in ("one", "two"):
        place = tmp_path / f"{name}{FILE}"
        place.mkdir()
        generator = torch.Generator().manual_seed(len(name) + ord(name[0]))
        names = [f"layers.{k}.{text}.weight" for k, text in enumerate(SCRIPTS + CONTROLS)]
        save_file({name: torch.randn(6, 6, generator=generator) for name in names}, place / "model.safetensors")
    return tmp_path


def test_forecast_templates(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, printed = _printed(capfd, "forecast", "templates", "task.toml", "--report", f"{FILE}.html")
    assert code == 0, printed
    assert "\\x1b[31mred" in printed


def test_forecast_corpus(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, printed = _printed(capfd, "forecast", "corpus", FILE, "--report", "a.html", "--json", "a.json")
    assert code == 0, printed
    assert "\\u202e" in printed


def test_half_characters_in_names_and_texts(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file name that is not UTF-8, and JSON with half a surrogate pair: both are legal, and no text can hold them."""
    name = "\udcff.jsonl"
    rows = [{"text": f"word{k % 5} \ud800", "label": f"{k % 2}\udfff"} for k in range(20)]
    Path(name).write_text("\n".join(map(json.dumps, rows)))
    code, printed = _printed(capfd, "forecast", "corpus", name, "--report", "a.html", "--json", "a.json")
    assert code == 0, printed
    assert "\\ud800" in Path("a.html").read_text(encoding="utf-8")
    assert "\\udfff" in json.dumps(json.loads(Path("a.json").read_text(encoding="utf-8")))


def test_watch_and_compare(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _printed(capfd, "watch", "run.jsonl", "--once", "--report", f"{FILE}.html")[0] == 0
    assert _printed(capfd, "compare", "run.jsonl", "run.jsonl")[0] == 0


def test_analyze_and_compare_models(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for more in ((), ("--json",)):
        code, printed = _printed(capfd, "analyze", f"one{FILE}", "--report", "a.html", *more)
        assert code in (0, 1), printed
        code, printed = _printed(capfd, "compare", f"one{FILE}", f"two{FILE}", *more)
        assert code == 0, printed


def test_export(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name = "".join(c for c in ALL if c != "/" and c != "\x00")
    data = xr.Dataset({name: ((name + "axis",), np.zeros(2))}, {name + "axis": ["a", ALL]})
    save(data, Path(f"{FILE}.nc"))
    for kind in ("csv", "netcdf"):
        code, printed = _printed(capfd, "run", f"{FILE}.nc", "--to", kind)
        assert code == 0, printed


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", ALL), ("list", ALL), ("check", ALL), ("run", ALL), ("run", "scan_snap/fig6", "--set", f"{ALL}=1"),
        ("run", "scan_snap/fig6", "--set", f"steps={ALL}"), ("analyze", ALL), ("compare", ALL, FILE),
        ("forecast", "templates", ALL), ("forecast", "corpus", ALL), ("forecast", "corpus", FILE, "--text", ALL),
        ("watch", ALL), ("lab", "language", ALL), ("run", ALL, "--to", ALL), ("check", ALL, "--report", ALL),
        (f"--{ALL}",), (ALL,),
        ("lab", "neurons", ALL, "--text", ALL), ("forecast", "finetune", ALL, FILE), ("check", "--tier", ALL),
    ],
    ids=lambda arguments: " ".join(a for a in arguments if a not in (ALL, FILE))[:40],
)  # fmt: skip
def test_refusals(arguments: tuple[str, ...], folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, printed = _printed(capfd, *(a.replace("\x00", "") for a in arguments))
    assert code == 2, printed
    assert "stopped with" not in printed
