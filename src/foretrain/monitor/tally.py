"""Numbers that are measured on the device and read by the host once per record.

A `Tally` holds what can be put together from several blocks, passes and processes: sums, and largest values. What is
recorded follows from these on the host, after they have been read: a mean, for instance, from a sum and a count.

    tally = Tally({"total": x.sum(), "count": ones.sum()}, {"top": x.amax()}, finish)
    readings.add("attention", "blocks.0.attention", tally)     # a second tally of this name is added to the first
    readings.read()  ->  {"attention": {"blocks.0.attention": finish({"total": …, "count": …, "top": …})}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

Arrays: TypeAlias = Mapping[str, np.ndarray]  # what a tally held, by name, in float64
Measures: TypeAlias = dict[str, Any]  # measure -> a number, or a list of numbers: per head, per expert


@dataclass(frozen=True)
class Tally:
    """Sums and largest values on the device, and what to make of them on the host."""

    sums: Mapping[str, Tensor]
    largest: Mapping[str, Tensor]
    finish: Callable[[Arrays], Measures]
    shared: bool = True  # whether every process adds its own part; False where all of them hold the same

    def __add__(self, other: Tally) -> Tally:
        return replace(
            self,
            sums={name: value + other.sums[name] for name, value in self.sums.items()},
            largest={name: torch.maximum(value, other.largest[name]) for name, value in self.largest.items()},
        )


@dataclass
class Readings:
    """All tallies of one record, by part of the record ("attention", "weights", …) and by name within that part."""

    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)

    def add(self, part: str, name: str, tally: Tally) -> None:
        """Keep a tally; one that is kept under the same name already is added to."""
        known = self.tallies.get((part, name))
        self.tallies[part, name] = tally if known is None else known + tally

    def drop(self, part: str) -> None:
        """Forget what was measured for this part of the record."""
        self.tallies = {place: tally for place, tally in self.tallies.items() if place[0] != part}

    def read(self) -> dict[str, dict[str, Measures]]:
        """Everything by part and name, read from the device in one go."""
        raise NotImplementedError
