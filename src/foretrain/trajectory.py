"""What a run leaves behind: an `xarray.Dataset` with named axes, and how it gets to disk and back.

Theory, simulation, a training run and a monitored model all give one. Files are netCDF: any scientist
opens them. A file is written under a temporary name, flushed and renamed, so it is whole or absent, and
ends with a digest of its contents, so damage is noticed. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from foretrain.errors import DamagedFile, InputError, require

# Behind the netCDF contents, where readers of netCDF do not look: this word and the sha256 of what is before it.
SEAL = b"\nforetrain-sha256:"
NOTES = "notes"  # attribute with the warnings given while a trajectory was computed


def trajectory(
    variables: Mapping[str, Any],
    coords: Mapping[str, Any] | None = None,
    units: Mapping[str, str] | None = None,
    **config: Any,
) -> xr.Dataset:
    """A Dataset with `units` on its variables and `config` (anything JSON can say) in its attributes."""
    listed = {
        k: list(v) if isinstance(v, tuple) and v and not isinstance(v[0], str) else v for k, v in (coords or {}).items()
    }
    dataset = xr.Dataset(dict(variables), coords=listed)  # xarray reads a tuple as (axes, values)
    for name, unit in (units or {}).items():
        dataset[name].attrs["units"] = unit
    dataset.attrs["config"] = json.dumps(config, default=plain)
    return dataset


def config_of(dataset: xr.Dataset) -> dict[str, Any]:
    """The configuration a trajectory was made with."""
    return dict(json.loads(dataset.attrs.get("config", "{}")))


def notes_of(dataset: xr.Dataset) -> list[str]:
    """The warnings given while a trajectory was computed, such as runs that diverged."""
    return [str(note) for note in json.loads(dataset.attrs.get(NOTES, "[]"))]


def save(dataset: xr.Dataset, path: str | Path) -> Path:
    """Write a trajectory to `path` (netCDF), whole or not at all."""
    path = Path(path)

    def write(temporary: Path) -> None:
        dataset.to_netcdf(temporary, engine="h5netcdf")
        blob = temporary.read_bytes()
        temporary.write_bytes(blob + SEAL + hashlib.sha256(blob).hexdigest().encode())

    write_whole(path, write)
    return path


def load(path: str | Path) -> xr.Dataset:
    """Read a trajectory back from a file, or all finished shards of a run folder as one."""
    path = Path(path)
    require(path.exists(), f"There is nothing at {path}; give the path of a .nc file or of a run folder.")
    if path.is_dir():
        from foretrain.runfolder import RunFolder

        return RunFolder.open(path).dataset()
    blob, seal, digest = path.read_bytes().rpartition(SEAL)
    if seal and digest != hashlib.sha256(blob).hexdigest().encode():
        raise DamagedFile(f"{path} is damaged: its contents do not match their digest; delete it and run again.")
    try:
        h5py.File(path).close()
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DamagedFile(
            f"{path} is not a readable netCDF file ({type(error).__name__}); delete it and run again."
        ) from error
    dataset.encoding = {}
    return dataset


def sha256_of(path: Path) -> str:
    """The sha256 of a file's contents."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write(temporary)` beside `path`, flush it to disk, then rename it into place."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except OSError as error:
        raise InputError(f"Cannot write to {path.parent}: {error.strerror}; choose another place.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("r+b") as written:  # Windows flushes only what may be written
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except IsADirectoryError as error:
        raise InputError(f"Cannot write {path}: it is a folder; give the name of a file.") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def plain(value: Any) -> Any:
    """What JSON cannot say by itself: numpy numbers and arrays, paths, tuples inside objects."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | xr.DataArray):
        return np.asarray(value).tolist()
    if isinstance(value, range | set | frozenset):
        return list(value)
    return str(value)
