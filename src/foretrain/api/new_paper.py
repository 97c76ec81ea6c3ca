"""The beginning of a package with claims of a paper."""

from __future__ import annotations

import keyword
import re
from importlib import resources
from pathlib import Path

from foretrain import papers
from foretrain.core.errors import require
from foretrain.core.files import write_text

PARTS = ("__init__.py", "paper.py", "theory.py", "experiments.py", "claims.py")
NAME = re.compile(r"[a-z][a-z0-9_]*")


def new_paper(name: str, folder: str | Path = ".") -> Path:
    """Write a package NAME with one claim, one experiment and a test that passes, and return its folder.

    foretrain finds it as soon as it is installed: `pip install --editable NAME`.
    """
    require(
        NAME.fullmatch(name) is not None and not keyword.iskeyword(name),
        f"A paper's name has small letters, digits and underscores, such as my_paper; got {name!r}.",
    )
    require(name not in papers.names(), f"There is a paper {name} already; choose another name.")
    place = Path(folder) / name
    require(not place.exists(), f"{place} is there already; choose another name, or another folder with --out.")
    skeleton = resources.files("foretrain.api") / "skeleton"
    files = {"pyproject.toml": "", "README.md": "", **dict.fromkeys(PARTS, f"src/{name}"), "test_claims.py": "tests"}
    for file, below in files.items():
        text = (skeleton / f"{file}.txt").read_text(encoding="utf-8").replace("@NAME@", name)
        write_text(place / below / file, text)
    return place
