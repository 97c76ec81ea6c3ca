"""Reads rows of csv, tsv, JSON and parquet files, which may be gzipped. Each row knows its line in the file."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from foretrain.core.decompression import require_unpacked, unpacked
from foretrain.core.errors import InputError, require

Column = str | int
KINDS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
LONGEST_FIELD = 1 << 28  # characters in one field; a text may be a whole book
PARQUET_ROWS = 1024  # read at a time
MOST_NAMES = 20  # most columns listed in an error message
_QUOTED_FIELD = re.compile(r'(?:^|\t)"', re.MULTILINE)


class Row(NamedTuple):
    line: int  # where the row begins; in a parquet file, the number of the row
    fields: list[str]  # the requested text columns
    label: str


def kind_of(path: Path) -> str:
    """The file extension, ignoring .gz."""
    kind = next((s.lower() for s in reversed(path.suffixes) if s.lower() != ".gz"), "")
    extension = f"ends in {kind!r}" if kind else "has no extension"
    require(
        kind in KINDS,
        f"{path} {extension}; give a .csv, .tsv, .json, .jsonl or .parquet file of labelled texts (all but .parquet "
        "may be gzipped).",
    )
    return kind


def is_number(column: Column) -> bool:
    return isinstance(column, int) or (column.isascii() and column.isdigit() and len(column) < 10)


def rows_of(path: Path, columns: Sequence[Column], label: Column, header: bool | None) -> Iterator[Row]:
    """Yield every row. A column is given by its name in the header, or by its number from 0.

    If `header` is None, a csv or tsv file is taken to have a header unless all columns are given as numbers.
    """
    kind = kind_of(path)
    wanted = [*columns, label]
    if kind == ".parquet":
        require(path.suffix.lower() != ".gz", f"{path}: parquet is already compressed; unpack the .gz.")
        require(header is not False, f"{path}: parquet columns always have names; leave out --no-header.")
        yield from _parquet_rows(path, wanted)
        return
    if kind in (".json", ".jsonl"):
        require(header is not False, f"{path}: JSON columns always have names; leave out --no-header.")
        yield from _json_rows(path, wanted, by_line=kind == ".jsonl")
        return
    has_header = header if header is not None else not all(map(is_number, wanted))
    text = decoded(path)
    separator = "\t" if kind == ".tsv" else _comma_or_semicolon(text)
    yield from _separated_rows(path, text, separator, wanted, has_header)


def _comma_or_semicolon(text: str) -> str:
    """Spreadsheets in many countries write ; between the columns of a .csv file."""
    first = text.split("\n", 1)[0]
    return ";" if ";" in first and "," not in first else ","


def _separated_rows(path: Path, text: str, separator: str, wanted: Sequence[Column], has_header: bool) -> Iterator[Row]:
    with _long_fields():
        quoted = separator != "\t" or _tsv_is_quoted(text)
        rows = iter(list(_numbered(path, _reader(text, separator, quoted=quoted))))
    first_line, first_row = next(rows, (1, None))
    require(first_row is not None, f"{path}, line 1: the file is empty; give a file with a header and rows.")
    assert first_row is not None
    names = first_row if has_header else None
    indices = _indices(f"{path}, line {first_line}", names, len(first_row), wanted)
    for line, row in rows if has_header else chain([(first_line, first_row)], rows):
        require(
            len(row) == len(first_row),
            f"{path}, line {line}: {len(row)} column{'s' * (len(row) != 1)} where {len(first_row)} are expected; "
            "quote texts that contain the separator.",
        )
        yield Row(line, [row[i] for i in indices[:-1]], row[indices[-1]].strip())


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let csv read long fields. The limit applies to the whole process, so it is restored afterwards."""
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _numbered(path: Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line they begin on; empty lines are skipped."""
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        cause = "a quotation mark is never closed" if "end of data" in str(error) else str(error)
        raise InputError(
            f"{path}, line {line}: the row that begins here cannot be read ({cause}); check the quotation marks."
        ) from error


def _reader(text: str, separator: str, quoted: bool) -> Any:
    return csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=True,
    )


def _tsv_is_quoted(text: str) -> bool:
    """Whether quotation marks in a tab-separated file enclose fields; otherwise they are part of the text.

    They enclose fields if every row then has the same number of columns, unless this would join lines that are
    complete rows on their own.
    """
    if not _QUOTED_FIELD.search(text):
        return False
    try:
        quoted = [len(row) for row in _reader(text, "\t", quoted=True) if row]
    except csv.Error:
        return False
    plain = [len(row) for row in _reader(text, "\t", quoted=False) if row]
    return len(set(quoted)) == 1 and (len(set(plain)) > 1 or len(plain) == len(quoted))


def _parquet_rows(path: Path, wanted: Sequence[Column]) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InputError("Reading parquet needs pyarrow; install it with: pip install pyarrow.") from error
    with _parquet_errors(path):
        names = parquet.read_schema(path).names
        file = parquet.ParquetFile(path, read_dictionary=names)  # a text that many rows share is read once
    indices = _indices(str(path), names, len(names), wanted)
    with _parquet_errors(path):
        packed = path.stat().st_size
        groups = [file.metadata.row_group(k) for k in range(file.num_row_groups)]
        require_unpacked(path, sum(group.total_byte_size for group in groups), packed)
        batches, size = [], 0
        for batch in file.iter_batches(batch_size=PARQUET_ROWS):
            batches.append(batch)
            size += sum(map(_spelled_out, batch.columns))
            require_unpacked(path, size, packed)
        table = pyarrow.Table.from_batches(batches, file.schema_arrow)
    types = pyarrow.types
    for index in indices:
        kind = table.column(index).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)
        is_label = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        require(
            is_text or (is_label and index == indices[-1]),
            f"{path}: the column {table.column_names[index]!r} holds {kind}, not text; choose another or convert it.",
        )
    with _parquet_errors(path):
        values = [table.column(index).to_pylist() for index in indices]
    for number, row in enumerate(zip(*values, strict=True), start=1):
        cells = [cell(value) for value in row]
        yield Row(number, cells[:-1], cells[-1].strip())


def _spelled_out(column: Any) -> int:
    """The bytes of a column once every row has its own copy of the text."""
    import pyarrow
    import pyarrow.compute as compute

    if not pyarrow.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = compute.binary_length(column.dictionary)
    return 8 * len(column) + (compute.sum(compute.take(lengths, column.indices)).as_py() or 0)


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # pyarrow raises exceptions of many classes
        raise InputError(f"{path} cannot be read as a parquet file ({type(error).__name__}).") from error


def _json_rows(path: Path, wanted: Sequence[Column], *, by_line: bool) -> Iterator[Row]:
    """A .jsonl file has one object per line; a .json file is a list of objects."""
    text = decoded(path)
    lines = enumerate(text.splitlines(), start=1) if by_line else [(1, text)]
    number = 0
    for line, content in lines:
        if not content.strip():
            continue
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            where = f"{path}, line {line}" if by_line else str(path)
            raise InputError(f"{where}: this is not JSON ({error}).") from error
        require(
            by_line or isinstance(value, list), f"{path}: give a list of objects, or one object per line as .jsonl."
        )
        for record in [value] if by_line else value:
            number += 1
            place = f"{path}, line {line}" if by_line else f"{path}, row {number}"
            yield record_row(place, line if by_line else number, record, wanted)


def record_row(place: str, number: int, record: Any, wanted: Sequence[Column]) -> Row:
    """One dictionary, or one tuple of values, as a row."""
    if isinstance(record, Mapping):
        names, values = [str(name) for name in record], list(record.values())
    else:
        is_row = isinstance(record, list | tuple)
        require(
            is_row, f"{place}: expected an object with names such as text and label; got {_shortened(str(record))}."
        )
        names, values = None, list(record)
        wanted = [0, 1] if list(wanted) == ["text", "label"] else wanted
    indices = _indices(place, names, len(values), wanted)
    for index in indices:
        simple = values[index] is None or isinstance(values[index], str | bool | int | float)
        require(simple, f"{place}: {_shortened(str(values[index]))} is neither a text nor a number.")
    cells = [cell(values[index]) for index in indices]
    return Row(number, cells[:-1], cells[-1].strip())


def cell(value: Any) -> str:
    """The value as text: empty if it is missing, and 3.0 as "3", because one missing value makes a column floating."""
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _indices(where: str, names: Sequence[str] | None, width: int, wanted: Sequence[Column]) -> list[int]:
    indices = [_index(where, names, width, column) for column in wanted]
    require(
        indices[-1] not in indices[:-1],
        f"{where}: the column {wanted[-1]!r} cannot be both the text and the label; name two columns.",
    )
    return indices


def _index(where: str, names: Sequence[str] | None, width: int, column: Column) -> int:
    if names is not None and column in names:
        require(
            list(names).count(str(column)) == 1,
            f"{where}: {list(names).count(str(column))} columns are called {column!r}; rename one, or give its number.",
        )
        return list(names).index(str(column))
    if is_number(column):
        index = int(column)
        require(
            0 <= index < width,
            f"{where}: there is no column {column}; the {width} columns are numbered from 0"
            + ("." if names is not None else "; add --header if the first line has their names."),
        )
        return index
    listed = ", ".join(map(_shortened, (names or [])[:MOST_NAMES]))
    listed += f" and {len(names) - MOST_NAMES:,} more" if names is not None and len(names) > MOST_NAMES else ""
    separator = next((s for s in (";", "\t", "|") if names is not None and len(names) == 1 and s in names[0]), None)
    raise InputError(
        f"{where}: there is no column {_shortened(column)}; the columns are {listed}; "
        + (f"are they separated by {separator!r}? Save the file with commas, or with tabs as .tsv."
           if separator is not None else "for a file without a header give numbers from 0 (--text 0 --label 1).")
    )  # fmt: skip


def _shortened(name: Column, most: int = 60) -> str:
    text = repr(name)
    return text if len(text) <= most else f"{text[:most]}…"


def decoded(path: Path) -> str:
    """The whole text of a UTF-8 file, plain or gzipped."""
    blob = unpacked(path) if path.suffix.lower() == ".gz" else path.read_bytes()
    if b"\x00" in blob and not blob.startswith((b"\xff\xfe", b"\xfe\xff")):
        line = blob.count(b"\n", 0, blob.index(b"\x00")) + 1
        raise InputError(f"{path}, line {line}: there is a zero byte; is this a text file?")
    try:
        return blob.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = blob.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: byte {blob[error.start]:#04x} is not UTF-8; convert the file to UTF-8 if it is text."
        ) from error
