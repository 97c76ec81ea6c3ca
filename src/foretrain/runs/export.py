"""Converts a run for other tools: one netCDF file, or a long table for tools without labelled axes."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Hashable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from foretrain.core.errors import require
from foretrain.core.files import write_bytes, write_text
from foretrain.core.tables import csv_text
from foretrain.core.trajectory import ORIGIN, save
from foretrain.runs.run_folder import describe, load

ENDINGS = {"netcdf": ".nc", "csv": ".csv", "parquet": ".parquet"}


def long_table(dataset: xr.Dataset) -> pd.DataFrame:
    """One row per cell of every variable: the variable's name, the cell's coordinate on each axis, and its value.

    The coordinate is empty on axes that the variable does not have; an axis without coordinates is numbered from 0.
    Numbers go into the column `value`, words into the column `text`.
    """
    axes = [str(axis) for axis in dataset.sizes]
    parts = []
    for name, variable in dataset.data_vars.items():
        grid = np.meshgrid(*(_coordinates(dataset, axis) for axis in variable.dims), indexing="ij")
        columns = {str(axis): coordinates.ravel() for axis, coordinates in zip(variable.dims, grid, strict=True)}
        cells = variable.values.ravel()
        content = {"value": cells.astype(float)} if variable.dtype.kind in "fiub" else {"text": cells}
        parts.append(pd.DataFrame({"variable": str(name), **columns, **content}, index=range(variable.size)))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"variable": []})
    for axis in axes:
        if axis in table and _coordinates(dataset, axis).dtype.kind in "iu":
            table[axis] = table[axis].astype("Int64")  # keeps whole numbers whole in a column with empty cells
    return table.reindex(columns=["variable", *axes, *(c for c in ("value", "text") if c in table)])


def _coordinates(dataset: xr.Dataset, axis: Hashable) -> np.ndarray:
    return dataset[axis].values if axis in dataset.coords else np.arange(dataset.sizes[axis])


def export_run(run: Path, to: str) -> Path:
    """Write a run folder or .nc file in another format, and return the file.

    `to` is netcdf, csv or parquet, for a file in the current folder, or the name of a .nc, .csv or .parquet file.
    """
    file = table_file(to, run)
    require(file.resolve() != run.resolve(), f"{file} is the run itself; choose another name.")
    dataset = load(run)
    if file.suffix == ".nc":
        save(dataset.assign_attrs({ORIGIN: json.dumps(_origin(run))}) if run.is_dir() else dataset, file)
    elif file.suffix == ".csv":
        write_text(file, csv_text(long_table(dataset)))
    else:
        write_bytes(file, long_table(dataset).to_parquet(index=False, engine="pyarrow"))
    return file


def table_file(to: str, run: Path) -> Path:
    """The file that `to` means: one in the current folder for a kind, named after the run, or else the file itself."""
    if to in ENDINGS:
        # runs/scan_snap/fig6/0123456789ab becomes scan_snap_fig6_0123456789ab.csv
        parts = run.resolve().parts[-3:] if run.is_dir() else (run.stem,)
        file = Path(re.sub(r"[^A-Za-z0-9_.-]", "_", "_".join(parts)) + ENDINGS[to])
    else:
        file = Path(to)
        require(
            file.suffix in ENDINGS.values(),
            f"--to takes {', '.join(ENDINGS)}, or a file that ends in {', '.join(ENDINGS.values())}; got {to!r}.",
        )
    if file.suffix == ".parquet":
        require(
            importlib.util.find_spec("pyarrow") is not None,
            "parquet needs pyarrow, which is not installed; install it, or export to csv.",
        )
    return file


def _origin(run: Path) -> dict[str, Any]:
    """What was computed, with which code and versions, and today's date."""
    return {**describe(run), "exported": datetime.now(UTC).date().isoformat()}
