"""Files that no one wrote in good faith: each is refused in one short sentence."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.data.labelled_texts import read_labelled
from foretrain.data.template_files import read_task

TWO = '[[template]]\nstring = "αβ"\nlabel = {label}\n[[template]]\nstring = "αα"\nlabel = 2\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 5000, "nested too deeply"),
        ("alphabet = " + "9" * 5000, "not a TOML file"),
        ("alphabet = " + "9" * 400 + "\n" + TWO.format(label=1), "alphabet must be at most"),
        (TWO.format(label="1" + "0" * 400), "a number of at most 308 digits; got one with 401."),
        ("noise = 1" + "0" * 400 + "\n" + TWO.format(label=1), "noise must be a number of at most 308 digits"),
    ],
)
def test_task_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "task.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as refused:
        read_task(path)
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 400


@given(data=st.data())
def test_a_gzip_file_with_a_flipped_byte_is_read_or_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(gzip.compress(b"text,label\n" + b"good,1\nbad,0\n" * 40))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("gz") / "x.csv.gz"
    path.write_bytes(bytes(content))
    try:
        read = read_labelled(path)
    except InputError:
        return
    assert len(read) == 80


@pytest.mark.parametrize("column", ["x", "1" * 5000, "y" * 5000])
def test_a_column_that_is_not_there_is_a_short_sentence(tmp_path: Path, column: str) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(100_000)) + "\n")
    with pytest.raises(InputError, match="99,980 more") as refused:
        read_labelled(path, text=column, label="c1")
    assert len(str(refused.value)) < 600


def test_reading_a_book_leaves_the_limit_of_csv_as_it_was(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = tmp_path / "books.csv"
    path.write_text(f"text,label\n{'word ' * 50_000},1\nshort,0\n")
    assert len(read_labelled(path)) == 2
    assert csv.field_size_limit() == before
