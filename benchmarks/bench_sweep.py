"""Sweeps: what 10 000 small cells cost beyond their computation, how long the result takes to open, and how both grow.

The baseline is what sweeps did before: one netCDF file per cell, timed here on a few hundred cells.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xarray as xr

from benchmarks import Measured, cpu_seconds
from benchmarks.memory import peak_of
from foretrain.api.sweep import sweep
from foretrain.core.trajectory import load_file, save, trajectory
from foretrain.runs.run_folder import load

SIZES = (100, 1000, 10_000)
FILES = 200
REPEATS = 3  # the median of which counts: the first one also imports zarr


def small(rate: float, seed: int) -> xr.Dataset:
    """A number, a curve of 20 and a count, at once."""
    curve = np.exp(-rate * np.arange(20.0)) * seed
    return trajectory(
        {"final": curve[-1], "curve": ("time", curve), "steps": seed % 7}, {"time": list(range(20))}, rate_is=rate > 0
    )


def measure() -> Iterator[Measured]:
    with TemporaryDirectory() as folder:
        written, opened = _files(Path(folder) / "files")
        costs = {cells: _sweep(Path(folder) / str(cells), cells) for cells in SIZES}
        most = costs[SIZES[-1]]
        yield Measured(
            "sweep of 10 000 cells, beyond the computation", 1e3 * most["overhead"] / SIZES[-1], 3, unit="ms per cell",
            at_most=True, detail=f"the computation itself {1e3 * most['computing'] / SIZES[-1]:.2f} ms",
        )  # fmt: skip
        yield Measured(
            "the same against one netCDF file per cell, written", written * SIZES[-1] / most["overhead"], 10,
            detail=f"{1e3 * written:.1f} ms per cell, {FILES} cells timed",
        )  # fmt: skip
        yield Measured(
            "the same against one netCDF file per cell, loaded", opened * SIZES[-1] / most["opening"], 10,
            detail=f"{1e3 * opened:.1f} ms per cell, {FILES} cells timed",
        )  # fmt: skip
        yield Measured(
            "opening all 10 000 cells",
            most["opening"],
            2,
            unit="s",
            at_most=True,
            detail="CPU seconds of foretrain.load, checksums included",
        )
        for what in ("overhead", "opening"):
            power = np.polyfit(np.log(SIZES), np.log([costs[cells][what] for cells in SIZES]), 1)[0]
            yield Measured(
                f"power of the number of cells in the {what}", float(power), 1.1, unit="", at_most=True,
                detail=", ".join(f"{cells}: {costs[cells][what]:.2f} s" for cells in SIZES),
            )  # fmt: skip
    yield Measured("memory of the whole process, 10 000 cells", _memory(), 1.0, unit="GB", at_most=True)


def _sweep(root: Path, cells: int) -> dict[str, float]:
    side = math.isqrt(cells)
    grid = {"rate": np.linspace(0.1, 1, side).tolist(), "seed": list(range(1, cells // side + 1))}

    def computed() -> None:
        for rate in grid["rate"]:
            for seed in grid["seed"]:
                small(rate, int(seed))

    computing = cpu_seconds(computed, REPEATS)
    whole = cpu_seconds(lambda: sweep(small, grid=grid, out=root / f"{time.monotonic_ns()}"), REPEATS)
    path = sweep(small, grid=grid, out=root / "kept").path
    return {"computing": computing, "overhead": whole - computing, "opening": cpu_seconds(lambda: load(path), REPEATS)}


def _files(folder: Path) -> tuple[float, float]:
    """CPU seconds per cell to write and to load one netCDF file per cell."""
    paths = [folder / f"{number}.nc" for number in range(FILES)]
    cells = [small(0.5, number).expand_dims(seed=[number]) for number in range(FILES)]
    writing = cpu_seconds(lambda: [save(cell, path) for cell, path in zip(cells, paths, strict=True)])
    loading = cpu_seconds(lambda: xr.combine_by_coords([load_file(path) for path in paths]))
    return writing / FILES, loading / FILES


def _memory() -> float:
    """Peak memory in GB of a process that runs and opens the whole sweep."""
    code = (
        "import tempfile\n"
        "from benchmarks.bench_sweep import small, sweep, load\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    grid = {'rate': [.1 + k / 100 for k in range(100)], 'seed': range(1, 101)}\n"
        "    load(sweep(small, grid=grid, out=folder).path)\n"
    )
    return peak_of(code) / 1e9
