"""A run on disk: `run.json` beside `shards/*.nc`.

`run.json` holds the configuration, versions, machine, status and the sha256 of every finished shard.
Both are written whole or not at all: killing the program loses at most the shard in hand, and the same
call goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import xarray as xr

from foretrain.errors import DamagedFile, InputError, require
from foretrain.trajectory import load, plain, save, write_text

SHARD_NAME = re.compile(r"[A-Za-z0-9_.=+-]{1,120}")


def config_hash(config: Mapping[str, Any]) -> str:
    """Twelve hex digits that name a configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=plain).encode()).hexdigest()[:12]


@dataclass
class RunFolder:
    path: Path
    experiment: str
    config: dict[str, Any]
    status: str = "running"
    checksums: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, root: Path, experiment: str, config: Mapping[str, Any]) -> RunFolder:
        """The folder of this configuration under `root`: opened if it is there, begun if not."""
        record = json.loads(json.dumps(dict(config), default=plain))
        path = root / experiment / config_hash(record)
        try:
            return cls.open(path)
        except InputError:
            folder = cls(path, experiment, record)
            folder.write()
            return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        try:
            record = json.loads((path / "run.json").read_text(encoding="utf-8"))
            return cls(path, record["experiment"], record["config"], record["status"], dict(record["checksums"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a run folder: its run.json is missing or unreadable.") from error

    def write(self) -> None:
        record = {
            "experiment": self.experiment,
            "config": self.config,
            "status": self.status,
            "checksums": self.checksums,
            "versions": versions(),
            "machine": {"system": platform.system(), "machine": platform.machine()},
        }
        write_text(self.path / "run.json", json.dumps(record, indent=1, sort_keys=True) + "\n")

    def shard_path(self, name: str) -> Path:
        require(SHARD_NAME.fullmatch(name) is not None, f"{name!r} cannot name a shard.")
        return self.path / "shards" / f"{name}.nc"

    def has(self, name: str) -> bool:
        """Whether this shard is on disk and undamaged; a damaged one counts as absent."""
        path = self.shard_path(name)
        return name in self.checksums and path.is_file() and _sha256(path) == self.checksums[name]

    def put(self, name: str, dataset: xr.Dataset) -> None:
        path = save(dataset, self.shard_path(name))
        self.checksums[name] = _sha256(path)
        self.write()

    def finish(self) -> None:
        self.status = "done"
        self.write()

    def dataset(self) -> xr.Dataset:
        """All shards as one trajectory."""
        require(bool(self.checksums), f"{self.path} holds no finished shard yet; run the same command again.")
        damaged = [name for name in self.checksums if not self.has(name)]
        if damaged:
            raise DamagedFile(
                f"{self.path} has {len(damaged)} damaged or missing shard(s), first {damaged[0]}; "
                "run the same command again to compute them anew."
            )
        return combine([load(self.shard_path(name)) for name in sorted(self.checksums)])


def combine(shards: list[xr.Dataset]) -> xr.Dataset:
    """Shards cut along coordinate axes, put together again."""
    if len(shards) == 1:
        return shards[0]
    return xr.combine_by_coords(
        shards, combine_attrs="drop_conflicts", data_vars="minimal", join="outer", compat="no_conflicts"
    )  # type: ignore[return-value]


def versions() -> dict[str, str]:
    """Versions of everything a number here may depend on."""
    names = ("foretrain", "torch", "numpy", "scipy", "xarray", "plotly")
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in names}}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
