"""What a number depends on besides its configuration: the source code that computes it, library versions, the machine.

The source code of a result is the static import closure of the function that computes it: the function's module, all
modules that one imports, and so on. Modules that only draw are left out, and so is everything that is not imported. A
package's `__init__` counts where something is imported from the package itself.
"""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import metadata
from inspect import unwrap
from pathlib import Path
from typing import Any

CHANGE_NUMBERS = ("torch", "numpy", "scipy", "xarray")  # libraries whose version may change a result
DRAWING = frozenset({"show", "figures"})  # packages that draw results and compute none


@cache
def versions() -> dict[str, str]:
    """Versions of everything a number may depend on."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in CHANGE_NUMBERS}}


def machine() -> dict[str, str]:
    """The kind of machine, not its name."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
    }


def source_digest(function: Callable[..., Any]) -> str:
    """Twelve hex digits over the source code that a function's results depend on."""
    return module_digest(module_of(function))


def module_of(function: Callable[..., Any]) -> str:
    """The module in which a function was written, without the wrappers around it."""
    function = unwrap(function)
    while hasattr(function, "func"):  # functools.partial
        function = unwrap(function.func)
    return function.__module__


@cache
def module_digest(module: str) -> str:
    """Twelve hex digits over a module's import closure, read once per process: a program keeps what it loaded."""
    sha = hashlib.sha256()
    for name, path in sorted(import_closure(module).items()):
        sha.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()[:12]


def import_closure(module: str) -> dict[str, Path]:
    """A module and all modules it imports, directly or through others, with their files.

    Only modules of foretrain and of the module's own package are followed. Imports for type checkers do not count.
    """
    packages = {"foretrain", module.split(".", 1)[0]}
    closure: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if name in closure or path is None or (name.startswith("foretrain.") and DRAWING & set(name.split("."))):
            continue
        closure[name] = path
        waiting += [other for other in _imports(name, path) if other.split(".", 1)[0] in packages]
    return closure


@cache
def _imports(module: str, path: Path) -> tuple[str, ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(dict.fromkeys(_imported_names(tree, package)))


def _imported_names(tree: ast.AST, package: str) -> Iterator[str]:
    """Modules that the code imports, also inside functions, but not for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if _file_of(inner) else source
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for part in node.orelse:
                yield from _imported_names(part, package)
        else:
            yield from _imported_names(node, package)


def _file_of(module: str) -> Path | None:
    """The source file of a module, found without importing it; None if it is not a module with source code."""
    loaded = sys.modules.get(module)
    if loaded is not None and getattr(loaded, "__file__", None):
        path = Path(str(loaded.__file__))
        return path if path.suffix == ".py" else None
    parent, _, name = module.rpartition(".")
    for folder in _folders_of(parent) if parent else ():
        for path in (folder / f"{name}.py", folder / name / "__init__.py"):
            if path.is_file():
                return path
    return None


def _folders_of(package: str) -> list[Path]:
    loaded = sys.modules.get(package)
    if loaded is not None and hasattr(loaded, "__path__"):
        return [Path(folder) for folder in loaded.__path__]
    file = _file_of(package)
    return [file.parent] if file is not None and file.name == "__init__.py" else []
