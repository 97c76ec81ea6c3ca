"""Imports go one way, read from the source: theory cannot see the experiment, and no paper sees another."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "foretrain"

# A room may import from its own level and from those below it.
LEVELS = (
    {
        "errors", "provenance", "streams", "trajectory", "claim", "comparators", "tolerances", "experiment",
        "runfolder", "workers", "sweep", "plotting",
    },
    {"data", "models", "kernels", "measures"},
    {"dynamics"},
    {"papers"},
    {"check", "export", "forecast", "report", "explorer"},
    {"cli", "__main__"},
)  # fmt: skip
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
MEASURES_ONLY = {"monitor", "patches"}  # used on other people's models: nothing of ours may come along

FILES = sorted(PACKAGE.rglob("*.py"))


def _module(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _imported(path: Path) -> Iterator[tuple[str, ...]]:
    """Every module a file imports, also inside functions and for type checkers only."""
    package = _module(path) if path.name == "__init__.py" else _module(path)[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            source = (*base, *(node.module.split(".") if node.module else ()))
            yield from ((*source, alias.name) for alias in node.names)


def _room(module: tuple[str, ...]) -> str | None:
    return module[1] if len(module) > 1 and module[0] == "foretrain" else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_from_below(path: Path) -> None:
    own = _room(_module(path))
    if own is None:  # foretrain itself: the door, which opens rooms on first use
        assert not [module for module in _imported(path) if _room(module)]
        return
    assert own in LEVEL or own in MEASURES_ONLY, f"say in LEVELS where the new room {own!r} stands"
    for module in _imported(path):
        room = _room(module)
        if room is None:
            continue
        assert room in LEVEL or room in MEASURES_ONLY, f"{'.'.join(module)}: unknown room"
        if own in MEASURES_ONLY:
            assert room == own or room == "measures" or LEVEL.get(room) == 0, f"{own} must not use {room}"
        elif room in MEASURES_ONLY:
            assert LEVEL[own] >= LEVEL["papers"], f"{own} must not use {room}"
        else:
            assert LEVEL[room] <= LEVEL[own], f"{own} must not use {room}: imports go one way"


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "papers").glob("*/**/*.py")), ids=lambda path: str(path.relative_to(PACKAGE / "papers"))
)
def test_papers_never_import_each_other(path: Path) -> None:
    own = _module(path)[2]
    folders = {folder.name for folder in (PACKAGE / "papers").iterdir() if folder.is_dir()}
    others = {m[2] for m in _imported(path) if m[:2] == ("foretrain", "papers") and len(m) > 2} & folders
    assert others <= {own}


def test_theory_sees_numpy_scipy_and_itself_only() -> None:
    theories = [p for p in FILES if "theory" in _module(p)[3:4]]
    assert theories
    for path in theories:
        own = _module(path)[:4]
        for module in _imported(path):
            stays = module[:4] == own or module[:2] == ("foretrain", "errors")
            outside = module[0] in {"numpy", "scipy"} or module[0] in sys.stdlib_module_names
            assert stays or outside, f"{path.relative_to(PACKAGE)} imports {'.'.join(module)}"


def test_the_rules_would_notice() -> None:
    """The reader of imports finds every way to import."""
    source = PACKAGE / "sweep.py"
    found = {".".join(module) for module in _imported(source)}
    assert {"foretrain.runfolder.RunFolder", "json", "foretrain.workers.worker_pool"} <= found
    assert LEVEL["papers"] > LEVEL["dynamics"] > LEVEL["models"] > LEVEL["claim"]
