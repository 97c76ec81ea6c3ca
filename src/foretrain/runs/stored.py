"""A run on disk: `run.json` beside `shards/*.nc`, in a folder named after what the run depends on.

`run.json` holds the configuration, the digest of the source code, versions, machine, status, and the sha256 of every
finished shard. It is sealed, and both kinds of file are written whole or not at all: killing the program loses at most
the shard in hand, and the same call goes on where it stopped. A run of changed code gets a folder of its own beside the
old one; nothing is deleted unless the user asks for a fresh run.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr
from filelock import FileLock, Timeout

from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.files import plain, read_record, sha256_of, write_record
from foretrain.core.provenance import machine, versions
from foretrain.core.trajectory import NOTES, load_file, notes_of, save
from foretrain.runs.monitored import as_dataset, read_lines

SHARD_NAME = re.compile(r"[A-Za-z0-9_.=+-]{1,120}")
RECORD, LOCK, SHARDS = "run.json", "lock", "shards"
FORMAT = 2  # 1 had no seal, no axes, and no digest in the name of the folder
_FORMAT_1 = {"experiment", "config", "status", "checksums", "source", "versions", "machine"}


def digest_of(value: Any) -> str:
    """Twelve hex digits that name a configuration or anything else that JSON can say."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=plain).encode()).hexdigest()[:12]


class NotARun(InputError):
    """There is no run in this folder."""


@dataclass(frozen=True)
class RunIdentity:
    """What a run depends on; two runs with the same identity have the same numbers."""

    experiment: str
    config: Mapping[str, Any]  # as it reads back from JSON
    source: str  # digest of the source code that computes it
    versions: Mapping[str, str] = field(default_factory=lambda: versions())  # looked up when a run is named

    @classmethod
    def of(cls, experiment: str, config: Mapping[str, Any], source: str, files: Sequence[str] = ()) -> RunIdentity:
        """Tuples become lists. Arguments listed in `files` may be paths; the contents of those files count too."""
        given = [config[name] for name in files]
        paths = [path for value in given for path in (value if isinstance(value, tuple | list) else [value])]
        contents = {f"sha256 of {path}": sha256_of(Path(path)) for path in paths if Path(path).is_file()}
        return cls(experiment, dict(json.loads(json.dumps({**config, **contents}, default=plain))), source)

    @property
    def name(self) -> str:
        """The name of its folder: a digest of the configuration, then one of code and versions."""
        return f"{digest_of(self.config)}-{digest_of([self.source, self.versions])[:8]}"

    def path(self, root: Path) -> Path:
        return root / self.experiment / self.name

    def earlier(self, root: Path) -> list[Path]:
        """Runs of the same configuration that were computed with other code or other versions."""
        folder = root / self.experiment
        paths = folder.glob(f"{digest_of(self.config)}*") if folder.is_dir() else ()
        return sorted(path for path in paths if path.name != self.name and (path / RECORD).is_file())


