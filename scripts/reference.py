"""Writes docs/reference.md from docstrings and the table in CONTRIBUTING.md: `.venv/bin/python -m scripts.reference`.

Names, signatures and docstrings are read from the source files without importing them, which takes less than a second.
architecture.toml says what is public: for each module listed there, the names beside it, else its `__all__`, else
every name without an underscore.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scripts.architecture import ROOT, SOURCE, packages, table

PAGE = ROOT / "docs" / "reference.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
MARKS = ("<!-- architecture: made by scripts/reference.py -->", "<!-- end of architecture -->")

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Entry:
    name: str
    signature: str | None  # None for a class that is neither a dataclass nor has an __init__
    docstring: str | None
    methods: tuple[str, ...]  # public methods with a docstring, if it is a class
    bare: tuple[str, ...] = ()  # public methods and properties without one; not `forward`, which torch describes


@dataclass(frozen=True)
class Module:
    name: str
    docstring: str
    entries: tuple[Entry, ...]


def modules() -> Iterator[tuple[str, str, list[Module]]]:
    """For each package: its title, the question it answers, and its modules."""
    for package in packages():
        if package.reference:
            listed = [_module(*(part.strip() for part in line.partition(":")[::2])) for line in package.reference]
            yield package.title, package.answers, listed


def _module(name: str, chosen: str) -> Module:
    tree = _parsed(name)
    names = chosen.split() or _all_of(tree) or _defined(tree)
    entries = (_entry(public, node) for public in names if (node := _find(name, public)) is not None)
    return Module(name, ast.get_docstring(tree) or "", tuple(entries))


def _file(module: str) -> Path:
    place = SOURCE.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse(_file(module).read_text(encoding="utf-8"))


def _all_of(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _defined(tree: ast.Module) -> list[str]:
    return [n.name for n in tree.body if isinstance(n, Definition) and not n.name.startswith("_")]


def _find(module: str, name: str) -> Definition | None:
    """The definition of a name, followed through imports; None for a constant."""
    for node in _parsed(module).body:
        if isinstance(node, Definition) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return _find(str(node.module), name)
        if isinstance(node, ast.Assign | ast.AnnAssign) and ast.unparse(_target(node)) == name:
            return None
    raise LookupError(f"{module} has no {name}")


def _target(node: ast.Assign | ast.AnnAssign) -> ast.expr:
    return node.target if isinstance(node, ast.AnnAssign) else node.targets[0]


def _entry(name: str, node: Definition) -> Entry:
    if isinstance(node, ast.FunctionDef):
        return Entry(name, _signature(node), ast.get_docstring(node), ())
    inside = [n for n in node.body if isinstance(n, ast.FunctionDef)]
    start = next((n for n in inside if n.name == "__init__"), None)
    signature = _signature(start).removeprefix("self").removeprefix(", ") if start else _fields(node)
    public = [n for n in inside if not n.name.startswith("_")]
    methods = tuple(n.name for n in public if ast.get_docstring(n))
    bare = tuple(n.name for n in public if n.name not in (*methods, "forward"))
    return Entry(name, signature, ast.get_docstring(node), methods, bare)


def _signature(node: ast.FunctionDef) -> str:
    """Argument names and defaults, without types."""
    arguments = copy.deepcopy(node.args)
    listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    for argument in listed:
        if argument is not None:
            argument.annotation = None
    return ast.unparse(arguments)


def _fields(node: ast.ClassDef) -> str | None:
    """The fields of a dataclass, in order; None for another class."""
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return None
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    return ", ".join(ast.unparse(f.target) + (f"={_default(f.value)}" if f.value else "") for f in fields)


def _default(value: ast.expr) -> str:
    made = isinstance(value, ast.Call) and ast.unparse(value.func) == "field"
    return "…" if made else ast.unparse(value)


def sentence(docstring: str) -> str:
    """The first paragraph of a docstring, or its first sentence if the paragraph is long."""
    paragraph = " ".join(docstring.split("\n\n", 1)[0].split())
    if len(paragraph) <= 240:
        return paragraph
    return re.split(r"(?<=[a-zé0-9)\]”\"'`][.:]) (?=[A-Z`|“])", paragraph, maxsplit=1)[0]


@dataclass(frozen=True)
class Command:
    name: str
    says: str
    takes: tuple[tuple[str, str], ...]  # arguments and options, each with its help


def commands() -> Iterator[Command]:
    """All commands of the command line, including subcommands."""
    import typer

    from foretrain.cli import app

    yield from _commands(typer.main.get_command(app), "foretrain")


def _commands(command: Any, name: str) -> Iterator[Command]:
    for part, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{name} {part}")
    if not hasattr(command, "commands"):
        yield Command(name, sentence(command.help), tuple(map(_parameter, command.params)))


def _parameter(parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        return parameter.metavar, parameter.help
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
    return max(parameter.opts, key=len) + value, parameter.help


def page() -> str:
    """The whole page as Markdown."""
    rooms = list(modules())
    names = ["Command line", *(room for room, _, _ in rooms)]
    lines = [
        "# Reference",
        "",
        "Every public name with the first sentence of its docstring. Made by `scripts/reference.py`: to change this "
        "page, edit the docstrings and run `.venv/bin/python -m scripts.reference`. `help(name)` in Python shows the "
        "rest.",
        "",
        " · ".join(f"[{name}](#{_anchor(name)})" for name in names),
        "",
        "`from foretrain import …` gives the most used names: " + ", ".join(f"`{n}`" for n in front_door()) + ".",
        "",
        "## Command line",
        "",
    ]
    for command in commands():
        lines += [f"**`{command.name}`** {command.says}", ""]
        lines += [*(f"- `{option}` {says}" for option, says in command.takes), ""]
    for room, answers, listed in rooms:
        lines += [f"## {room}", "", answers, ""]
        for module in listed:
            place = _file(module.name).relative_to(ROOT).as_posix()
            lines += [f"### `{module.name}`", "", f"{sentence(module.docstring)} [Source](../{place})", ""]
            lines += [*map(_line, module.entries), ""]
    return "\n".join(lines)


def front_door() -> list[str]:
    """The names that can be imported from `foretrain` itself."""
    table = next(
        n for n in _parsed("foretrain").body if isinstance(n, ast.Assign) and ast.unparse(_target(n)) == "PUBLIC"
    )
    return sorted(ast.literal_eval(table.value))


def _line(entry: Entry) -> str:
    methods = ", ".join(f"`{name}`" for name in entry.methods)
    says = sentence(entry.docstring or "") + (f" Methods: {methods}." if methods else "")
    return f"- **`{entry.name}`**{f'`({entry.signature})`' if entry.signature is not None else ''} {says}"


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def contributing() -> str:
    """CONTRIBUTING.md with the current map of packages."""
    before, _, rest = CONTRIBUTING.read_text(encoding="utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    for path, text in ((PAGE, page()), (CONTRIBUTING, contributing())):
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
