"""A run on disk: `run.json` beside its results, in a folder named after what the run depends on.

A run over a grid keeps its results in one Zarr group, `sweep.zarr`; a run without a grid in one netCDF file. `run.json`
holds the configuration, the digest of the source code, versions, machine, status, and what the metadata of the group
must be. It is sealed and written three times, not with every piece: killing the program loses at most the pieces in
hand, and the same call goes on where it stopped. A run of changed code gets a folder of its own beside the old one;
nothing is deleted unless the user asks for a fresh run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout

from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.files import record_text, unsealed
from foretrain.core.provenance import machine
from foretrain.core.trajectory import NOTES, as_netcdf, load_file, load_netcdf, notes_of
from foretrain.runs import shards
from foretrain.runs.grid import Grid, Piece
from foretrain.runs.identity import RunIdentity
from foretrain.runs.record import FORMAT, checked
from foretrain.runs.storage import Storage
from foretrain.runs.training_log import as_dataset, read_lines
from foretrain.runs.zarr_store import BEING_MADE, GROUP, GridStore

RECORD, LOCK, TRAJECTORY = "run.json", "lock", "trajectory.nc"


class NotARun(InputError):
    """There is no run in this folder."""


@dataclass
class RunFolder:
    """One run: its configuration, where it came from, how far it got, and its results."""

    place: Storage
    identity: RunIdentity
    grid: Grid
    status: str = "running"
    metadata: dict[str, str] = field(default_factory=dict)  # of the arrays, once they are made
    machine: dict[str, str] = field(default_factory=machine)
    reused: bool = False  # a sweep found it finished and computed nothing

    @classmethod
    def open(cls, place: str | Path | Storage) -> RunFolder:
        """The run in this folder. DamagedFile if its record is damaged, InputError if it is not a run."""
        place = Storage.of(place)
        try:
            content = place.read(RECORD)
        except OSError as error:
            raise NotARun(f"{place} cannot be read: {error.strerror or error}.") from error
        if content is None:
            raise NotARun(f"{place} is not a run folder: it has no {RECORD}; give a folder that a run made.")
        name = place / RECORD
        if shards.is_first_format(content):
            raise shards.OlderFormat(str(place))
        record = unsealed(content, str(name))
        if record.get("format") == shards.FORMAT:
            raise shards.OlderFormat(str(place))
        found = checked(record, str(name))
        return cls(place, found.identity(), found.the_grid(), found.status, found.metadata, found.machine)

    def __repr__(self) -> str:
        done = self.grid.cells if self.status == "done" else self._cells_done()
        cells = f"{done} of {self.grid.cells} cell{'s' * (self.grid.cells != 1)} done"
        return f"<RunFolder {self.place}: {self.identity.experiment}, {cells}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        try:
            shown = self.dataset()._repr_html_()
        except InputError as error:  # nothing is done yet, or it is too large to show
            shown = f"<p>{escape(str(error))}</p>"
        return f"<p><code>{escape(repr(self))}</code></p>{shown}"

    def _cells_done(self) -> int:
        done = self.done()
        return sum(self.grid.size(piece) for piece in self.grid.pieces() if done[piece])

    @property
    def path(self) -> Path:
        """The folder, for a run on this machine."""
        require(self.place.path is not None, f"{self.place} is not a folder of this machine.")
        assert self.place.path is not None
        return self.place.path

    def write(self) -> None:
        """Write what is known about the run, apart from its results."""
        record = {
            "format": FORMAT,
            "experiment": self.identity.experiment,
            "config": self.identity.config,
            "grid": {
                "values": [[name, list(given)] for name, given in self.grid.values.items()],  # in their order
                "axes": dict(self.grid.axes),
                "lists": sorted(self.grid.lists),
                "block": list(self.grid.block),
            },
            "status": self.status,
            "metadata": self.metadata,
            "source": self.identity.source,
            "versions": self.identity.versions,
            "machine": self.machine,
        }
        self.place.write(RECORD, record_text(record).encode())

    @cached_property
    def store(self) -> GridStore:
        """The results on disk."""
        return GridStore(self.place, self.grid, self.metadata)

    @property
    def is_made(self) -> bool:
        """Whether there is something to write pieces into."""
        return bool(self.metadata) and bool(self.grid.values)

    def make(self, first: xr.Dataset) -> None:
        """Make what holds the results, after the first piece that was computed."""
        attributes = {
            "experiment": self.identity.experiment,
            "config": json.dumps(self.identity.config, sort_keys=True),  # as run.json gives it back after a kill
            "source": self.identity.source,
        }
        self.metadata = self.store.create(first, attributes)
        self.write()

    def put(self, piece: Piece, dataset: xr.Dataset) -> None:
        """Keep a piece; what holds them is made if necessary."""
        if not self.grid.values:
            self.place.write(TRAJECTORY, as_netcdf(dataset))
            return
        if not self.is_made:
            self.make(dataset)
        self.store.write(piece, dataset)

    def done(self) -> np.ndarray:
        """Which pieces are there and undamaged; a damaged one counts as absent."""
        if not self.grid.values:
            return np.array(self._trajectory() is not None)
        return self.store.sound() if self.is_made else np.zeros(self.grid.blocks, bool)

    def mend(self) -> None:
        """Before computing: put damaged metadata back, and clear up after killed processes."""
        self.place.clear_up()
        self.place.remove(BEING_MADE)
        if self.is_made:
            self.store.mend_metadata(self.metadata)

    def clear(self) -> None:
        """Delete every result, to compute them again."""
        self.status, self.machine, self.metadata = "running", machine(), {}
        self.write()
        for name in (GROUP, BEING_MADE, TRAJECTORY, shards.SHARDS):
            self.place.remove(name)

    def finish(self) -> None:
        """Note that every piece is there."""
        self.status = "done"
        self.write()

    def dataset(self) -> xr.Dataset:
        """All finished pieces as one trajectory."""
        damaged = f"{self.place} is damaged; run the same command again to compute what is missing."
        if self.is_made and self.store.metadata() != self.metadata:
            raise DamagedFile(damaged)
        done = self.done()
        if self.status == "done" and not done.all():
            missing = int(np.size(done) - np.count_nonzero(done))
            raise DamagedFile(
                f"{self.place} has {missing} damaged or missing piece(s) of {np.size(done)}; run the same command "
                "again to compute them anew."
            )
        require(bool(done.any()), f"{self.place} has no finished piece yet; run the same command again.")
        whole = self.store.dataset(done) if self.grid.values else self._trajectory()
        assert whole is not None
        notes = notes_of(whole)
        if self.status != "done":
            pieces = f"{np.count_nonzero(done)} of {done.size} pieces"
            notes.append(f"This run is not finished: {pieces} so far; the same command goes on with it.")
        whole.attrs.setdefault("config", json.dumps(self.identity.config, sort_keys=True))  # pieces differ in theirs
        return whole.assign_attrs({NOTES: json.dumps(notes)}) if notes else whole

    def _trajectory(self) -> xr.Dataset | None:
        content = self.place.read(TRAJECTORY)
        try:
            return load_netcdf(content, str(self.place / TRAJECTORY), ours=True) if content is not None else None
        except DamagedFile:
            return None


@contextmanager
def held(place: Storage) -> Iterator[None]:
    """Hold the lock of a run folder: no other process computes it meanwhile, and the lock ends with this process.

    Whoever finds it taken is refused and has changed nothing. Only folders of this machine have a lock: in an object
    store two programs that compute the same run write the same bits.
    """
    if place.path is None:
        yield
        return
    path = place.path
    for _ in range(100):
        path.mkdir(parents=True, exist_ok=True)
        top = (path / name for name in (".", GROUP, shards.SHARDS, TRAJECTORY, LOCK, RECORD))
        for used in (*top, *_below(path / GROUP)):
            require(
                not used.is_symlink(),
                f"{used} is a symbolic link, and runs are not written through links; remove it.",
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


def _below(folder: Path) -> Iterator[Path]:
    """All folders and files in a folder and in those in it."""
    for above, folders, files in os.walk(folder):
        yield from (Path(above, name) for name in (*folders, *files))


def take_back(place: Storage, absent: list[Path]) -> None:
    """Remove a refused run, whose lock is held, and the folders above it that it made and are empty."""
    for name in (GROUP, BEING_MADE, TRAJECTORY, RECORD, LOCK):
        place.remove(name)
    if place.path is None:
        return
    for folder in (place.path, *(above for above in absent if above != place.path)):
        try:
            folder.rmdir()
        except OSError:  # someone else's run is in it by now
            return


def earlier_runs(identity: RunIdentity, root: Storage) -> list[Path]:
    """Runs of the same configuration that were computed with other code or other versions."""
    if root.path is None:
        return []
    folder = root.path / identity.experiment
    paths = folder.glob(f"{identity.name.partition('-')[0]}*") if folder.is_dir() else ()
    return sorted(path for path in paths if path.name != identity.name and (path / RECORD).is_file())


def load(path: str | Path) -> xr.Dataset:
    """Read a trajectory back: a netCDF file, the .jsonl file of a monitored training, or all finished pieces of a run
    folder as one. A run may also be in a store that fsspec opens, such as s3://bucket/runs/scan_snap/fig6/0123."""
    if "://" in str(path) and Storage.of(path).path is None:
        return RunFolder.open(path).dataset()
    path = Path(Storage.of(path).location)
    require(path.exists(), f"There is nothing at {path}; give the path of a .nc or .jsonl file or of a run folder.")
    if path.is_dir():
        try:
            return RunFolder.open(path).dataset()
        except shards.OlderFormat:
            return shards.load_shards(path)
    return as_dataset(read_lines(path)) if path.suffix == ".jsonl" else load_file(path)


def describe(path: Path) -> Mapping[str, Any]:
    """What a run folder holds: experiment, arguments, code, versions, and whether it is complete."""
    try:
        folder = RunFolder.open(path)
        identity, done = folder.identity, folder.status == "done"
    except shards.OlderFormat:
        identity, done = shards.identity_and_status(path)
    return {
        "experiment": identity.experiment,
        "arguments": identity.config,
        "code": identity.source,
        "versions": identity.versions,
        "complete": done,
    }
