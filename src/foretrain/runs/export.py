"""Hands trajectories on: one netCDF file, or a long table for tools that know no axes."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Hashable
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from foretrain.core.errors import require, require_known
from foretrain.core.files import write_bytes, write_text
from foretrain.core.trajectory import save
from foretrain.runs.stored import load

ENDINGS = {"netcdf": ".nc", "csv": ".csv", "parquet": ".parquet"}


def long_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row per cell of every variable: its name, its place on each axis (empty where it has none), its value.

    An axis without coordinates is counted from 0. Words go into a column `text`, numbers into `value`.
    """
    axes = [str(axis) for axis in dataset.sizes]
    parts = []
    for name, variable in dataset.data_vars.items():
        grid = np.meshgrid(*(_places(dataset, axis) for axis in variable.dims), indexing="ij")
        columns = {str(axis): places.ravel() for axis, places in zip(variable.dims, grid, strict=True)}
        words = variable.dtype.kind not in "fiub"
        cells = variable.values.ravel()
        parts.append(
            pd.DataFrame(
                {
                    "variable": str(name),
                    **columns,
                    "text" if words else "value": cells if words else cells.astype(float),
                },
                index=range(variable.size),
            )
        )
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"variable": []})
    for axis in axes:
        if axis in table and _places(dataset, axis).dtype.kind in "iu":
            table[axis] = table[axis].astype("Int64")  # stays whole where some rows have no place on the axis
    return table.reindex(columns=["variable", *axes, *(c for c in ("value", "text") if c in table)])


def _places(dataset: xr.Dataset, axis: Hashable) -> np.ndarray:
    return dataset[axis].values if axis in dataset.coords else np.arange(dataset.sizes[axis])


def export_run(run: Path, to: str, out: Path) -> str:
    """Write a run folder or .nc file as `to`; says in words what was written."""
    require_known("kind of file", to, ENDINGS)
    require(out.resolve() != run.resolve(), f"{out} is what is to be exported; choose another --out.")
    dataset = load(run)
    if to == "netcdf":
        save(dataset, out)
        return f"{len(dataset.data_vars)} variables over {', '.join(map(str, dataset.sizes)) or 'no axis'}"
    table = long_table(dataset)
    if to == "csv":
        write_text(out, table.to_csv(index=False))
    else:
        require_parquet()
        write_bytes(out, table.to_parquet(index=False, engine="pyarrow"))
    return f"{len(table)} rows"


def require_parquet() -> None:
    require(
        importlib.util.find_spec("pyarrow") is not None,
        "parquet needs pyarrow, which is not installed; install it, or export --to csv.",
    )


def default_name(run: Path, to: str) -> str:
    """`runs/scan_snap/fig6/0123456789ab` -> `scan_snap_fig6_0123456789ab.csv`, in the current folder."""
    require_known("kind of file", to, ENDINGS)
    parts = run.resolve().parts[-3:] if run.is_dir() else (run.stem,)
    return re.sub(r"[^A-Za-z0-9_.-]", "_", "_".join(parts)) + ENDINGS[to]
