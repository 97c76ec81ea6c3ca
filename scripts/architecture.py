"""Compares the map of packages in architecture.toml with the imports in the source code."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from foretrain.core.imports import imports_of, is_import_by_name

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
MAP = ROOT / "architecture.toml"


@dataclass(frozen=True)
class Package:
    """One package in the map."""

    name: str  # "core", "papers.*.theory"
    answers: str
    imports: tuple[str, ...]
    title: str = ""  # heading in the reference; empty if the package is not listed there
    outside: tuple[str, ...] | None = None  # the only libraries it may import; None allows all
    reference: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))


@cache
def packages() -> tuple[Package, ...]:
    """All packages, in the order of the map."""
    listed = tomllib.loads(MAP.read_text(encoding="utf-8"))["package"]
    return tuple(
        Package(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
        for entry in listed
    )


def files() -> list[Path]:
    return sorted((SOURCE / "foretrain").rglob("*.py"))


def module_of(path: Path) -> str:
    """The module name of a file, without the leading "foretrain."; "" is foretrain itself."""
    parts = path.relative_to(SOURCE / "foretrain").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> Package | None:
    """The most specific package that a module belongs to."""
    parts = module.split(".")
    fitting = [package for package in packages() if _fits(package.parts, parts)]
    return max(fitting, key=lambda package: (len(package.parts), package.name.count("*") == 0), default=None)


def _fits(pattern: tuple[str, ...], parts: list[str]) -> bool:
    return len(pattern) <= len(parts) and all(p in ("*", part) for p, part in zip(pattern, parts, strict=False))


def forbidden(module: str, imported: str) -> str | None:
    """Why one module of foretrain may not import another; None if it may."""
    if not imported:
        return f"{module} imports foretrain itself, which can bring along anything; import the module that is meant"
    own, other = package_of(module), package_of(imported)
    if own is None:
        return f"add {module} to a package in architecture.toml"
    if other is None:
        return f"add {imported} to a package in architecture.toml"
    own_paper, other_paper = _paper(module), _paper(imported)
    if own_paper and other_paper and own_paper != other_paper:
        return f"papers never import each other, and {module} imports {imported}"
    same_paper = bool(own_paper) and own_paper == other_paper and own.outside is None
    allowed = same_paper or own.name == other.name or any(_covers(name, imported, other) for name in own.imports)
    return None if allowed else f"{own.name} may not import {other.name}: {module} imports {imported}"


def _paper(module: str) -> str:
    """The paper that a module belongs to; empty if none."""
    parts = module.split(".")
    is_paper = parts[0] == "papers" and len(parts) > 1 and (SOURCE / "foretrain" / "papers" / parts[1]).is_dir()
    return parts[1] if is_paper else ""


def _covers(allowed: str, imported: str, other: Package) -> bool:
    """Whether an allowed package, or an allowed single module such as core.errors, covers an import."""
    return allowed == other.name or (allowed == imported and package_of(allowed) == other)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, as an absolute name, including imports in functions and for type checkers."""
    module = ".".join(filter(None, ("foretrain", module_of(path))))
    for source, name in imports_of(path, module):
        yield f"{source}.{name}" if name and _is_module(f"{source}.{name}") else source


@cache
def _is_module(name: str) -> bool:
    place = SOURCE.joinpath(*name.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def inner_imports(path: Path) -> list[str]:
    """The modules of foretrain that a file imports, without the leading "foretrain"; "" is foretrain itself."""
    names = [name for name in imports(path) if name == "foretrain" or name.startswith("foretrain.")]
    return [name.removeprefix("foretrain").removeprefix(".") for name in names]


def hidden_imports(path: Path) -> list[int]:
    """Lines that import a module by a name in a variable or a string, which no map can follow."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and is_import_by_name(node)]


def cycles() -> list[list[str]]:
    """A circle of modules that import each other, directly or indirectly, even in functions; there should be none."""
    graph = {module_of(path): set(inner_imports(path)) - {module_of(path)} for path in files()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [list(error.args[1])]
    return []


def table() -> str:
    """The map as a Markdown table."""
    lines = ["| package | question it answers | may import |", "| --- | --- | --- |"]
    for package in packages():
        allowed = ", ".join(f"`{name}`" for name in package.imports) or "nothing of ours"
        if package.outside is not None:
            allowed += f"; only the libraries {' and '.join(package.outside)}"
        lines.append(f"| `{package.name}` | {package.answers} | {allowed} |")
    return "\n".join(lines)
