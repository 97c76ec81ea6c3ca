"""Labelled texts from csv, tsv and parquet files, plain or gzipped. No row is lost or merged silently.

Quoted newlines stay inside their text, a byte-order mark is dropped, and whatever cannot be read is refused with the
file and the line: a row with too few or too many columns, a missing label, bytes that are not UTF-8.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array

from foretrain.errors import InputError, require

Column = str | int
csv.field_size_limit(1 << 28)  # a text may be a book


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with a class each; `notes` tells of rows that are odd but kept, with their line."""

    texts: tuple[str, ...]
    labels: Int[Array, "text"]
    classes: tuple[str, ...]  # class k is called classes[k]
    notes: tuple[str, ...] = ()
    file: str = ""
    lines: tuple[int, ...] = ()  # of every text in the file, where there is one

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def class_counts(self) -> Int[Array, "class"]:
        return np.bincount(self.labels, minlength=len(self.classes))

    def place(self, text: int) -> str:
        """Where a text stands, for whoever must look at it."""
        return f"{self.file}, line {self.lines[text]}" if self.lines else f"Text {text + 1}"

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
) -> LabelledTexts:
    """Read a labelled file. Columns are names of the header, or numbers from 0 in a file without one.

    Several text columns are joined by a space. `classes` names the labels allowed, in order; by default those that
    occur, sorted (as numbers if they all are).
    """
    path = Path(path)
    require(path.is_file(), f"There is no file {path}.")
    columns = [text] if isinstance(text, str | int) else list(text)
    texts: list[str] = []
    names: list[str] = []
    lines: list[int] = []
    notes: list[str] = []
    for line, fields, name in _rows(path, columns, label):
        require(name != "", f"{path}, line {line}: the label is missing; fill it in or delete the row.")
        joined = " ".join(fields)
        if not joined.strip():
            notes.append(f"{path}, line {line}: the text is empty; it is kept as a text without tokens.")
        texts.append(joined)
        names.append(name)
        lines.append(line)
    require(bool(texts), f"{path}, line 1: no rows follow the header; give at least one labelled text per class.")
    ordered = tuple(classes) if classes is not None else tuple(sorted(set(names), key=_numbers_first))
    known = {name: k for k, name in enumerate(ordered)}
    for line, name in zip(lines, names, strict=True):
        require(name in known, f"{path}, line {line}: the label {name!r} is not one of {', '.join(ordered)}.")
    require(
        len(ordered) >= 2,
        f"{path}, line {lines[0]} and after: there is one class only ({ordered[0]!r}); a forecast needs at least two.",
    )
    labels = np.array([known[name] for name in names])
    return LabelledTexts(tuple(texts), labels, ordered, tuple(notes), str(path), tuple(lines))


def read_text(path: str | Path) -> str:
    """A whole text file, plain or gzipped."""
    path = Path(path)
    require(path.is_file(), f"There is no file {path}.")
    return _decoded(path)


def _rows(path: Path, columns: Sequence[Column], label: Column) -> Iterator[tuple[int, list[str], str]]:
    """(line, text fields, label) of every row."""
    kind = next((s for s in reversed(path.suffixes) if s != ".gz"), "")
    require(
        kind in (".csv", ".tsv", ".parquet"),
        f"{path} ends in {kind or 'nothing'!r}; labelled texts are read from .csv, .tsv and .parquet, also .gz.",
    )
    if kind == ".parquet":
        yield from _parquet_rows(path, columns, label)
        return
    # Tab-separated text has no quoting: a quotation mark there is a quotation mark.
    tab = kind == ".tsv"
    reader = csv.reader(
        io.StringIO(_decoded(path), newline=""),
        delimiter="\t" if tab else ",",
        quoting=csv.QUOTE_NONE if tab else csv.QUOTE_MINIMAL,
        strict=True,
    )
    wanted = [*columns, label]
    try:
        header = None if all(isinstance(c, int) for c in wanted) else next(reader, None)
        places = [_place(path, header, c) for c in wanted]
        width = len(header) if header is not None else None
        begun = reader.line_num + 1
        for row in reader:
            if row:  # an empty line is no row
                width = width or len(row)
                require(
                    len(row) == width and max(places) < len(row),
                    f"{path}, line {begun}: {len(row)} columns where {max(width, max(places) + 1)} are expected; "
                    "quote texts that hold the separator.",
                )
                yield begun, [row[p] for p in places[:-1]], row[places[-1]].strip()
            begun = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; check the quotation marks.") from error


def _parquet_rows(path: Path, columns: Sequence[Column], label: Column) -> Iterator[tuple[int, list[str], str]]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InputError("Reading parquet needs pyarrow; install it with: pip install pyarrow.") from error
    try:
        table = parquet.read_table(path)
    except Exception as error:  # pyarrow has its own family of exceptions
        raise InputError(f"{path} is not a parquet file that can be read ({type(error).__name__}).") from error
    names = list(table.column_names)
    places = [_place(path, names, c) for c in (*columns, label)]
    values = [table.column(p).to_pylist() for p in places]
    for number, row in enumerate(zip(*values, strict=True), start=1):
        plain = ["" if v is None else str(v) for v in row]
        yield number, plain[:-1], plain[-1].strip()


def _place(path: Path, header: Sequence[str] | None, column: Column) -> int:
    if isinstance(column, int):
        require(column >= 0, f"A column number must be at least 0; got {column}.")
        return column
    require(header is not None, f"{path}, line 1: the file is empty; give a file with a header and rows.")
    assert header is not None
    require(column in header, f"{path}, line 1: there is no column {column!r}; the columns are {', '.join(header)}.")
    return list(header).index(column)


def _decoded(path: Path) -> str:
    blob = path.read_bytes()
    if path.suffix == ".gz":
        try:
            blob = gzip.decompress(blob)
        except (OSError, EOFError) as error:
            raise InputError(f"{path} is not a whole gzip file: {error}.") from error
    if b"\x00" in blob and not blob.startswith((b"\xff\xfe", b"\xfe\xff")):
        line = blob.count(b"\n", 0, blob.index(b"\x00")) + 1
        raise InputError(f"{path}, line {line}: a zero byte is no text; is it a text file?")
    try:
        return blob.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = blob.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: byte {blob[error.start]:#04x} is not UTF-8; is it a text file? Convert it to UTF-8."
        ) from error


def _numbers_first(name: str) -> tuple[int, float, str]:
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name
