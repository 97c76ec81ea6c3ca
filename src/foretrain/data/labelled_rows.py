"""Rows of csv, tsv and parquet files, plain or gzipped, each with the line it begins on."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from foretrain.core.errors import InputError, require

Column = str | int
KINDS = (".csv", ".tsv", ".parquet")
LONGEST_FIELD = 1 << 28  # a text may be a book
MOST_NAMES = 20  # columns named in a refusal
_QUOTED_FIELD = re.compile(r'(?:^|\t)"', re.MULTILINE)


class Row(NamedTuple):
    line: int  # of a parquet file: row
    fields: list[str]  # those asked for
    label: str


def kind_of(path: Path) -> str:
    """How the name ends, but for .gz."""
    kind = next((s.lower() for s in reversed(path.suffixes) if s.lower() != ".gz"), "")
    ends = f"ends in {kind!r}" if kind else "has no ending"
    require(
        kind in KINDS,
        f"{path} {ends}; labelled texts are read from .csv, .tsv and .parquet, the first two also as .gz.",
    )
    return kind


def is_number(column: Column) -> bool:
    return isinstance(column, int) or (column.isascii() and column.isdigit() and len(column) < 10)


def rows_of(path: Path, columns: Sequence[Column], label: Column, header: bool | None) -> Iterator[Row]:
    """Every row. A column is a name of the header, or else a number from 0.

    Without a word on the header a separated file has one, unless all columns are numbers.
    """
    kind = kind_of(path)
    wanted = [*columns, label]
    if kind == ".parquet":
        require(path.suffix.lower() != ".gz", f"{path}: parquet is compressed by itself; unpack the .gz.")
        require(header is not False, f"{path}: the columns of a parquet file have names; leave --no-header out.")
        yield from _parquet_rows(path, wanted)
        return
    named = header if header is not None else not all(map(is_number, wanted))
    yield from _separated_rows(path, "\t" if kind == ".tsv" else ",", wanted, named)


def _separated_rows(path: Path, separator: str, wanted: Sequence[Column], named: bool) -> Iterator[Row]:
    text = decoded(path)
    with _long_fields():
        quoted = separator == "," or _tsv_is_quoted(text)
        rows = iter(list(_numbered(path, _reader(text, separator, quoted=quoted))))
    top, first = next(rows, (1, None))
    require(first is not None, f"{path}, line 1: the file is empty; give a file with a header and rows.")
    assert first is not None
    places = _places(f"{path}, line {top}", first if named else None, len(first), wanted)
    for line, row in rows if named else chain([(top, first)], rows):
        require(
            len(row) == len(first),
            f"{path}, line {line}: {len(row)} column{'s' * (len(row) != 1)} where {len(first)} are expected; "
            "quote texts that hold the separator.",
        )
        yield Row(line, [row[p] for p in places[:-1]], row[places[-1]].strip())


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let csv read long fields. Its limit belongs to the whole process, so it is set back afterwards."""
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _numbered(path: Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line they begin on; an empty line is no row."""
    begun = 1
    try:
        for row in reader:
            if row:
                yield begun, row
            begun = reader.line_num + 1
    except csv.Error as error:
        what = "a quotation mark is never closed" if "end of data" in str(error) else str(error)
        raise InputError(
            f"{path}, line {begun}: the row that begins here cannot be read ({what}); check the quotation marks."
        ) from error


def _reader(text: str, separator: str, quoted: bool) -> Any:
    return csv.reader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=True,
    )


def _tsv_is_quoted(text: str) -> bool:
    """Tab-separated text is written both ways. Quotation marks are taken for quoting where the file is whole that way
    and no two lines are joined that are rows on their own."""
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
    try:
        table = parquet.ParquetFile(path).read()
    except Exception as error:  # pyarrow has its own family of exceptions
        raise InputError(f"{path} is not a parquet file that can be read ({type(error).__name__}).") from error
    places = _places(str(path), table.column_names, table.num_columns, wanted)
    for place in places:
        of = table.column(place).type
        of = of.value_type if pyarrow.types.is_dictionary(of) else of
        plain = pyarrow.types.is_string(of) or pyarrow.types.is_large_string(of) or pyarrow.types.is_null(of)
        number = pyarrow.types.is_integer(of) or pyarrow.types.is_floating(of) or pyarrow.types.is_boolean(of)
        require(
            plain or (number and place == places[-1]),
            f"{path}: the column {table.column_names[place]!r} holds {of}, not text; choose or convert it.",
        )
    values = [table.column(place).to_pylist() for place in places]
    for number, row in enumerate(zip(*values, strict=True), start=1):
        cells = [_cell(value) for value in row]
        yield Row(number, cells[:-1], cells[-1].strip())


def _cell(value: Any) -> str:
    """Missing values as the empty text; whole numbers as such, also where a missing one made the column floating."""
    if value is None or value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _places(where: str, names: Sequence[str] | None, width: int, wanted: Sequence[Column]) -> list[int]:
    places = [_place(where, names, width, column) for column in wanted]
    require(
        places[-1] not in places[:-1],
        f"{where}: the column {wanted[-1]!r} cannot be both the text and the label; name two columns.",
    )
    return places


def _place(where: str, names: Sequence[str] | None, width: int, column: Column) -> int:
    if names is not None and column in names:
        require(
            list(names).count(str(column)) == 1,
            f"{where}: {list(names).count(str(column))} columns are called {column!r}; rename one, or give its number.",
        )
        return list(names).index(str(column))
    if is_number(column):
        place = int(column)
        require(
            0 <= place < width,
            f"{where}: there is no column {column}; the {width} columns are numbered from 0"
            + ("." if names is not None else "; say --header if the first line has their names."),
        )
        return place
    shown = ", ".join(map(_shortened, (names or [])[:MOST_NAMES]))
    shown += f" and {len(names) - MOST_NAMES:,} more" if names is not None and len(names) > MOST_NAMES else ""
    odd = next((s for s in (";", "\t", "|") if names is not None and len(names) == 1 and s in names[0]), None)
    raise InputError(
        f"{where}: there is no column {_shortened(column)}; the columns are {shown}; "
        + (f"separated by {odd!r}? Save it with commas, or with tabs as .tsv."
           if odd is not None else "for a file without a header give numbers from 0 (--text 0 --label 1).")
    )  # fmt: skip


def _shortened(name: Column, most: int = 60) -> str:
    text = repr(name)
    return text if len(text) <= most else f"{text[:most]}…"


def decoded(path: Path) -> str:
    """The whole text of a file, plain or gzipped, in UTF-8."""
    blob = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            blob = gzip.decompress(blob)
        except (OSError, EOFError, zlib.error) as error:
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
