"""Rows of labelled texts from Python objects: data frames, Hugging Face datasets, lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from foretrain.core.errors import InputError, require
from foretrain.data.table_files import Column, Row, record_row


def given_rows(data: Any, columns: Sequence[Column], label: Column) -> Iterator[Row]:
    """Yield every row, numbered from 1. A label column with class names (ClassLabel) gives the names."""
    require(
        not isinstance(data, Mapping) or hasattr(data, "columns"),
        f"This is a dictionary of datasets ({', '.join(map(str, data))}); give one of them."
        if isinstance(data, Mapping)
        else "",
    )
    names = _class_names(data, label)
    for number, record in enumerate(_records(data), start=1):
        row = record_row(f"row {number}", number, record, [*columns, label])
        if names is not None and row.label.lstrip("-").isdigit():
            k = int(row.label)
            require(0 <= k < len(names), f"row {number}: the label is {k}, a missing value; leave the row out.")
            row = row._replace(label=names[k])
        yield row


def _class_names(data: Any, label: Column) -> Sequence[str] | None:
    features = getattr(data, "features", None)
    feature = features.get(label) if isinstance(features, Mapping) and isinstance(label, str) else None
    return getattr(feature, "names", None)


def _records(data: Any) -> Iterable[Any]:
    if hasattr(data, "iter_rows"):  # polars
        return data.iter_rows(named=True)
    if hasattr(data, "itertuples"):  # pandas
        names = [str(name) for name in data.columns]
        return (dict(zip(names, row, strict=True)) for row in zip(*(data[c].tolist() for c in data), strict=True))
    if isinstance(data, Iterable):
        return data
    raise InputError(
        f"Labelled texts come from a file, a data frame, a dataset or a list of pairs; got {type(data).__name__}."
    )
