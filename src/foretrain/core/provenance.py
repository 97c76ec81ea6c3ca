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
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import metadata
from inspect import unwrap
from pathlib import Path
from types import CodeType
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
    """Twelve hex digits over the source code that a function's results depend on.

    A function without a source file, typed into a notebook or read from standard input, counts with its compiled code
    and with everything of foretrain that is loaded.
    """
    module = module_of(function)
    if _file_of(module) is not None and not _only_draws(module):
        return module_digest(module)
    ours = {name: _file_of(name) for name in sys.modules if name.split(".", 1)[0] == "foretrain"}
    files = {name: path for name, path in ours.items() if path is not None}
    return _digest(files, _code_bytes(unwrapped(function).__code__))


def _digest(files: Mapping[str, Path], start: bytes = b"") -> str:
    sha = hashlib.sha256(start)
    for name, path in sorted(files.items()):
        sha.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()[:12]


def _code_bytes(code: CodeType) -> bytes:
    """What a function does, without where it was written."""
    constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
    inner = b"".join(_code_bytes(c) for c in code.co_consts if isinstance(c, CodeType))
    return code.co_code + repr((constants, code.co_names, code.co_varnames)).encode() + inner


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function without the decorators and partials around it."""
    function = unwrap(function)
    while hasattr(function, "func"):  # functools.partial
        function = unwrap(function.func)
    return function


def module_of(function: Callable[..., Any]) -> str:
    """The module in which a function was written."""
    return unwrapped(function).__module__


@cache
def module_digest(module: str) -> str:
    """Twelve hex digits over a module's import closure, read once per process: a program keeps what it loaded."""
    return _digest(import_closure(module))


def import_closure(module: str) -> dict[str, Path]:
    """A module and all modules it imports, directly or through others, with their files.

    Followed are modules of foretrain, of the module's own package, and for a script those beside it. Imports for type
    checkers do not count.
    """
    packages = {"foretrain", module.split(".", 1)[0]}
    start = _file_of(module)
    beside = start.parent if start is not None and "." not in module and start.name != "__init__.py" else None
    closure: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file_of(name) or (_in_folder(beside, name) if beside else None)
        own = name.split(".", 1)[0] in packages or (path is not None and beside is not None and beside in path.parents)
        if name in closure or path is None or not own or _only_draws(name):
            continue
        closure[name] = path
        waiting += _imports(name, path)
    return closure


def _only_draws(module: str) -> bool:
    return module.startswith("foretrain.") and bool(DRAWING & set(module.split(".")))


@cache
def _imports(module: str, path: Path) -> tuple[str, ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(dict.fromkeys(_imported_names(tree, package)))


def _imported_names(tree: ast.AST, package: str) -> Iterator[str]:
    """Modules that the code imports, also inside functions, but not for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
                if alias.name == "foretrain":  # whose names are loaded on first use
                    yield from _public_names().values()
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            for alias in node.names:
                yield from _imported_from(source, alias.name)
        elif isinstance(node, ast.If) and _is_for_type_checkers(node.test):
            for part in node.orelse:
                yield from _imported_names(part, package)
        else:
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
                yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str))
            yield from _imported_names(node, package)


def _imported_from(source: str, name: str) -> Iterator[str]:
    if source == "foretrain" and name in _public_names():
        yield _public_names()[name]
        return
    if name == "*":  # may bring along any module of a package
        yield from (f"{source}.{path.stem}" for folder in _folders_of(source) for path in sorted(folder.glob("*.py")))
    yield f"{source}.{name}" if _file_of(f"{source}.{name}") else source


def _is_for_type_checkers(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


@cache
def _public_names() -> dict[str, str]:
    """Names that `foretrain` itself gives, and the modules they come from."""
    return dict(sys.modules["foretrain"].PUBLIC)


def _in_folder(folder: Path, module: str) -> Path | None:
    place = folder.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _file_of(module: str) -> Path | None:
    """The source file of a module, found without importing it; None if it is not a module with source code."""
    loaded = sys.modules.get(module)
    if loaded is not None and getattr(loaded, "__file__", None):
        path = Path(str(loaded.__file__))
        return path if path.suffix == ".py" else None
    parent, _, name = module.rpartition(".")
    paths = (_in_folder(folder, name) for folder in (_folders_of(parent) if parent else ()))
    return next(filter(None, paths), None)


def _folders_of(package: str) -> list[Path]:
    loaded = sys.modules.get(package)
    if loaded is not None and hasattr(loaded, "__path__"):
        return [Path(folder) for folder in loaded.__path__]
    file = _file_of(package)
    return [file.parent] if file is not None and file.name == "__init__.py" else []
