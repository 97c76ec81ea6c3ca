"""What was measured of a series, before anything is said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import xarray as xr

from foretrain.checkpoints.fault import Fault, Record
from foretrain.runs.layer_numbers import numbered
from foretrain.runs.training_log import as_dataset


@dataclass(frozen=True)
class Measured:
    """The records of a series. `faults` begins with the checkpoints that could not be measured."""

    name: str
    records: list[Record]
    faults: list[Fault]
    unmeasured: list[int]  # steps of the checkpoints that could not be measured
    file: Path  # where the records are kept
    notes: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every checkpoint was measured."""
        return not self.unmeasured

    @property
    def total(self) -> int:
        """How many checkpoints there are, measured or not."""
        return len(self.records) + len(self.unmeasured)

    @cached_property
    def by_name(self) -> xr.Dataset:
        """Everything measured, with layers under the names that they have in the model."""
        return as_dataset(self.records)

    @property
    def dataset(self) -> xr.Dataset:
        """Everything measured, over (step, matrix) and (step, layer, head).

        Layers that differ in one number are labelled by it, so that `sel(layer=0)` is the first; what they are called
        in the model is in `layer_name`.
        """
        return numbered(self.by_name)
