"""Reads labelled texts from files, data frames and Hugging Face datasets. No row is lost or merged silently.

Quoted newlines stay part of their text, and a byte-order mark is dropped. Whatever cannot be read raises an error with
the file and the line: a row with too few or too many columns, a missing label, bytes that are not UTF-8.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array

from foretrain.core.errors import InputError, require
from foretrain.data.python_records import given_rows
from foretrain.data.table_files import Column, Row, decoded, is_number, kind_of, rows_of

# How programs write a missing value. "none", "na" and the like are not here: they may be classes.
MISSING = frozenset({"nan", "<na>", "#n/a", "null"})


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with one class each. `notes` lists rows that are odd but kept, with their line."""

    texts: tuple[str, ...]
    labels: Int[Array, "text"]
    classes: tuple[str, ...]  # their names; labels are indices into these
    notes: tuple[str, ...] = ()
    file: str = ""
    lines: tuple[int, ...] = ()  # line of every text in the file; empty if there is no file
    unit: str = "line"  # what `lines` counts; "row" for data without lines

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def class_counts(self) -> Int[Array, "class"]:
        """How many texts each class has."""
        return np.bincount(self.labels, minlength=len(self.classes))

    def place(self, text: int) -> str:
        """Where to find a text: its file and line."""
        return f"{self.file}, {self.unit} {self.lines[text]}" if self.lines else f"Text {text + 1}"

    def select(self, rows: Sequence[int] | Array) -> LabelledTexts:
        """The given rows, in the given order, with the same classes."""
        lines = tuple(self.lines[i] for i in rows) if self.lines else ()
        texts = tuple(self.texts[i] for i in rows)
        return replace(self, texts=texts, labels=self.labels[np.asarray(rows)], lines=lines, notes=())


def read_labelled(
    path: str | Path,
    *,
    text: Column | Sequence[Column] = "text",
    label: Column = "label",
    classes: Sequence[str] | None = None,
    header: bool | None = None,
) -> LabelledTexts:
    """Read a labelled file. Columns are given by their names in the header, or by their numbers from 0.

    text     one column, or several to be joined by a space
    classes  the allowed labels in order; by default all labels that occur, sorted (numbers by value)
    header   whether the first line is a header; by default yes, unless all columns are given as numbers
    """
    path = Path(path)
    require(not path.is_dir(), f"{path} is a folder; give a file in it.")
    require(path.is_file(), f"There is no file {path}.")
    _require_classes(classes)
    unit = "row" if kind_of(path) in (".parquet", ".json") else "line"
    columns = [text] if isinstance(text, str | int) else list(text)
    rows = list(rows_of(path, columns, label, header))
    require(bool(rows), f"{path}, {unit} 1: no rows follow the header; give at least one labelled text per class.")
    if header is None and unit == "line" and all(map(is_number, [*columns, label])):
        _refuse_header(path, [row.label for row in rows], classes)
    return _labelled(rows, str(path), unit, classes)


def as_labelled_texts(
    data: Any,
    *,
    text: Column | Sequence[Column] | None = None,
    label: Column | None = None,
    classes: Sequence[str] | None = None,
) -> LabelledTexts:
    """Labelled texts from whatever holds them; columns are called text and label unless others are given.

    data  LabelledTexts, the path of a file, a pandas or polars DataFrame, a Hugging Face dataset (one split), or a list
          of dictionaries or of (text, label) pairs
    """
    if isinstance(data, LabelledTexts):
        return data
    chosen_text, chosen_label = "text" if text is None else text, "label" if label is None else label
    if isinstance(data, str | Path):
        return read_labelled(data, text=chosen_text, label=chosen_label, classes=classes)
    _require_classes(classes)
    columns = [chosen_text] if isinstance(chosen_text, str | int) else list(chosen_text)
    rows = list(given_rows(data, columns, chosen_label))
    require(bool(rows), "There are no rows; give at least one labelled text per class.")
    return _labelled(rows, "The data", "row", classes)


def _labelled(rows: Sequence[Row], place: str, unit: str, classes: Sequence[str] | None) -> LabelledTexts:
    """Rows with their labels as numbers; whatever is wrong with a label is told with its place."""
    notes: list[str] = []
    for row in rows:
        require(row.label != "", f"{place}, {unit} {row.line}: the label is missing; fill it in or delete the row.")
        if not " ".join(row.fields).strip():
            notes.append(f"{place}, {unit} {row.line}: the text is empty; it is kept as a text without tokens.")
    names = [row.label for row in rows]
    lines = tuple(row.line for row in rows)
    ordered = tuple(classes) if classes is not None else tuple(sorted(set(names), key=_numbers_first))
    known = {name: k for k, name in enumerate(ordered)}
    if classes is None:
        _refuse_mistakes(f"{place}, {unit}", lines, names)
    for line, name in zip(lines, names, strict=True):
        require(name in known, f"{place}, {unit} {line}: the label {name!r} is not one of {', '.join(ordered)}.")
    require(
        len(ordered) >= 2,
        f"{place}, {unit} {lines[0]} and after: there is only one class ({ordered[0]!r}); two are needed.",
    )
    labels = np.array([known[name] for name in names])
    texts = tuple(" ".join(row.fields) for row in rows)
    return LabelledTexts(texts, labels, ordered, tuple(notes), place, lines, unit)


def _require_classes(classes: Sequence[str] | None) -> None:
    for name, count in Counter(classes or ()).items():
        require(name != "", f"A class has no name; got {', '.join(map(repr, classes or ()))}.")
        require(count == 1, f"The class {name!r} is named {count} times; name every class once.")


def _refuse_mistakes(place: str, lines: Sequence[int], names: Sequence[str]) -> None:
    """Reject labels that are probably mistakes: missing values, and two spellings that differ only in capitals."""
    spellings: dict[str, str] = {}
    for line, name in zip(lines, names, strict=True):
        require(
            name.lower() not in MISSING,
            f"{place} {line}: the label is {name!r}, a missing value; fill it in or delete the row, or name all "
            "classes with --classes if it is one.",
        )
        other = spellings.setdefault(name.casefold(), name)
        require(
            other == name,
            f"{place} {line}: the label {name!r} differs from {other!r} only in its capitals; write both the same way, "
            "or name all classes with --classes if they are two.",
        )


def _refuse_header(path: Path, names: Sequence[str], classes: Sequence[str] | None) -> None:
    """Reject a header that was read as a text because columns were given as numbers: it would become a class."""
    counted = Counter(names)
    alone = counted.pop(names[0]) == 1 and min(counted.values(), default=0) > 1
    if alone and names[0] not in (classes or ()):
        raise InputError(
            f"{path}, line 1: no other row has the label {names[0]!r}; add --header if line 1 has the names of the "
            "columns, or --no-header if it is a row."
        )


def read_text(path: str | Path) -> str:
    """The content of a text file, plain or gzipped."""
    path = Path(path)
    require(not path.is_dir(), f"{path} is a folder; give a file in it.")
    require(path.is_file(), f"There is no file {path}.")
    return decoded(path)


def _numbers_first(name: str) -> tuple[int, float, str]:
    """Sort key: numbers by value, then all other names alphabetically."""
    try:
        value = float(name)
    except ValueError:
        value = math.nan
    return (0, value, name) if math.isfinite(value) else (1, 0.0, name)
