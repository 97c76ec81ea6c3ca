"""Where the code cites a numbered result of a paper: in its theory, simulations, experiments and tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from foretrain.ledger.search import Reference, references

PLACES = ("theory", "simulations", "experiments", "tests")
TESTS = Path(__file__).parents[3] / "tests" / "papers"  # only there in a checkout
_NOT_RESULTS = frozenset({"eq", "section", "appendix"})


@dataclass(frozen=True)
class Citation:
    """A function whose name or docstring cites a result."""

    place: str  # one of PLACES
    name: str
    file: Path
    line: int


def results_in(text: str) -> set[Reference]:
    """The theorems, lemmas, figures and the like that a text names, but not equations and sections."""
    return {reference for reference in references(text) if reference[0] not in _NOT_RESULTS}


def citations(folder: Path, wanted: set[Reference]) -> Iterator[Citation]:
    """Functions that cite any of these results, in the folder of a paper and in its tests."""
    for place in PLACES:
        root = TESTS / folder.name if place == "tests" else folder / place
        files = sorted(root.rglob("*.py")) if root.is_dir() else [root.with_suffix(".py")]
        for file in files:
            if file.is_file():
                yield from _citations_in(file, place, wanted)


def _citations_in(file: Path, place: str, wanted: set[Reference]) -> Iterator[Citation]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            words = f"{node.name.replace('_', ' ')}\n{ast.get_docstring(node) or ''}"
            if wanted & references(words):
                yield Citation(place, node.name, file, node.lineno)
