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
from foretrain.runs.grid import Grid, Piece
from foretrain.runs.identity import RunIdentity
from foretrain.runs.layer_numbers import numbered
from foretrain.runs.record import FORMAT, checked
from foretrain.runs.storage import Storage
from foretrain.runs.training_log import as_dataset, read_lines
from foretrain.runs.zarr_store import GROUP, GridStore

RECORD, LOCK, TRAJECTORY = "run.json", "lock", "trajectory.nc"


class NotARun(InputError):
    """There is no run in this folder."""


@dataclass
class RunFolder:
    """One run: its configuration, where it came from, how far it got, and its results."""

    storage: Storage
    identity: RunIdentity
    grid: Grid
    status: str = "running"
    metadata: dict[str, str] = field(default_factory=dict)  # of the arrays, once they are made
    machine: dict[str, str] = field(default_factory=machine)
    reused: bool = False  # a sweep found it finished and computed nothing

    @classmethod
    def open(cls, location: str | Path | Storage) -> RunFolder:
        """The run in this folder. DamagedFile if its record is damaged, InputError if it is not a run."""
        storage = Storage.of(location)
        try:
            content = storage.read(RECORD)
        except OSError as error:
            raise NotARun(f"{storage} cannot be read: {error.strerror or error}.") from error
        if content is None:
            raise NotARun(f"{storage} is not a run folder: it has no {RECORD}; give a folder that a run made.")
        name = str(storage / RECORD)
        record = checked(unsealed(content, name), name)
        return cls(storage, record.identity(), record.the_grid(), record.status, record.metadata, record.machine)

    @classmethod
    def begin(cls, storage: Storage, identity: RunIdentity, grid: Grid) -> RunFolder:
        """A run without results. What was in the folder is deleted."""
        for name in (GROUP, TRAJECTORY):  # before the record: arrays beside a new record belong to it
            storage.remove(name)
        folder = cls(storage, identity, grid)
        folder.write()
        return folder

    def __repr__(self) -> str:
        done = self.grid.cells if self.status == "done" else self._cells_done()
        cells = f"{done} of {self.grid.cells} cell{'s' * (self.grid.cells != 1)} done"
        return f"<RunFolder {self.storage}: {self.identity.experiment}, {cells}>"

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
        require(self.storage.path is not None, f"{self.storage} is not a folder of this machine.")
        assert self.storage.path is not None
        return self.storage.path

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
        self.storage.write(RECORD, record_text(record).encode())

    @property
    def store(self) -> GridStore:
        """The results on disk."""
        return GridStore(self.storage, self.grid, self.metadata)

    @property
    def is_made(self) -> bool:
        """Whether there is something to write pieces into."""
        return bool(self.metadata) and bool(self.grid.values)

    def put(self, piece: Piece, dataset: xr.Dataset) -> None:
        """Keep a piece; the first one makes the arrays."""
        if not self.grid.values:
            self.storage.write(TRAJECTORY, as_netcdf(dataset))
            return
        attributes = {
            "experiment": self.identity.experiment,
            "config": json.dumps(self.identity.config, sort_keys=True),  # as run.json gives it back after a kill
            "source": self.identity.source,
        }
        self.store.write(piece, dataset, attributes)

    def note_arrays(self, metadata: dict[str, str]) -> None:
        """Record the arrays' metadata. Pieces count as done only from then on."""
        if metadata and not self.metadata:
            self.metadata = metadata
            self.write()

    def done(self) -> np.ndarray:
        """Which pieces are there and undamaged; a damaged one counts as absent."""
        if not self.grid.values:
            return np.array(self._trajectory() is not None)
        return self.store.sound() if self.is_made else np.zeros(self.grid.blocks, bool)

    def is_whole(self) -> bool:
        """Whether all is there and undamaged."""
        if self.status != "done" or (self.is_made and self.store.metadata() != self.metadata):
            return False
        return bool(self.done().all())

    def mend(self) -> None:
        """Before computing: put damaged metadata back, and clear up after killed processes.

        Arrays that a killed program made and had not recorded yet are kept, with their pieces.
        """
        self.storage.clear_up()
        if self.is_made and not self.storage.names(GROUP):
            self.metadata = {}  # of arrays that are gone
        self.note_arrays(self.store.listed_metadata())
        if self.is_made:
            self.store.mend_metadata(self.metadata)
        else:
            self.storage.remove(GROUP)

    def finish(self) -> None:
        """Note that every piece is there."""
        self.status = "done"
        self.write()

    def dataset(self) -> xr.Dataset:
        """All finished pieces as one trajectory. Each is checked first: another process may have changed the run."""
        if self.is_made and self.store.metadata() != self.metadata:
            raise DamagedFile(f"{self.storage} is damaged; run the same command again to compute what is missing.")
        done = self.done()
        if self.status == "done" and not done.all():
            missing = int(np.size(done) - np.count_nonzero(done))
            raise DamagedFile(
                f"{self.storage} has {missing} damaged or missing piece(s) of {np.size(done)}; run the same command "
                "again to compute them anew."
            )
        require(bool(done.any()), f"{self.storage} has no finished piece yet; run the same command again.")
        whole = self.store.dataset(done) if self.grid.values else self._trajectory()
        assert whole is not None
        notes = notes_of(whole)
        if self.status != "done":
            pieces = f"{np.count_nonzero(done)} of {done.size} pieces"
            notes.append(f"This run is not finished: {pieces} so far; the same command goes on with it.")
        whole.attrs.setdefault("config", json.dumps(self.identity.config, sort_keys=True))  # pieces differ in theirs
        return whole.assign_attrs({NOTES: json.dumps(notes)}) if notes else whole

    def _trajectory(self) -> xr.Dataset | None:
        content = self.storage.read(TRAJECTORY)
        try:
            return load_netcdf(content, str(self.storage / TRAJECTORY), ours=True) if content is not None else None
        except DamagedFile:
            return None


@contextmanager
def held(storage: Storage) -> Iterator[None]:
    """Hold the lock of a run folder: no other process computes it meanwhile, and the lock ends with this process.

    A process that finds it taken is refused and has changed nothing. Only folders of this machine have a lock: in an
    object store two programs that compute the same run write the same bits.
    """
    if storage.path is None:
        yield
        return
    path = storage.path
    for _ in range(100):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:  # there is a file, or another process has just taken its refused run back
            if path.exists():
                raise
            continue
        top = (path / name for name in (".", GROUP, TRAJECTORY, LOCK, RECORD))
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
        except (FileNotFoundError, FileExistsError):  # another process has just taken its refused run back
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


def take_back(storage: Storage, absent: list[Path]) -> None:
    """Remove a refused run, whose lock is held, and the folders above it that it made and are empty."""
    storage.clear_up()
    for name in (GROUP, TRAJECTORY, RECORD, LOCK):
        storage.remove(name)
    try:
        for folder in absent:
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
    storage = Storage.of(path)
    if storage.path is None or storage.path.is_dir():
        return RunFolder.open(storage).dataset()
    path = storage.path
    require(path.exists(), f"There is nothing at {path}; give the path of a .nc or .jsonl file or of a run folder.")
    return numbered(as_dataset(read_lines(path))) if path.suffix == ".jsonl" else load_file(path)


def describe(path: Path) -> Mapping[str, Any]:
    """What a run folder holds: experiment, arguments, code, versions, and whether it is complete."""
    folder = RunFolder.open(path)
    return {
        "experiment": folder.identity.experiment,
        "arguments": folder.identity.config,
        "code": folder.identity.source,
        "versions": folder.identity.versions,
        "complete": folder.status == "done",
    }
