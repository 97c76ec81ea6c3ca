"""What every command shares: where words go, and places that must be writable before work begins."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foretrain.core.errors import InputError, require, visible

if TYPE_CHECKING:
    from rich.console import Console

Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes to work in, one thread each.", metavar="N")]
Tier = Annotated[str, typer.Option(help="How large: fast (minutes), full (an hour), paper (its own sizes).")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder of saved runs and verdicts.", metavar="DIR")]
RUNS = Path("runs")


def say(sentence: str) -> None:
    """A sentence, on one line, for the person at the terminal; never on stdout, which is for results."""
    print(visible(" ".join(sentence.split())), file=sys.stderr)


def console(*, results: bool) -> Console:
    """Where tables go: results on stdout; off a terminal lines are long enough not to cut names."""
    from rich.console import Console

    stream = sys.stdout if results else sys.stderr
    return Console(file=stream, width=None if stream.isatty() else 140, highlight=False)


def require_jobs(jobs: int) -> None:
    require(jobs >= 1, f"--jobs must be at least 1; got {jobs}.")


def require_writable(option: str, path: Path, *, folder: bool = False) -> None:
    """Refuse now what would fail after an hour of work. Nothing is left behind."""
    wrong_kind = path.exists() and path.is_dir() != folder
    require(not wrong_kind, f"{option} {path} is {'not ' if folder else ''}a folder; choose another name.")
    place = path if folder else path.parent
    while not place.exists():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
        if path.is_file():
            path.open("ab").close()
    except OSError as error:
        raise InputError(f"{option} {path} cannot be written ({error.strerror}); choose another place.") from error