@dataclass
class RunFolder:
    """The folder of one run: its configuration, where it came from, and a checksum for every finished shard."""

    path: Path
    identity: RunIdentity
    axes: dict[str, str] = field(default_factory=dict)  # argument along which the run is cut -> axis of the result
    status: str = "running"
    checksums: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=machine)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run in this folder. DamagedFile if its record is damaged, InputError if it is not a run."""
        file = path / RECORD
        try:
            record = _first_format(file) or read_record(file)
        except OSError as error:
            raise NotARun(
                f"{path} is not a run folder: it has no readable {RECORD}; give a folder that a run made."
            ) from error
        try:
            identity = RunIdentity(record["experiment"], record["config"], record["source"], record["versions"])
            return cls(path, identity, record.get("axes", {}), record["status"], record["checksums"], record["machine"])
        except (KeyError, TypeError) as error:
            raise DamagedFile(f"{file} is damaged: {error}.") from error

    def write(self) -> None:
        record = {
            "format": FORMAT,
            "experiment": self.identity.experiment,
            "config": self.identity.config,
            "axes": self.axes,
            "status": self.status,
            "checksums": self.checksums,
            "source": self.identity.source,
            "versions": self.identity.versions,
            "machine": self.machine,
        }
        write_record(self.path / RECORD, record)

    def shard_path(self, name: str) -> Path:
        require(SHARD_NAME.fullmatch(name) is not None, f"{name!r} cannot name a shard.")
        return self.path / SHARDS / f"{name}.nc"

    def has(self, name: str) -> bool:
        """Whether this shard is on disk and undamaged; a damaged one counts as absent."""
        path = self.shard_path(name)
        return name in self.checksums and path.is_file() and sha256_of(path) == self.checksums[name]

    def put(self, name: str, dataset: xr.Dataset) -> None:
        path = save(dataset, self.shard_path(name))
        self.checksums[name] = sha256_of(path)
        self.write()

    def clear(self) -> None:
        """Delete every shard, to compute them again."""
        self.checksums, self.status, self.machine = {}, "running", machine()
        shutil.rmtree(self.path / SHARDS, ignore_errors=True)
        self.write()

    def finish(self) -> None:
        self.status = "done"
        self.write()

    def dataset(self) -> xr.Dataset:
        """All finished shards as one trajectory."""
        require(bool(self.checksums), f"{self.path} has no finished shard yet; run the same command again.")
        damaged = [name for name in self.checksums if not self.has(name)]
        if damaged:
            raise DamagedFile(
                f"{self.path} has {len(damaged)} damaged or missing shard(s), first {damaged[0]}; "
                "run the same command again to compute them anew."
            )
        shards = [load_file(self.shard_path(name)) for name in sorted(self.checksums)]
        notes = list(dict.fromkeys(note for shard in shards for note in notes_of(shard)))
        if self.status != "done":
            notes.append(f"This run is not finished: {len(shards)} shards so far; the same command goes on with it.")
        whole = self._in_order(combine(shards))
        whole.attrs.setdefault("config", json.dumps(self.identity.config))  # dropped where shards differ in theirs
        return whole.assign_attrs({NOTES: json.dumps(notes)}) if notes else whole

    def _in_order(self, whole: xr.Dataset) -> xr.Dataset:
        """Values along each cut axis in the order in which they were asked for; combining shards has sorted them."""
        order = {}
        for argument, axis in self.axes.items():
            present = whole[axis].values.tolist() if axis in whole.indexes else []
            asked = [value for value in self.identity.config[argument] if value in present]
            if len(asked) == len(present):
                order[axis] = asked
        return whole.sel(order)


def _first_format(file: Path) -> dict[str, Any] | None:
    """A record of the first format, which had no seal; None if it is not one to the letter."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and set(record) == _FORMAT_1 else None


def combine(shards: Sequence[xr.Dataset]) -> xr.Dataset:
    """Shards cut along coordinate axes, put together again."""
    if len(shards) == 1:
        return shards[0]
    return xr.combine_by_coords(
        shards, combine_attrs="drop_conflicts", data_vars="minimal", join="outer", compat="no_conflicts"
    )  # type: ignore[return-value]


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of a run folder: no other process computes it meanwhile, and the lock ends with this process.

    Whoever finds it taken is refused and has changed nothing.
    """
    for _ in range(100):
        path.mkdir(parents=True, exist_ok=True)
        for place in (path, path / SHARDS, path / LOCK, path / RECORD):
            require(
                not place.is_symlink(),
                f"{place} is a symbolic link, and runs are not written through links; remove it.",
            )
        try:
            lock = FileLock(path / LOCK, timeout=0)
            lock.acquire()
        except Timeout as error:
            raise InputError(
                f"{path} is being computed by another process; wait for it, or choose another folder."
            ) from error
        except FileNotFoundError:  # another process has just taken its refused run back
            continue
        except OSError as error:
            raise InputError(f"Cannot lock {path}: {error.strerror}; choose another place.") from error
        try:
            yield
        finally:
            lock.release()
        return
    raise InputError(f"{path} keeps disappearing; choose another folder.")


def take_back(path: Path, absent: Sequence[Path]) -> None:
    """Remove the folder of a refused run, whose lock is held, and the folders above it that it made and are empty."""
    shutil.rmtree(path / SHARDS, ignore_errors=True)
    for name in (RECORD, LOCK):
        (path / name).unlink(missing_ok=True)
    for folder in (path, *(place for place in absent if place != path)):
        try:
            folder.rmdir()
        except OSError:  # someone else's run is in it by now
            return


def load(path: str | Path) -> xr.Dataset:
    """Read a trajectory back: a netCDF file, the .jsonl file of a monitored training, or all finished shards of a run
    folder as one."""
    path = Path(path)
    require(path.exists(), f"There is nothing at {path}; give the path of a .nc or .jsonl file or of a run folder.")
    if path.is_dir():
        return RunFolder.open(path).dataset()
    return as_dataset(read_lines(path)) if path.suffix == ".jsonl" else load_file(path)
