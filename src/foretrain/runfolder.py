"""A run on disk: `run.json` beside `shards/*.nc`.

`run.json` holds the configuration, versions, machine, status and the sha256 of every finished shard.
Both are written whole or not at all: killing the program loses at most the shard in hand, and the same
call goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

from foretrain.errors import DamagedFile, InputError, require
from foretrain.provenance import machine, source_digest, versions
from foretrain.trajectory import NOTES, load, notes_of, plain, save, sha256_of, write_text

try:
    import fcntl
except ImportError:  # Windows has no such lock: there, two runs of one configuration at once are the user's to avoid
    fcntl = None  # type: ignore[assignment]

SHARD_NAME = re.compile(r"[A-Za-z0-9_.=+-]{1,120}")


def config_hash(config: Mapping[str, Any]) -> str:
    """Twelve hex digits that name a configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=plain).encode()).hexdigest()[:12]


def run_path(root: Path, experiment: str, config: Mapping[str, Any]) -> Path:
    """Where the run of this configuration is, or will be."""
    return root / experiment / config_hash(_as_json(config))


def _as_json(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as it reads back from disk: tuples become lists, and files that it names add what is in them."""
    files = {key: Path(value) for key, value in config.items() if isinstance(value, str) and value.endswith(".toml")}
    contents = {f"sha256 of {key}": sha256_of(path) for key, path in files.items() if path.is_file()}
    return dict(json.loads(json.dumps({**config, **contents}, default=plain)))


@dataclass
class RunFolder:
    """The folder of one run: its configuration, where it came from, and a checksum for every shard that is done."""

    path: Path
    experiment: str
    config: dict[str, Any]
    status: str = "running"
    checksums: dict[str, str] = field(default_factory=dict)
    source: str = ""  # digest of the source code that computed the shards
    origin: dict[str, Any] = field(default_factory=lambda: {"versions": versions(), "machine": machine()})

    @classmethod
    def at(cls, root: Path, experiment: str, config: Mapping[str, Any]) -> RunFolder:
        """The folder of this configuration under `root`: opened if it is there, begun if not."""
        path = run_path(root, experiment, config)
        try:
            return cls.open(path)
        except InputError:
            folder = cls(path, experiment, _as_json(config), source=source_digest(_paper(experiment)))
            folder.write()
            return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        try:
            record = json.loads((path / "run.json").read_text(encoding="utf-8"))
            known = (record["experiment"], record["config"], record["status"], dict(record["checksums"]))
            return cls(path, *known, record["source"], {"versions": record["versions"], "machine": record["machine"]})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} is not a run folder: its run.json is missing or unreadable; give a folder that a run made."
            ) from error

    def write(self) -> None:
        record = {
            "experiment": self.experiment,
            "config": self.config,
            "status": self.status,
            "checksums": self.checksums,
            "source": self.source,
            **self.origin,
        }
        write_text(self.path / "run.json", json.dumps(record, indent=1, sort_keys=True) + "\n")

    def shard_path(self, name: str) -> Path:
        require(SHARD_NAME.fullmatch(name) is not None, f"{name!r} cannot name a shard.")
        return self.path / "shards" / f"{name}.nc"

    def has(self, name: str) -> bool:
        """Whether this shard is on disk and undamaged; a damaged one counts as absent."""
        path = self.shard_path(name)
        return name in self.checksums and path.is_file() and sha256_of(path) == self.checksums[name]

    def put(self, name: str, dataset: xr.Dataset) -> None:
        path = save(dataset, self.shard_path(name))
        self.checksums[name] = sha256_of(path)
        self.write()

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this run is computed, no other process computes it; the lock ends with the process, however it ends."""
        with (self.path / "lock").open("w") as lock:
            if fcntl is not None:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise InputError(
                        f"{self.path} is being computed by another process; wait for it, or choose another folder."
                    ) from error
            yield

    @property
    def stale(self) -> bool:
        """Whether the source code or a library has changed since this run was begun."""
        now = source_digest(_paper(self.experiment))
        return bool(self.source) and (self.source != now or self.origin["versions"] != versions())

    def begin_anew(self) -> None:
        """Forget every shard and compute them again."""
        self.checksums, self.status, self.source = {}, "running", source_digest(_paper(self.experiment))
        self.origin = {"versions": versions(), "machine": machine()}
        shutil.rmtree(self.path / "shards", ignore_errors=True)
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
        shards = [load(self.shard_path(name)) for name in sorted(self.checksums)]
        notes = list(dict.fromkeys(note for shard in shards for note in notes_of(shard)))
        if self.status != "done":
            notes.append(f"This run is not finished: {len(shards)} shards so far; the same command goes on with it.")
        whole = self._in_order(combine(shards))
        whole.attrs.setdefault("config", json.dumps(self.config))  # dropped where shards differ in theirs
        return whole.assign_attrs({NOTES: json.dumps(notes)}) if notes else whole

    def _in_order(self, whole: xr.Dataset) -> xr.Dataset:
        """Names along an axis in the order in which they were asked for; put together, they are sorted."""
        asked = [value for value in self.config.values() if isinstance(value, list)]
        named = [axis for axis in whole.dims if axis in whole.coords and whole[axis].dtype.kind in "UO"]
        order = {}
        for axis, values in itertools.product(named, asked):
            there = set(whole[axis].values)
            if there <= set(map(str, values)):
                order[axis] = [name for name in dict.fromkeys(map(str, values)) if name in there]
        return whole.sel(order)


def combine(shards: list[xr.Dataset]) -> xr.Dataset:
    """Shards cut along coordinate axes, put together again."""
    if len(shards) == 1:
        return shards[0]
    return xr.combine_by_coords(
        shards, combine_attrs="drop_conflicts", data_vars="minimal", join="outer", compat="no_conflicts"
    )  # type: ignore[return-value]


def _paper(experiment: str) -> str:
    return experiment.split("/", 1)[0]
