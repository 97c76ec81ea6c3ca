"""A template task from a TOML file.

    name = "same or different"
    kind = "regression"            # or "next-token"
    symbols = "characters"         # or "words": how a string is split into symbols (default: characters)
    wildcards = ["α", "β"]         # default: every Greek letter, or every capital A to Z where there is no Greek one
    noise = 0.1                    # standard deviation of the label noise (regression only; default 0)
    alphabet = 500                 # tokens to fill wildcards with (default: as many as samples)

    [[template]]
    string = "αα"                  # or a list of symbols
    label = 1                      # a number; for next-token, a wildcard of the string or a token
    weight = 2                     # how often, relative to the others (default 1)

Instead, a file may give the name of a task in `foretrain.data.template_examples`:

    named = "majority"
    arguments = { length = 5 }
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foretrain.core.errors import InputError, require, require_known
from foretrain.data.template_examples import NAMED
from foretrain.data.template_task import GREEK, Template, TemplateTask

KINDS = ("regression", "next-token")
MOST_TOKENS = 10**12  # larger than any vocabulary, and still exact in floating point
SYMBOLS = ("characters", "words")
CAPITALS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
SPELLED_OUT = ("name", "kind", "symbols", "wildcards", "noise", "alphabet", "template")
BY_NAME = ("name", "named", "arguments", "noise", "alphabet")
OF_TEMPLATE = ("string", "label", "weight")


@dataclass(frozen=True)
class TaskFile:
    """The content of a task file: the task, and how many tokens fill its wildcards (None: as many as samples)."""

    task: TemplateTask
    alphabet: int | None


def read_task(path: str | Path) -> TaskFile:
    """Read a template task; whatever is wrong with the file, the error is one sentence."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}; give the path of a TOML file.") from error
    except ValueError as error:  # not UTF-8, not TOML, or a number with thousands of digits
        raise InputError(f"{path} is not a TOML file: {error}.") from error
    except RecursionError as error:
        raise InputError(f"{path} is not a TOML file for a task: its brackets are nested too deeply.") from error
    try:
        return task_of(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def task_of(content: Mapping[str, Any]) -> TaskFile:
    """The task that the content of a file describes."""
    task = _named(content) if "named" in content else _spelled_out(content)
    require(
        any(template.wildcards for template in task.templates),
        f"No template has a wildcard, so there are no unseen symbols to ask about (the first is {task.templates[0]}); "
        'write Greek letters or capitals for wildcards, or name them, as in wildcards = ["x", "y"].',
    )
    if "name" in content:
        task = replace(task, name=_text(content, "name"))
    if "noise" in content:
        task = replace(task, noise=_number(content["noise"], "noise"))
    alphabet = content.get("alphabet")
    if alphabet is not None:
        require(_whole(alphabet), f"alphabet must be a whole number of tokens; got {alphabet!r}.")
        require(alphabet <= MOST_TOKENS, f"alphabet must be at most {MOST_TOKENS:,} tokens; got more.")
        task.alphabet(alphabet)
    return TaskFile(task, alphabet)


def _named(content: Mapping[str, Any]) -> TemplateTask:
    _require_keys(content, BY_NAME, "A file that names a task")
    name, arguments = content["named"], content.get("arguments", {})
    require_known("task", str(name), NAMED)
    require(isinstance(arguments, dict), f"arguments must be a table; got {arguments!r}.")
    try:
        inspect.signature(NAMED[name]).bind(**arguments)
        return NAMED[name](**arguments)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        takes = ", ".join(inspect.signature(NAMED[name]).parameters) or "nothing"
        raise InputError(f"Task {name!r} takes {takes}; got arguments {arguments} ({error}).") from error


def _spelled_out(content: Mapping[str, Any]) -> TemplateTask:
    _require_keys(content, SPELLED_OUT, "A task file")
    kind, symbols = _text(content, "kind", "regression"), _text(content, "symbols", "characters")
    require_known("kind of task", kind, KINDS)
    require_known("way to split a string into symbols", symbols, SYMBOLS)
    rows = content.get("template", [])
    require(isinstance(rows, list) and len(rows) >= 1, "A task must have at least one [[template]]; got none.")
    for row in rows:
        require(isinstance(row, dict), f"Each [[template]] must be a table; got {row!r}.")
        _require_keys(row, OF_TEMPLATE, "A [[template]]")
    split = [_split(row, words=symbols == "words") for row in rows]
    wildcards = content.get("wildcards", _default_wildcards(split))
    require(
        isinstance(wildcards, str | list | frozenset) and all(isinstance(w, str) and w for w in wildcards),
        f"wildcards must be a list of symbols; got {wildcards!r}.",
    )
    templates, labels, weights = [], [], []
    for row, string in zip(rows, split, strict=True):
        templates.append(Template(string, frozenset(wildcards)))
        labels.append(_label(row, templates[-1], kind))
        weights.append(_number(row.get("weight", 1), f"The weight of {templates[-1]}"))
        require(weights[-1] > 0, f"The weight of {templates[-1]} must be above 0; got {weights[-1]:g}.")
    total = sum(weights)
    return TemplateTask(tuple(templates), tuple(labels), tuple(w / total for w in weights))


def _split(row: Mapping[str, Any], *, words: bool) -> tuple[str, ...]:
    """The symbols of a [[template]]."""
    string = row.get("string")
    if isinstance(string, list) and all(isinstance(symbol, str) for symbol in string):
        return tuple(string)
    if not isinstance(string, str):
        raise InputError(f"Each [[template]] needs a string (text or a list of symbols); got {string!r}.")
    return tuple(string.split() if words else string)


def _default_wildcards(strings: Iterable[tuple[str, ...]]) -> frozenset[str]:
    """Greek letters, or capitals in a file without any: "ABA" and "ABB" is how people write templates."""
    return GREEK if any(GREEK.intersection(string) for string in strings) else CAPITALS


def _label(row: Mapping[str, Any], template: Template, kind: str) -> Any:
    require("label" in row, f"Template {template} has no label.")
    label = row["label"]
    if kind == "regression":
        require(
            isinstance(label, int | float) and not isinstance(label, bool),
            f'The label of {template} must be a number in regression; got {label!r}; or set kind = "next-token".',
        )
        return _number(label, f"The label of {template}")
    require(
        isinstance(label, str),
        f'The label of {template} must be a symbol in next-token; got {label!r}; or set kind = "regression".',
    )
    return label


def _require_keys(table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in table:
        require(key in known, f"{what} may have {', '.join(known)}; got {key!r}.")


def _text(content: Mapping[str, Any], key: str, default: str = "") -> str:
    value = content.get(key, default)
    if not isinstance(value, str):
        raise InputError(f"{key} must be text; got {value!r}.")
    return value


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{what} must be a number; got {value!r}.")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{what} must be a number of at most 308 digits; got one with {len(str(value))}.") from error


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
