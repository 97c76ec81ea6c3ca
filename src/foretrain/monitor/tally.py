"""Numbers that are measured on the device and read by the host once per record.

A `Tally` holds what can be put together from several blocks, passes and processes: sums, and largest values. What is
recorded follows from these on the host, after they have been read: a mean, for instance, from a sum and a count.

    tally = Tally({"total": x.sum(), "count": ones.sum()}, {"top": x.amax()}, finish)
    readings.add("attention", "blocks.0.attention", tally)     # a second tally of this name is added to the first
    readings.read()  ->  {"attention": {"blocks.0.attention": finish({"total": …, "count": …, "top": …})}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from foretrain.monitor.guard import Guard, no_guard

Arrays: TypeAlias = Mapping[str, np.ndarray]  # what a tally held, by name, in float64
Measures: TypeAlias = dict[str, Any]  # measure -> a number, or a list of numbers: per head, per expert
Key: TypeAlias = tuple[str, str, str]  # part of the record, name, field of the tally
Fields: TypeAlias = dict[Key, Tensor]
Combine: TypeAlias = Callable[[Fields, Fields], tuple[Fields, Fields]]  # of sums and largest values


@dataclass(frozen=True)
class Tally:
    """Sums and largest values on the device, and what to make of them on the host."""

    sums: Mapping[str, Tensor]  # each process has its part; they are added
    largest: Mapping[str, Tensor]  # each process has its part; the largest counts
    finish: Callable[[Arrays], Measures]
    local: Mapping[str, Tensor] = field(default_factory=dict)  # the same in every process, or of interest here only
    needs_all: bool = False  # whether the sums mean nothing unless those of all processes are added

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

    def of(self, part: str) -> dict[str, Tally]:
        """The tallies of one part of the record, by name."""
        return {name: tally for (kind, name), tally in self.tallies.items() if kind == part}

    def read(self, combine: Combine | None = None, guard: Guard = no_guard) -> dict[str, dict[str, Measures]]:
        """Everything by part and name, read from the device in one go.

        `combine` puts together what several processes have measured; without it, tallies that need all processes are
        left out. An error in one tally costs no other.
        """
        (sums, largest), local = self.fields(), self._fields("local")
        if combine is not None:
            sums, largest = combine(sums, largest)
        arrays = read_once({**sums, **largest, **local})
        parts: dict[str, dict[str, Measures]] = {}
        for (part, name), tally in self.tallies.items():
            if tally.needs_all and combine is None:
                continue
            with guard(f"read the {part}"):
                fields = (*tally.sums, *tally.largest, *tally.local)
                parts.setdefault(part, {})[name] = tally.finish({field: arrays[part, name, field] for field in fields})
        return parts

    def fields(self) -> tuple[Fields, Fields]:
        """All sums and all largest values."""
        return self._fields("sums"), self._fields("largest")

    def _fields(self, kind: str) -> Fields:
        return {
            (part, name, field): value
            for (part, name), tally in self.tallies.items()
            for field, value in getattr(tally, kind).items()
        }


def read_once(tensors: Fields) -> dict[Key, np.ndarray]:
    """Tensors as arrays of float64. Those of one device are read together, so this waits once for each device."""
    by_device: dict[torch.device, list[Key]] = {}
    for key, tensor in tensors.items():
        by_device.setdefault(tensor.device, []).append(key)
    arrays: dict[Key, np.ndarray] = {}
    for device, keys in by_device.items():
        values = flat(tensors[key] for key in keys) if keys else torch.empty(0, device=device)
        numbers = np.array(values.tolist())
        ends = np.cumsum([tensors[key].numel() for key in keys])
        for key, end in zip(keys, ends, strict=True):
            shape = tuple(tensors[key].shape)
            arrays[key] = numbers[end - tensors[key].numel() : end].reshape(shape)
    return arrays


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """All numbers in one vector, in float64 where the device has it."""
    pieces = [tensor.detach().reshape(-1) for tensor in tensors]
    wide = torch.float32 if pieces and pieces[0].device.type == "mps" else torch.float64
    return torch.cat([piece.to(wide) for piece in pieces])
