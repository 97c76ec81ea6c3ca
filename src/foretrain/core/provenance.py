"""What a number depends on besides its configuration: the source code that computes it, library versions, the machine.

The source code of a result is the static import closure of the function that computes it: the function's module, all
modules that one imports, and so on. Modules that only draw are left out, and so is everything that is not imported. A
package's `__init__` counts where something is imported from the package itself.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from inspect import unwrap
from pathlib import Path, PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

from foretrain.core.imports import imports_of

CHANGE_NUMBERS = ("torch", "numpy", "scipy", "xarray")  # libraries whose version may change a result
DRAWING = frozenset({"show", "figures", "page"})  # packages and modules that draw results and compute none


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
    and with all of foretrain.
    """
    module = module_of(function)
    if _is_in_file(function, module) and not _only_draws(module):
        return module_digest(module)
    return _digest(_package(), _code_bytes(unwrapped(function).__code__))


def function_digest(function: Callable[..., Any]) -> str:
    """The same, and the function itself: its code, its defaults and the plain values that it uses from outside.

    For functions that people write: one file may hold several of them, and one function several closures.
    """
    whole = source_digest(function).encode() + _function_bytes(unwrapped(function))
    return hashlib.sha256(whole).hexdigest()[:12]


def _function_bytes(function: Any, above: tuple[Any, ...] = ()) -> bytes:
    """A function's code, defaults, and what it uses from outside; functions among that count in the same way."""
    content = _code_bytes(function.__code__)
    for kind, values in ((b"\0", _from_outside(function)), (b"\1", _defaults(function))):
        for name, value in sorted(values.items()):
            content += kind + name.encode() + b"="
            if _is_in_script(value):
                again = value in (*above, function)
                content += b"itself" if again else _function_bytes(value, (*above, function))
            else:
                content += value_bytes(value) if is_plain(value) else _type_name(value).encode()
    return content


def value_bytes(value: Any) -> bytes:
    """A plain value, whole: repr leaves out most of a long array, and gives a set in any order."""
    kind = type(value).__name__
    if _is_array(value):
        return repr((kind, value.dtype, value.shape)).encode() + value.tobytes()
    if not isinstance(value, tuple | list | set | frozenset | dict):
        return repr(value).encode()
    parts = [value_bytes(part) for part in (value.items() if isinstance(value, dict) else value)]
    return kind.encode() + repr(sorted(parts) if isinstance(value, set | frozenset) else parts).encode()


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "tobytes") and value.dtype.kind in "fiubcUS"


def unknown_values(function: Callable[..., Any]) -> list[str]:
    """Names of objects that a function uses from outside and that cannot be checked for changes.

    Objects that a script makes are not among them: the digest of its file stands for them. Defaults are, because a
    function that is made several times may have different ones each time.
    """
    plain_function = unwrapped(function)
    in_file = _is_in_file(function, module_of(function))
    free = set(plain_function.__code__.co_freevars)
    outside = {name: v for name, v in _from_outside(plain_function).items() if name in free or not in_file}
    used = [*outside.items(), *_defaults(plain_function).items()]
    return [name for name, value in used if not (is_plain(value) or _is_in_script(value) or _has_a_name(value))]


def _defaults(function: Any) -> dict[str, Any]:
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    return {**dict(zip(names, given, strict=True)), **(function.__kwdefaults__ or {})}


def _from_outside(function: Any) -> dict[str, Any]:
    names = _global_names(function.__code__)
    values = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not filled yet: a function that calls itself while it is being made
            values[name] = cell.cell_contents
    return values


def _global_names(code: CodeType) -> set[str]:
    inner = [_global_names(c) for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*inner)


def _is_in_script(value: Any) -> bool:
    """Whether it is a function of the script: those of libraries are known by their names and versions."""
    return isinstance(value, FunctionType) and value.__module__ in ("__main__", "__mp_main__")


def _has_a_name(value: Any) -> bool:
    return isinstance(value, ModuleType | type) or (callable(value) and hasattr(value, "__qualname__"))


def _type_name(value: Any) -> str:
    kind = value if _has_a_name(value) else type(value)
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', getattr(kind, '__name__', ''))}"


def is_plain(value: Any) -> bool:
    """Whether all there is to a value can be written down: numbers, texts, arrays, and collections of these."""
    if isinstance(value, tuple | list | set | frozenset | range):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(map(is_plain, [*value, *value.values()]))
    return value is None or _is_array(value) or isinstance(value, bool | int | float | complex | str | bytes | PurePath)


def _is_in_file(function: Callable[..., Any], module: str) -> bool:
    """Whether a function was read from the source file of its module; what a notebook holds was not."""
    file = _file_of(module)
    if file is None or module != "__main__":
        return file is not None
    return Path(unwrapped(function).__code__.co_filename).resolve() == file.resolve()


def installed_digest(function: Callable[..., Any]) -> str:
    """Twelve hex digits over the installed code that a function depends on, the same on every machine that has it.

    A function of a script or a notebook is sent to other machines as it is; for it, all of foretrain counts.
    """
    return source_digest(function) if module_of(function) != "__main__" else _package_digest()


def modules_beside(function: Callable[..., Any]) -> tuple[str, ...]:
    """Modules beside a script that a function of this script depends on: they are not sent along with it."""
    closure = import_closure("__main__") if module_of(function) == "__main__" else {}
    return tuple(sorted(name for name in closure if name.split(".", 1)[0] not in ("__main__", "foretrain")))


@cache
def installed_module_digest(module: str) -> str:
    """Twelve hex digits over the file of a module as this process finds it, read once; "none" if there is none."""
    file = _file_of(module)
    if file is None:
        try:
            spec = find_spec(module)
        except (ImportError, ValueError):
            spec = None
        file = Path(spec.origin) if spec is not None and spec.origin and spec.has_location else None
    return _digest({module: file}) if file is not None else "none"


@cache
def _package_digest() -> str:
    return _digest(_package())


@cache
def _package() -> dict[str, Path]:
    folder = Path(str(sys.modules["foretrain"].__file__)).parent
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}


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
    module = unwrapped(function).__module__
    return "__main__" if module in ("__mp_main__", None) else module  # as worker processes call the script


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
        if name in closure or path is None or _only_draws(name):
            continue
        if name.split(".", 1)[0] not in packages and (beside is None or beside not in path.parents):
            continue
        closure[name] = path
        waiting += _imported(name, path)
    return closure


def _only_draws(module: str) -> bool:
    return module.startswith("foretrain.") and bool(DRAWING & set(module.split(".")))


def _imported(module: str, path: Path) -> Iterator[str]:
    """The modules that a file imports, not for type checkers only. Names of `foretrain` itself are loaded on first use
    from their modules."""
    for source, name in imports_of(path, module, for_type_checkers=False):
        if source == "foretrain" and not name:
            yield from ("foretrain", *_public_names().values())
        elif source == "foretrain" and name in _public_names():
            yield _public_names()[name]
        elif name == "*":  # may bring along any module of a package
            files = [file for folder in _folders_of(source) for file in sorted(folder.glob("*.py"))]
            yield from (source, *(f"{source}.{file.stem}" for file in files))
        else:
            yield f"{source}.{name}" if name and _file_of(f"{source}.{name}") else source


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
