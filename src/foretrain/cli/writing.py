"""foretrain new-paper: begin a package with claims of a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foretrain.api.new_paper import new_paper as write_paper
from foretrain.cli.common import option, say, show


def new_paper(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the paper and its package are called.")],
    out: Annotated[Path, option("Folder to write the package into.", "DIR")] = Path(),
) -> None:
    """Write a package with one claim, one experiment and a test that passes, for you to go on from.

    As soon as it is installed, foretrain lists, checks, runs and reports it like the papers that it brings along.

    \b
    Examples:
      foretrain new-paper my_paper
      foretrain new-paper my_paper --out ~/papers
    """
    place = write_paper(name, out)
    say(f"Next: pip install --editable {place} && foretrain check {name}")
    show(str(place))
