"""What a monitored training leaves behind: one line of JSON per measured step, and the same as a dataset.

A line looks like this, with every part but `step` optional:

    {"step": 50, "loss": 2.1, "gradient_norm": 0.9, "attention": {layer: {statistic: [one number per head]}},
     "identity": {layer: {product: [one number per head]}}, "weights": {matrix: {measure: number}},
     "activations": {block: {measure: number}}, "experts": {router: {"load": [one share per expert], measure: number}},
     "every_step": {"first": 1, "loss": [one number per step], "gradient_norm": [one number per step]}}

`every_step` begins after the last record and ends with this one. The first line of each process also says which
process writes it, and the last line how the training ended: {"finished": steps} or {"stopped": steps, "error": kind}.
JSON has no infinite numbers and no nan, so these are written as the strings "inf", "-inf" and "nan". Every line ends
with a checksum of its own, `"crc32c":"1a2b3c4d"`, by which damage is noticed; lines of earlier versions have none.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Required,  # pydantic needs it before Python 3.12
)

import google_crc32c
import numpy as np
import xarray as xr
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.trajectory import trajectory

FORMAT = "foretrain-monitor-1"
FINISHED = "finished"  # a key of the line that ends a training; more may follow if the training is resumed
STOPPED = "stopped"  # the same where an error has ended it
PROCESS = "process"
EVERY_STEP = "every_step"
LOAD = "load"  # of experts: the only measure that is a list
UNITS = {"attention_entropy": "nats"}
MEANINGS = {
    "loss": "loss at that step",
    "attention_entropy": "mean entropy of a query's attention",
    "attention_relative_entropy": "entropy as a share of the largest possible for that many keys",
    "attention_first_token": "attention on the first token",
    "attention_self_attention": "attention of a query on its own token",
    "attention_largest_logit": "largest logit of any query",
    "identity_query_key": "the identity's share of W_Q·W_Kᵀ",
    "identity_value_output": "the identity's share of W_V·W_O",
    "activation_residual_norm": "root mean square of a block's output",
    "activation_massive": "largest entry of a block's output over the median",
    "activation_dead_units": "share of hidden units that no token switches on",
    "experts_router_entropy": "entropy of the router as a share of the largest possible",
    "experts_load": "share of all assignments",
    "experts_busiest": "largest load over an even one",
    "experts_dropped": "share of tokens that no expert takes",
    "norm": "Frobenius norm",
    "stable_rank": "squared norm over squared largest singular value",
    "effective_rank": "exponential of the entropy of the singular values",
    "gradient_norm": "norm of the gradient before clipping",
    "total_gradient_norm": "norm of the whole gradient before clipping",
    "update_ratio": "size of the update relative to the weights",
    "deviation": "standard deviation of the entries",
    "kurtosis": "excess kurtosis of the entries: 0 if they are normal, −1.2 if uniform",
    "edge": "squared largest singular value, relative to what independent entries give: 1 up to chance",
    "row_spread": "how much the rows differ in size, relative to what independent entries give: 1 up to chance",
    "column_spread": "how much the columns differ in size, relative to what independent entries give: 1 up to chance",
}
_SEAL = re.compile(rb',"crc32c":"(?P<sum>[0-9a-f]{8})"\}')
Number = float | None  # the words nan, inf and -inf are numbers, too


class _Form(TypedDict, total=False):
    """The form of a line; it may have more."""

    step: Annotated[int, Field(ge=0, le=10**15, strict=True)]
    total: Annotated[int, Field(ge=0, le=10**15)] | None
    loss: Number
    gradient_norm: Number
    attention: dict[str, dict[str, list[Number]]]
    identity: dict[str, dict[str, list[Number]]]
    weights: dict[str, dict[str, Number]]
    activations: dict[str, dict[str, Number]]
    experts: dict[str, dict[str, Number | list[Number]]]
    every_step: _EverySteps
    process: _Process


class _EverySteps(TypedDict, total=False):
    first: Required[Annotated[int, Field(ge=0, le=10**15, strict=True)]]
    loss: list[Number]
    gradient_norm: list[Number]


class _Process(TypedDict):
    host: str
    number: Annotated[int, Field(ge=0, le=10**15, strict=True)]


DIGITS = 8  # kept of every number: as exact as float32
Record = dict[str, Any]

# part of a record -> what its variables begin with
PER_HEAD = {"attention": "attention_", "identity": "identity_"}
# part of a record -> (axis of its names, what its variables begin with)
PER_NAME = {"weights": ("matrix", ""), "activations": ("block", "activation_"), "experts": ("router", "experts_")}
PER_MATRIX = "weights"
AXES = {"step", "layer", "head", "matrix", "block", "router", "expert"}
TAKEN = AXES | {"loss", "total_gradient_norm"}  # names that a measure of a matrix cannot have


def append_nothing(file: Path) -> None:
    """Make an empty file, or fail now rather than at the first record."""
    _append(file, b"")


def append_line(file: Path, record: Mapping[str, Any]) -> None:
    """Add a record to the end of a file, in one write; a torn last line, left by a killed process, is cut off first."""
    body = json.dumps(_writable(record), separators=(",", ":"), allow_nan=False).encode()[:-1]
    _append(file, body + b',"crc32c":"%08x"}\n' % google_crc32c.value(body))


def is_sealed(line: bytes) -> bool:
    """Whether a line ends with a checksum, right or wrong."""
    return _SEAL.fullmatch(line[-len(b',"crc32c":"12345678"}') :]) is not None


def read_line(line: bytes) -> Any:
    """What a line says, without its checksum. ValueError if that is wrong, or if the line is not JSON."""
    if not is_sealed(line):
        return json.loads(line)
    body, _, seal = line.rpartition(b',"crc32c":"')
    if google_crc32c.value(body) != int(seal[:8], 16):
        raise ValueError("the checksum is wrong")
    return json.loads(body + b"}")


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
    records, entries = _read(file)
    return records, bool(entries) and FINISHED in entries[-1]


def ending_of(file: Path) -> Record:
    """The last line of a training that has ended; the process that writes it of one that has not. Empty if unknown."""
    entries = _read(file)[1]
    if entries and "step" not in entries[-1]:
        return entries[-1]
    return next(({PROCESS: entry[PROCESS]} for entry in reversed(entries) if PROCESS in entry), {})


def _read(file: Path) -> tuple[list[Record], list[Record]]:
    """The records of a file, and all of its lines."""
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
    # a last line without its line break was written in part by a process that was killed; otherwise it is damaged
    if lines[-1].startswith(b"{") and not is_sealed(lines[-1][:-1]):
        lines.pop()
    entries: list[Record] = []
    sealed = False
    for number, line in enumerate(filter(None, lines), start=1):
        try:
            entry = read_line(line)
            require(isinstance(entry, dict) and bool({"step", FINISHED, STOPPED} & entry.keys()), "not a record")
            require(is_sealed(line) or not sealed, "the checksum is lost")
            _require_form(entry)
            entries.append(entry)
            sealed = sealed or is_sealed(line)
        except (ValueError, RecursionError, OverflowError) as error:
            if not entries and not is_sealed(line):
                raise InputError(
                    f"{file} is not a record of a training; give the .jsonl file that Monitor(model, file=...) writes."
                ) from error
            raise DamagedFile(f"{file}, line {number} is damaged; delete that line to read the rest.") from error
    records: list[Record] = []
    for entry in entries:
        if "step" in entry:
            add_record(records, entry)
    return records, entries


def _require_form(entry: Record) -> None:
    """Raise a ValueError unless every part of a line has the form that Monitor writes."""
    _form().validate_python(entry)
    for part in PER_HEAD:
        for layer, measures in entry.get(part, {}).items():
            heads = {len(values) for values in measures.values()}
            require(len(heads) <= 1, f"the measures of {layer} have {sorted(heads)} heads")
    for measures in entry.get("experts", {}).values():
        lists = {name for name, value in measures.items() if isinstance(value, list)}
        require(lists == measures.keys() & {LOAD}, "only the load is a list")
    steps = entry.get(EVERY_STEP, {})
    require(len({len(values) for name, values in steps.items() if name != "first"}) <= 1, "steps differ in number")
    names = {name for measures in entry.get(PER_MATRIX, {}).values() for name in measures}
    require(not names & TAKEN, "a measure has the name of an axis")


@cache
def _form() -> Any:
    return TypeAdapter(_Form)


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
    variables |= _per_name(ordered, coordinates)
    if any("gradient_norm" in record for record in ordered):
        norms = [_number(record.get("gradient_norm")) for record in ordered]
        variables["total_gradient_norm"] = ("step", norms)
    units = {name: unit for name, unit in UNITS.items() if name in variables}
    dataset = trajectory(variables, coordinates, units, format=FORMAT)
    for name in set(MEANINGS) & set(variables):
        dataset[name].attrs["long_name"] = MEANINGS[name]
    return dataset


def _per_name(records: list[Record], coordinates: dict[str, Any]) -> dict[str, Any]:
    """The parts of records that have no heads: by matrix, by block, by router, and there by expert."""
    variables: dict[str, Any] = {}
    for part, (axis, prefix) in PER_NAME.items():
        places = _names(record.get(part, {}) for record in records)
        if places:
            coordinates[axis] = places
        for name in _names(measures for record in records for measures in record.get(part, {}).values()):
            table = [[record.get(part, {}).get(place, {}).get(name) for place in places] for record in records]
            if name != LOAD:
                numbers = np.array([[_number(value) for value in row] for row in table], dtype=float)
                variables[prefix + name] = (("step", axis), numbers)
                continue
            width = max(len(value or ()) for row in table for value in row)
            coordinates["expert"] = np.arange(width)
            padded = np.full((len(records), len(places), width), np.nan)
            for row, values in enumerate(table):
                for column, value in enumerate(values):
                    numbers = np.array([_number(one) for one in value or ()], dtype=float)
                    padded[row, column, : len(numbers)] = numbers
            variables[prefix + name] = (("step", axis, "expert"), padded)
    return variables


def every_step(records: Iterable[Record], pending: Record | None = None) -> xr.Dataset:
    """The loss and the norm of the whole gradient at every step, as far as they were kept; nan where they were not.

    `pending` has the steps after the last record. Gradient norms between records are estimates from a sample of
    entries, unless the training gave its own.
    """
    records = [*records]
    if pending:
        last = max(len(values) for values in pending.values() if isinstance(values, list))
        records.append({"step": pending["first"] + last - 1, EVERY_STEP: pending})
    steps: list[int] = []
    values: list[tuple[float, float]] = []
    for record in records:
        kept = record.get(EVERY_STEP) or {"first": record["step"]}
        losses = kept.get("loss", [record.get("loss")])
        norms = kept.get("gradient_norm", [record.get("gradient_norm")])
        first = int(kept["first"])
        while steps and steps[-1] >= first:  # the training has gone back
            del steps[-1], values[-1]
        for offset in range(min(max(len(losses), len(norms)), int(record["step"]) - first + 1)):
            loss, norm = (_number(part[offset]) if offset < len(part) else math.nan for part in (losses, norms))
            steps.append(first + offset)
            values.append((loss, norm))
    table = np.array(values, dtype=float).reshape(-1, 2)
    variables = {"loss": ("step", table[:, 0]), "total_gradient_norm": ("step", table[:, 1])}
    return trajectory(variables, {"step": steps}, {}, format=FORMAT)


def _names(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
