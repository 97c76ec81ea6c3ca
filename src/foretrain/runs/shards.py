"""Runs as they were kept before format 3, with one netCDF file per cell: they can still be loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import xarray as xr

from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.files import sha256_of, unsealed
from foretrain.core.trajectory import NOTES, load_file, notes_of
from foretrain.runs.identity import RunIdentity

SHARDS = "shards"
FORMAT = 2  # 1 had no seal and no axes
_FORMAT_1 = {"experiment", "config", "status", "checksums", "source", "versions", "machine"}


class OlderFormat(InputError):
    """This folder holds a run of an earlier version of foretrain."""


def is_first_format(content: bytes) -> bool:
    """Whether this is a record of the first format, to the letter; it had no seal."""
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and set(record) == _FORMAT_1


def load_shards(path: Path) -> xr.Dataset:
    """All finished cells as one trajectory."""
    record = _record(path)
    checksums, status = record["checksums"], record["status"]
    require(bool(checksums), f"{path} has no finished part; run the same command again.")
    files = {name: path / SHARDS / f"{Path(name).name}.nc" for name in checksums}
    damaged = [name for name, file in files.items() if not file.is_file() or sha256_of(file) != checksums[name]]
    if damaged:
        raise DamagedFile(f"{path} has {len(damaged)} damaged or missing shard(s), first {damaged[0]}.")
    parts = [load_file(files[name]) for name in sorted(checksums)]
    whole = _in_order(combine(parts), record.get("axes", {}), record["config"])
    notes = list(dict.fromkeys(note for part in parts for note in notes_of(part)))
    if status != "done":
        notes.append(f"This run is not finished: it has {len(parts)} parts.")
    whole.attrs.setdefault("config", json.dumps(record["config"]))
    return whole.assign_attrs({NOTES: json.dumps(notes)}) if notes else whole


def identity_and_status(path: Path) -> tuple[RunIdentity, bool]:
    """What such a run depends on, and whether it is complete."""
    record = _record(path)
    identity = RunIdentity(record["experiment"], record["config"], record["source"], record["versions"])
    return identity, record["status"] == "done"


def combine(parts: list[xr.Dataset]) -> xr.Dataset:
    """Datasets cut along coordinate axes, put together again."""
    if len(parts) == 1:
        return parts[0]
    return xr.combine_by_coords(
        parts, combine_attrs="drop_conflicts", data_vars="minimal", join="outer", compat="no_conflicts"
    )  # type: ignore[return-value]


def _record(path: Path) -> dict[str, Any]:
    content = (path / "run.json").read_bytes()
    record = json.loads(content) if is_first_format(content) else unsealed(content, str(path / "run.json"))
    if not {"experiment", "config", "status", "checksums", "source", "versions"} <= set(record):
        raise DamagedFile(f"{path / 'run.json'} is damaged: it lacks entries.")
    return record


def _in_order(whole: xr.Dataset, axes: dict[str, str], config: dict[str, Any]) -> xr.Dataset:
    """Values along each axis in the order in which they were asked for; combining has sorted them."""
    order = {}
    for argument, axis in axes.items():
        present = whole[axis].values.tolist() if axis in whole.indexes else []
        asked = [value for value in config[argument] if value in present]
        if len(asked) == len(present):
            order[axis] = asked
    return whole.sel(order)
