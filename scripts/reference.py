"""The public names of architecture.toml, for the reference on the site, which mkdocstrings makes from their docstrings.

`.venv/bin/python -m scripts.reference` writes the table of packages in CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import griffe
from scripts.architecture import ROOT, SOURCE, packages, table

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
MARKS = ("<!-- architecture: made by scripts/reference.py -->", "<!-- end of architecture -->")
Names = Mapping[str, list[str]]  # the public names of each module


@cache
def read() -> griffe.Module:
    """All of foretrain, read from the source without importing it."""
    package = griffe.load("foretrain", search_paths=[SOURCE])
    assert isinstance(package, griffe.Module)
    return package


def public_names() -> dict[str, Names]:
    """By title of the package: for each module that is listed, the names beside it, else its `__all__`, else all
    functions and classes without an underscore."""
    return {package.title: dict(map(_names, package.reference)) for package in packages() if package.reference}


def _names(entry: str) -> tuple[str, list[str]]:
    name, _, chosen = entry.partition(":")
    module = read()[name.removeprefix("foretrain.")]
    defined = [m.name for m in module.members.values() if not m.is_alias and (m.is_function or m.is_class)]
    return name, chosen.split() or module.exports or [name for name in defined if not name.startswith("_")]


def undocumented(module: griffe.Module, names: list[str]) -> list[str]:
    """What has no docstring: the module, functions, classes, and methods and properties of these classes.

    Not `forward`, which torch describes. A name that does not exist is a KeyError.
    """
    bare = [] if module.docstring else [module.path]
    for name in names:
        item = module[name].final_target if module[name].is_alias else module[name]
        methods = [m for m in item.members.values() if m.is_function or "property" in m.labels] if item.is_class else []
        public = [method for method in methods if not method.name.startswith("_") and method.name != "forward"]
        asked = [*([item] if item.is_class or item.is_function else []), *public]
        bare += [part.path for part in asked if not part.docstring]
    return bare


def all_undocumented() -> list[str]:
    """Public names of foretrain without a docstring."""
    listed = [entry for names in public_names().values() for entry in names.items()]
    return [bare for name, names in listed for bare in undocumented(read()[name.removeprefix("foretrain.")], names)]


def page_of_package(title: str, names: Names) -> str:
    """A page for mkdocstrings: each module, and its public names."""
    lines = [f"# Reference: {title}", ""]
    for module, members in names.items():
        lines += [
            f"::: {module}",
            f"    options: {{heading_level: 2, show_root_full_path: true, members: {members}}}",
            "",
        ]
    return "\n".join(lines)


def page_of_commands() -> str:
    """All commands with their arguments and options."""
    import typer

    from foretrain.cli import app

    return "\n".join(["# Reference: command line", "", *_command(typer.main.get_command(app), None, "foretrain")])


def _command(command: Any, above: Any, name: str) -> Iterator[str]:
    context = command.make_context(name, [], parent=above, resilient_parsing=True)
    if hasattr(command, "list_commands"):
        for part in command.list_commands(context):
            yield from _command(command.get_command(context, part), context, f"{name} {part}")
        return
    says, *examples = command.help.split("\b\n")
    yield from (f"## `{name}`", "", says, *(f"```text\n{lines.rstrip()}\n```" for lines in examples), "")
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    yield from (f"- `{record[0]}`: {record[1]}" for record in records if record)
    yield ""


def contributing() -> str:
    """CONTRIBUTING.md with the current map of packages."""
    before, _, rest = CONTRIBUTING.read_text(encoding="utf-8").partition(MARKS[0])
    return f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


if __name__ == "__main__":
    CONTRIBUTING.write_text(contributing(), encoding="utf-8")
