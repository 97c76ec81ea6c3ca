"""Compares two monitored runs: their losses and their attention, and the first step at which they differ."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from foretrain.checkpoints.record_file import is_analysis, read_records
from foretrain.checkpoints.sentences import shown
from foretrain.core.errors import require
from foretrain.runs.training_log import as_dataset, read_lines


@dataclass(frozen=True)
class RunComparison:
    """How two monitored runs differ at the steps that both measured; pairs are (A, B)."""

    names: tuple[str, str]
    steps: list[int]  # measured in both
    first_difference: int | None  # the first of these steps at which anything differs
    differing: str  # what differs most there, relative to its size
    losses: tuple[float, float] | None  # at the last shared step
    entropies: dict[str, tuple[float, float]]  # by layer, means over heads at the last shared step

    @property
    def summary(self) -> str:
        """A few sentences."""
        a, b = self.names
        if self.first_difference is None:
            return f"{a} and {b} are the same at all {len(self.steps)} steps that both measured."
        parts = [
            f"{a} and {b} differ from step {shown(self.first_difference)} on, there most of all in {self.differing}."
        ]
        if self.losses is not None:
            one, other = self.losses
            if one == other:
                parts.append(f"At step {shown(self.steps[-1])} both have the loss {shown(one)}.")
            else:
                better = a if one < other else b
                losses = f"{shown(one)} and {shown(other)}"
                parts.append(f"At step {shown(self.steps[-1])} the losses are {losses}; {better} is lower.")
        if self.entropies:
            layer, (one, other) = max(self.entropies.items(), key=lambda item: abs(item[1][0] - item[1][1]))
            parts.append(f"Entropy differs most in {layer}: {shown(one)} and {shown(other)} nats.")
        return " ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        kept = ("names", "summary", "steps", "first_difference", "losses", "entropies")
        return {name: getattr(self, name) for name in kept}


def compare_runs(a: Path, b: Path) -> RunComparison:
    """Compare two files that a Monitor wrote, or two analyses."""
    for path in (a, b):
        require(path.is_file(), f"There is no file {path}.")
    one, other = (_dataset(path) for path in (a, b))
    steps = sorted(set(one["step"].values.tolist()) & set(other["step"].values.tolist()))
    require(bool(steps), f"{a} and {b} have no measured step in common.")
    names = (a.stem, b.stem) if a.stem != b.stem else (str(a), str(b))
    one, other = one.sel(step=steps), other.sel(step=steps)
    differences = _differences(one, other)  # [step, variable]
    differs = [index for index in range(len(steps)) if any(values[index] > 0 for values in differences.values())]
    first = differs[0] if differs else None
    what = max(differences, key=lambda name: differences[name][first]) if first is not None else ""
    losses = [float(run["loss"][-1]) for run in (one, other)]
    return RunComparison(
        names,
        steps,
        None if first is None else steps[first],
        what.replace("_", " "),
        (losses[0], losses[1]) if np.isfinite(losses).all() else None,
        _entropies(one, other),
    )


def _dataset(path: Path) -> xr.Dataset:
    analysed = sorted(read_records(path).values(), key=lambda record: record["step"]) if is_analysis(path) else None
    records = read_lines(path) if analysed is None else analysed
    require(bool(records), f"{path} has no record of a measured step.")
    return as_dataset(records)


def _differences(one: xr.Dataset, other: xr.Dataset) -> dict[str, np.ndarray]:
    """For each variable that both have, the largest relative difference at each step."""
    differences = {}
    for name in one.data_vars:
        if name in other:
            x, y = xr.align(one[name], other[name], join="inner")
            size = xr.where(abs(x) > abs(y), abs(x), abs(y))
            gap = abs(x - y) / size.where(size > 0, 1.0)
            if gap.size == 0:
                continue  # no layer, or no matrix, that both have
            axes = [axis for axis in gap.dims if axis != "step"]
            differences[str(name)] = np.nan_to_num((gap.max(axes) if axes else gap).values)
    return differences


def _entropies(one: xr.Dataset, other: xr.Dataset) -> dict[str, tuple[float, float]]:
    if "attention_entropy" not in one or "attention_entropy" not in other:
        return {}
    x, y = (run["attention_entropy"].isel(step=-1).mean("head") for run in (one, other))
    layers = [layer for layer in x["layer"].values.tolist() if layer in y["layer"].values.tolist()]
    return {layer: (float(x.sel(layer=layer)), float(y.sel(layer=layer))) for layer in layers}
