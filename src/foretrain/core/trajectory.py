"""What a run leaves behind: an `xarray.Dataset` with named axes, and how it gets to disk and back.

Theory, simulation, a training run and a monitored model all give one. Files are netCDF, which any scientist can open,
and end with a digest of their contents, so that damage is noticed. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from foretrain.core.decompression import require_unpacked
from foretrain.core.errors import DamagedFile, InputError, require
from foretrain.core.files import plain, write_bytes

# After the netCDF contents, where readers of netCDF do not look: this word and the sha256 of everything before it.
SEAL = b"\nforetrain-sha256:"
ORIGIN = "origin"  # attribute of an exported file: what computed it, with which code and versions, and when
NOTES = "notes"  # attribute with the warnings given while a trajectory was computed


def trajectory(
    variables: Mapping[str, Any],
    coords: Mapping[str, Any] | None = None,
    units: Mapping[str, str] | None = None,
    **config: Any,
) -> xr.Dataset:
    """A Dataset with `units` on its variables and `config` (anything that can be written as JSON) in its attributes."""
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
    write_bytes(path, as_netcdf(dataset))
    return path


def as_netcdf(dataset: xr.Dataset) -> bytes:
    """The contents of a netCDF file with a seal."""
    content = bytes(dataset.to_netcdf(engine="h5netcdf"))  # in memory: HDF5 crashes on a full disk
    return content + SEAL + hashlib.sha256(content).hexdigest().encode()


def _is_hdf5(content: bytes) -> bool:
    return content.startswith(b"\x89HDF")


def load_file(path: str | Path) -> xr.Dataset:
    """Read a trajectory back from a netCDF file; `foretrain.load` opens run folders too."""
    path = Path(path)
    require(path.is_file(), f"There is no file at {path}; give the path of a .nc file.")
    return load_netcdf(path.read_bytes(), str(path))


def load_netcdf(whole: bytes, path: str, *, ours: bool = False) -> xr.Dataset:
    """A trajectory from the contents of a netCDF file. DamagedFile, naming `path`, if they are damaged.

    Files of other programs have no digest; one that is `ours` must.
    """
    content, seal, digest = whole.rpartition(SEAL)
    if (seal or ours) and digest != hashlib.sha256(content).hexdigest().encode():
        raise DamagedFile(f"{path} is damaged: its contents do not match their digest; run what made it again.")
    try:
        # xarray adds a filter for a warning of its own to those of the process; they are set back afterwards
        with warnings.catch_warnings(), xr.open_dataset(io.BytesIO(whole), engine="h5netcdf") as opened:
            require_unpacked(path, opened.nbytes, len(whole))
            dataset = opened.load()
    except InputError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        what = "is damaged: it begins like a netCDF file, but cannot be read" if _is_hdf5(whole) else "is not netCDF"
        raise DamagedFile(f"{path} {what}; give a .nc file or the folder of a run that foretrain wrote.") from error
    return dataset.drop_encoding()  # lengths of strings, chunks: they belong to the file, not to the numbers
