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

from foretrain.core.errors import require, require_known
from foretrain.core.files import write_bytes, write_text
from foretrain.core.tables import csv_text
from foretrain.core.trajectory import ORIGIN, save
from foretrain.runs.stored import describe, load

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
        if axis in table and _coordinates(dataset, axis).dtype.kind in "iu":
            table[axis] = table[axis].astype("Int64")  # keeps whole numbers whole in a column with empty cells
    return table.reindex(columns=["variable", *axes, *(c for c in ("value", "text") if c in table)])


def _coordinates(dataset: xr.Dataset, axis: Hashable) -> np.ndarray:
    return dataset[axis].values if axis in dataset.coords else np.arange(dataset.sizes[axis])


def export_run(run: Path, to: str, out: Path) -> str:
    """Write a run folder or .nc file in the format `to`, and return a description of what was written."""
    require_known("kind of file", to, ENDINGS)
    require(out.resolve() != run.resolve(), f"{out} is the run itself; choose another --out.")
    dataset = load(run)
    if to == "netcdf":
        if run.is_dir():
            dataset = dataset.assign_attrs({ORIGIN: json.dumps(_origin(run))})
        save(dataset, out)
        return f"{len(dataset.data_vars)} variables over {', '.join(map(str, dataset.sizes)) or 'no axis'}"
    table = long_table(dataset)
    if to == "csv":
        write_text(out, csv_text(table))
    else:
        require_parquet()
        write_bytes(out, table.to_parquet(index=False, engine="pyarrow"))
    return f"{len(table)} rows"


def _origin(run: Path) -> dict[str, Any]:
    """What was computed, with which code and versions, and today's date."""
    return {**describe(run), "exported": datetime.now(UTC).date().isoformat()}


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
