"""What every command shares: options, output, and checks that files can be written before work begins."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretrain.core.errors import require, visible, visible_lines
from foretrain.ledger.tiers import SIZES

if TYPE_CHECKING:
    from rich.console import Console

Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Number of processes, with one thread each.", metavar="N")]
TIER_HELP = f"Size: {SIZES}."
Tier = Annotated[str, typer.Option(help=TIER_HELP)]
Runs = Annotated[Path, typer.Option("--runs", help="Folder with saved runs and verdicts.", metavar="DIR")]
Cluster = Annotated[str | None, typer.Option(help="Address of a Dask scheduler to run on.", metavar="ADDRESS")]
RUNS = Path("runs")


def say(sentence: str) -> None:
    """Print a message on one line of stderr; stdout is only for results."""
    print(visible(" ".join(sentence.split())), file=sys.stderr)


def show(text: str) -> None:
    """Print a result on stdout."""
    print(visible_lines(text))


def show_json(value: Any, **options: Any) -> None:
    """Print a result as JSON on stdout. Characters that would steer the terminal are written as \\uXXXX."""
    text = json.dumps(value, indent=1, ensure_ascii=False, **options)
    print("".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text))


def console(*, results: bool) -> Console:
    """A console for tables: results go to stdout. Outside a terminal, lines are long enough not to cut off names."""
    from foretrain.cli.terminal import PlainConsole

    stream = sys.stdout if results else sys.stderr
    return PlainConsole(file=stream, width=None if stream.isatty() else 140)


def require_jobs(jobs: int) -> None:
    require(jobs >= 1, f"--jobs must be at least 1; got {jobs}.")
