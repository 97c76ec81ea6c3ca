"""What a monitored training leaves behind: one JSON line per measured step, and the same as a dataset."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.trajectory import trajectory
from foretrain.monitor.statistics import NAMES

UNITS = {"entropy": "nats"}
FORMAT = "foretrain-monitor-1"
Record = dict[str, Any]  # {"step": 50, "loss": 2.1, "attention": {layer: {statistic: [per head]}}}


def append_line(file: Path, record: Mapping[str, Any]) -> None:
    """Add a record to the end of a file, in one write; a torn last line, left by a killed process, is cut off first."""
    line = json.dumps(record, separators=(",", ":"), allow_nan=True).encode() + b"\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "ab+") as stream:
            _cut_torn_line(stream)
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(f"Cannot write to {file}: {error.strerror}; choose another place.") from error


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
    lines = file.read_bytes().split(b"\n")
    if lines and lines[-1] != b"":
        lines[-1] = b""  # written in part by a process that was killed
    records = []
    for number, line in enumerate(filter(None, lines), start=1):
        try:
            record = json.loads(line)
            require(isinstance(record, dict), "not an object")
            records.append(record)
        except (ValueError, RecursionError) as error:
            raise DamagedFile(f"{file}, line {number} is damaged; delete that line to read the rest.") from error
    return [record for record in records if "step" in record]


def as_dataset(records: Iterable[Record]) -> xr.Dataset:
    """Measures over (step, layer, head); nan where a layer has fewer heads, or was not seen at a step."""
    by_step = {
        int(record["step"]): record for record in records
    }  # a resumed run measures a step again: the last counts
    steps = sorted(by_step)
    layers = list(dict.fromkeys(layer for step in steps for layer in by_step[step]["attention"]))
    heads = max((len(v[NAMES[0]]) for r in by_step.values() for v in r["attention"].values()), default=0)
    values = np.full((len(NAMES), len(steps), len(layers), heads), np.nan)
    for i, step in enumerate(steps):
        for layer, statistics in by_step[step]["attention"].items():
            for k, name in enumerate(NAMES):
                row = np.asarray(statistics[name], dtype=float)
                values[k, i, layers.index(layer), : len(row)] = row
    axes = ("step", "layer", "head")
    variables: dict[str, Any] = {f"attention_{name}": (axes, values[k]) for k, name in enumerate(NAMES)}
    variables["loss"] = ("step", [float(by_step[step].get("loss") or np.nan) for step in steps])
    units = {f"attention_{name}": unit for name, unit in UNITS.items()}
    return trajectory(variables, {"step": steps, "layer": layers, "head": np.arange(heads)}, units, format=FORMAT)
