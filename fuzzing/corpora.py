"""Labelled texts: csv, tsv, JSON, JSON lines and parquet, plain and gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import Any

from hypothesis import strategies as st

from foretrain.data.labelled_texts import read_labelled, read_text
from foretrain.data.tokens import Vocabulary, words
from foretrain.forecast.corpora.forecast import corpus
from foretrain.forecast.corpora.page import page
from fuzzing.mutations import as_json, changed, changed_bytes, changed_text, scalars, texts, tokens
from fuzzing.places import place
from fuzzing.running import Target

ROWS = [
    {"text": text, "label": label}
    for text, label in (
        ("a good film", "positive"), ("not a good film, at all", "negative"), ('she said "no"', "negative"),
        ("two\nlines", "positive"), ("", "positive"), ("näïve 日本語 text", "negative"),
    )
]  # fmt: skip
COLUMNS = ("text", "label", 0, 1, 2, -1, "", "0", "Text", "9" * 5000, "\x1b[31m")


def targets() -> tuple[Target, ...]:
    return (
        Target("table", st.tuples(_table(), _columns()), _read, share=3),
        Target("json", st.tuples(_records(), _columns()), _read, share=2),
        Target("parquet", st.tuples(_parquet(), _columns()), _read, share=0.5),
        Target("forecast", _table(), _forecast, share=0.05),
    )


@st.composite
def _columns(draw: st.DrawFn) -> dict[str, Any]:
    """How a reader asks for the columns: mostly as usual."""
    if draw(st.integers(0, 3)):
        return {}
    return {
        "text": draw(st.one_of(st.sampled_from(COLUMNS), st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3))),
        "label": draw(st.sampled_from(COLUMNS)),
        "header": draw(st.sampled_from([None, True, False])),
        "classes": draw(st.sampled_from([None, ("positive", "negative"), ("positive",), ("",), ("a", "a")])),
    }


@st.composite
def _table(draw: st.DrawFn) -> tuple[str, bytes]:
    separator, ending = draw(st.sampled_from([(",", ".csv"), (";", ".csv"), ("\t", ".tsv"), ("\t", ".csv")]))
    stream = io.StringIO()
    rows = [list(row.values()) for row in ROWS]
    if draw(st.booleans()):
        rows = draw(changed(rows, replacements=st.one_of(scalars, st.lists(texts, max_size=3))))
    writer = csv.writer(stream, delimiter=separator, quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])))
    writer.writerow(["text", "label"])
    for row in rows if isinstance(rows, list) else []:
        writer.writerow(row if isinstance(row, list) else [str(row)])
    text = stream.getvalue()
    if draw(st.booleans()):
        text = draw(changed_text(text))
    return _packed(draw, text.encode("utf-8", "surrogatepass"), ending)


@st.composite
def _records(draw: st.DrawFn) -> tuple[str, bytes]:
    rows = draw(changed(ROWS, replacements=st.one_of(scalars, tokens)))
    ending = draw(st.sampled_from([".json", ".jsonl"]))
    lines = map(as_json, rows if isinstance(rows, list) else [rows])
    return _packed(draw, ("\n".join(lines) if ending == ".jsonl" else as_json(rows)).encode(), ending)


@st.composite
def _parquet(draw: st.DrawFn) -> tuple[str, bytes]:
    import pyarrow
    import pyarrow.parquet

    rows = draw(changed(ROWS, replacements=scalars)) if draw(st.booleans()) else ROWS
    try:
        table = pyarrow.Table.from_pylist(rows)
    except Exception:  # not everything is a table
        table = pyarrow.Table.from_pylist(ROWS)
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream, compression=draw(st.sampled_from(["none", "snappy", "gzip", "zstd"])))
    content = stream.getvalue()
    return ".parquet", draw(changed_bytes(content)) if draw(st.booleans()) else content


def _packed(draw: st.DrawFn, content: bytes, ending: str) -> tuple[str, bytes]:
    if draw(st.integers(0, 3)) == 0:
        content = draw(changed_bytes(content))
    if draw(st.integers(0, 3)) == 0:
        content, ending = gzip.compress(content, 1), f"{ending}.gz"
        if draw(st.integers(0, 2)) == 0:
            content = draw(changed_bytes(content))
    return ending, content


def _read(given: tuple[tuple[str, bytes], dict[str, Any]]) -> None:
    (ending, content), columns = given
    file = place(f"corpus{ending}")
    file.write_bytes(content)
    if ending.endswith(".gz") and not columns:
        read_text(file)
    texts_read = read_labelled(file, **columns)
    Vocabulary.of([words(text) for text in texts_read.texts])
    json.dumps([texts_read.classes, texts_read.notes, texts_read.labels.tolist()])


def _forecast(given: tuple[str, bytes]) -> None:
    """Everything that `foretrain forecast corpus` computes and writes, without training."""
    ending, content = given
    file = place(f"corpus{ending}")
    file.write_bytes(content)
    forecast = corpus(file)
    page(forecast)
    forecast._repr_html_()
    forecast.summary.encode()
