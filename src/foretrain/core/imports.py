"""Reads from source files what they import, without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

Import = tuple[str, str]  # a module and the name that is taken from it; the name is empty for `import module`


@cache
def imports_of(path: Path, module: str, *, for_type_checkers: bool = True) -> tuple[Import, ...]:
    """Everything that the file of a module imports, by absolute names, also inside functions.

    `import_module("name")` counts too; a name in a variable cannot be followed.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(dict.fromkeys(_imports(tree, package.split("."), for_type_checkers)))


def _imports(tree: ast.AST, package: list[str], for_type_checkers: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            yield from ((".".join([*base, *filter(None, [node.module])]), alias.name) for alias in node.names)
        elif isinstance(node, ast.If) and not for_type_checkers and _is_for_type_checkers(node.test):
            for part in node.orelse:
                yield from _imports(part, package, for_type_checkers)
        else:
            if isinstance(node, ast.Call) and is_import_by_name(node):
                names = [part.value for part in node.args[:1] if isinstance(part, ast.Constant)]
                yield from ((name, "") for name in names if isinstance(name, str))
            yield from _imports(node, package, for_type_checkers)


def is_import_by_name(call: ast.Call) -> bool:
    """Whether this calls `import_module` or `__import__`."""
    return ast.unparse(call.func).split(".")[-1] in ("import_module", "__import__")


def _is_for_type_checkers(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
