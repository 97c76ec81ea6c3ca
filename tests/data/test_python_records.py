"""Labelled texts from JSON, data frames, Hugging Face datasets and lists: the same rows whatever holds them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from foretrain.core.errors import InputError
from foretrain.data.labelled_texts import as_labelled_texts, read_labelled

ROWS = [("good film", "pos"), ("bad, bad film", "neg"), ("a\nplot", "pos")]
RECORDS = [{"label": label, "text": text} for text, label in ROWS]


def held(tmp_path: Path, kind: str) -> Any:
    frame = pd.DataFrame(RECORDS)
    if kind == "jsonl":
        (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, RECORDS)) + "\n")
        return tmp_path / "x.jsonl"
    if kind == "jsonl.gz":
        (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress("\n\n".join(map(json.dumps, RECORDS)).encode()))
        return str(tmp_path / "x.jsonl.gz")
    if kind == "json":
        (tmp_path / "x.json").write_text(json.dumps(RECORDS))
        return tmp_path / "x.json"
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        frame.to_parquet(tmp_path / "x.parquet")
        return tmp_path / "x.parquet"
    if kind == "dataset":
        datasets = pytest.importorskip("datasets", reason="datasets is not installed")
        return datasets.Dataset.from_list(RECORDS)
    return {"frame": frame, "pairs": ROWS, "records": RECORDS}[kind]


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "json", "parquet", "dataset", "frame", "pairs", "records"])
def test_the_same_rows_from_everything(kind: str, tmp_path: Path) -> None:
    texts = as_labelled_texts(held(tmp_path, kind))
    assert texts.texts == tuple(text for text, _ in ROWS)
    assert texts.classes == ("neg", "pos")
    assert texts.labels.tolist() == [1, 0, 1]


def test_class_labels_of_a_dataset_give_their_names() -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    features = datasets.Features({"sentence": datasets.Value("string"), "y": datasets.ClassLabel(names=["no", "yes"])})
    data = datasets.Dataset.from_dict({"sentence": ["a", "b", "c"], "y": [1, 0, 1]}, features=features)
    texts = as_labelled_texts(data, text="sentence", label="y")
    assert texts.classes == ("no", "yes")
    assert texts.labels.tolist() == [1, 0, 1]
    both = datasets.DatasetDict({"train": data, "test": data})
    with pytest.raises(InputError, match=r"a dictionary of datasets \(train, test\); give one of them"):
        as_labelled_texts(both, text="sentence", label="y")


def test_numbers_are_labels_and_missing_ones_are_refused() -> None:
    frame = pd.DataFrame({"text": ["a", "b", "c"], "stars": [1.0, 2.0, 1.0]})
    assert as_labelled_texts(frame, label="stars").classes == ("1", "2")
    frame.loc[2, "stars"] = np.nan
    with pytest.raises(InputError, match="row 3: the label is missing"):
        as_labelled_texts(frame, label="stars")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"text": "a", "label": 0}\n{"text": ', r"line 2: this is not JSON"),
        ('{"text": "a", "label": 0}\n{"text": "b"}', r"line 2: there is no column 'label'; the columns are 'text'"),
        ('{"text": ["a"], "label": 0}', r"line 1: .* is neither a text nor a number"),
        ('"a"', r"line 1: expected an object"),
    ],
)
def test_broken_lines_are_named(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(InputError, match=words):
        read_labelled(tmp_path / "x.jsonl")


def test_what_holds_no_rows_is_refused() -> None:
    with pytest.raises(InputError, match="got int"):
        as_labelled_texts(3)
    with pytest.raises(InputError, match="There are no rows"):
        as_labelled_texts([])
