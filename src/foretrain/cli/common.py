"""What every command shares: its options, and messages on stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from foretrain.core.errors import InputError, visible, visible_lines
from foretrain.ledger.tiers import SIZES

Number = TypeVar("Number", int, float)
RUNS = Path("runs")
QUERY = 'An id or its beginning, a glob, a number in the paper ("Theorem 3", fig22), or words.'


def option(help: str, metavar: str | None = None, *names: str, default: str | None = None) -> Any:
    """An option of a command: its help, what its value is called, and its names where they are not the argument's.

    `default` is shown in place of a default that is chosen while the command runs.
    """
    return typer.Option(*names, help=help, metavar=metavar, show_default=True if default is None else default)


Jobs = Annotated[int, option("Number of processes, with one thread each.", "N", "--jobs", "-j")]
Tier = Annotated[str, option(f"Size: {SIZES}.", None, "--tier")]
Runs = Annotated[Path, option("Folder with saved runs and verdicts.", "DIR", "--runs")]
Cluster = Annotated[str | None, option("Address of a Dask scheduler to run on.", "ADDRESS")]
Patterns = Annotated[list[str] | None, typer.Argument(metavar="QUERY", help=QUERY, show_default=False)]
Data = Annotated[Path | None, option("Folder with sst2, imdb and ag_news.", "DIR")]
Classes = Annotated[str | None, option("Allowed labels, in order; by default, all.", "A,B,…")]


def say(sentence: str) -> None:
    """Print a message on one line of stderr; stdout is only for results."""
    print(visible(" ".join(sentence.split())), file=sys.stderr)


def show(text: str) -> None:
    """Print a result on stdout."""
    print(visible_lines(text))


def numbers_of(option: str, given: str | None, kind: type[Number]) -> list[Number]:
    """The numbers of a list such as 1,2,3."""
    try:
        return [kind(each) for each in given.split(",")] if given else []
    except ValueError as error:
        raise InputError(f"{option} takes numbers separated by commas; got {given!r}.") from error
