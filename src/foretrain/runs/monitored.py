"""What a monitored training leaves behind: one line of JSON per measured step, and the same as a dataset.

A line looks like this, with every part but `step` optional:

    {"step": 50, "loss": 2.1, "attention": {layer: {statistic: [one number per head]}},
     "identity": {layer: {product: [one number per head]}}, "weights": {matrix: {measure: number}}}

JSON has no infinite numbers and no nan, so these are written as the strings "inf", "-inf" and "nan".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.trajectory import trajectory

FORMAT = "foretrain-monitor-1"
FINISHED = "finished"  # the only key of the line that ends a training; more may follow if the training is resumed
UNITS = {"attention_entropy": "nats"}
MEANINGS = {
    "attention_entropy": "mean entropy of a query's attention",
    "attention_relative_entropy": "entropy as a share of the largest possible for that many keys",
    "attention_first_token": "attention on the first token",
    "attention_self_attention": "attention of a query on its own token",
    "attention_largest_logit": "largest logit of any query",
    "identity_query_key": "the identity's share of W_Q·W_Kᵀ",
    "identity_value_output": "the identity's share of W_V·W_O",
    "norm": "Frobenius norm before the update",
    "stable_rank": "squared norm over squared largest singular value, before the update",
    "effective_rank": "exponential of the entropy of the singular values, before the update",
    "gradient_norm": "norm of the gradient before clipping",
    "update_ratio": "size of the update relative to the weights",
}
DIGITS = 8  # kept of every number: as exact as float32
Record = dict[str, Any]

# part of a record -> (axis of its names, what its variables begin with)
PER_HEAD = {"attention": "attention_", "identity": "identity_"}
PER_MATRIX = "weights"


def append_nothing(file: Path) -> None:
    """Make an empty file, or fail now rather than at the first record."""
    _append(file, b"")


def append_line(file: Path, record: Mapping[str, Any]) -> None:
    """Add a record to the end of a file, in one write; a torn last line, left by a killed process, is cut off first."""
    _append(file, json.dumps(_writable(record), separators=(",", ":"), allow_nan=False).encode() + b"\n")


def _append(file: Path, line: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "ab+") as stream:
            _cut_torn_line(stream)
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(f"Cannot write to {file}: {error.strerror}; choose another place.") from error


def _writable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value


def _cut_torn_line(stream: Any) -> None:
    end = stream.seek(0, os.SEEK_END)
    if end == 0:
        return
    stream.seek(end - 1)
    if stream.read(1) == b"\n":
        return
    stream.seek(0)
    stream.truncate(stream.read().rfind(b"\n") + 1)


def read_lines(file: Path) -> list[Record]:
    """The records of a file; a torn last line is left out, any other damage is refused with its line."""
    return read_training(file)[0]


def read_training(file: Path) -> tuple[list[Record], bool]:
    """The records of a file, and whether its last line says that the training is finished."""
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
    if lines and lines[-1] != b"":
        lines[-1] = b""  # written in part by a process that was killed
    entries = []
    for number, line in enumerate(filter(None, lines), start=1):
        try:
            entry = json.loads(line)
            require(isinstance(entry, dict) and ("step" in entry or FINISHED in entry), "not a record")
            entries.append(entry)
        except (ValueError, RecursionError) as error:
            if not entries:
                raise InputError(
                    f"{file} is not a record of a training; give the .jsonl file that Monitor(model, file=...) writes."
                ) from error
            raise DamagedFile(f"{file}, line {number} is damaged; delete that line to read the rest.") from error
    records: list[Record] = []
    for entry in entries:
        if "step" in entry:
            add_record(records, entry)
    return records, bool(entries) and FINISHED in entries[-1]


def add_record(records: list[Record], record: Record) -> bool:
    """Add a record; True if the training has gone back to an earlier step, and the records after it were dropped."""
    before = len(records)
    while records and records[-1]["step"] >= record["step"]:
        records.pop()
    records.append(record)
    return len(records) <= before


def as_dataset(records: Iterable[Record]) -> xr.Dataset:
    """Everything recorded, over (step, layer, head) and (step, matrix).

    Where something was not measured at a step, or a layer has fewer heads than another, the value is nan.
    """
    ordered: list[Record] = []
    for record in records:
        add_record(ordered, record)
    steps = [int(record["step"]) for record in ordered]
    variables: dict[str, Any] = {"loss": ("step", [_number(record.get("loss")) for record in ordered])}
    coordinates: dict[str, Any] = {"step": steps}
    layers = _names(record.get(part, {}) for part in PER_HEAD for record in ordered)
    heads = max(
        (len(v) for r in ordered for part in PER_HEAD for n in r.get(part, {}).values() for v in n.values()), default=0
    )
    if layers:
        coordinates |= {"layer": layers, "head": np.arange(heads)}
    for part, prefix in PER_HEAD.items():
        for name in _names(measures for record in ordered for measures in record.get(part, {}).values()):
            values = np.full((len(steps), len(layers), heads), np.nan)
            for index, record in enumerate(ordered):
                for layer, measures in record.get(part, {}).items():
                    row = np.asarray(measures.get(name, []), dtype=float)
                    values[index, layers.index(layer), : len(row)] = row
            variables[prefix + name] = (("step", "layer", "head"), values)
    matrices = _names(record.get(PER_MATRIX, {}) for record in ordered)
    if matrices:
        coordinates["matrix"] = matrices
    for name in _names(measures for record in ordered for measures in record.get(PER_MATRIX, {}).values()):
        table = [
            [_number(record.get(PER_MATRIX, {}).get(matrix, {}).get(name)) for matrix in matrices] for record in ordered
        ]
        variables[name] = (("step", "matrix"), np.array(table, dtype=float))
    units = {name: unit for name, unit in UNITS.items() if name in variables}
    dataset = trajectory(variables, coordinates, units, format=FORMAT)
    for name, words in MEANINGS.items():
        if name in dataset:
            dataset[name].attrs["long_name"] = words
    return dataset


def _names(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
