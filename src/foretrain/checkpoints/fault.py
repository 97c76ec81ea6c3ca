"""Checks whether a series of checkpoints is sound, from the records of what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """Something wrong with a checkpoint: what kind, in which checkpoint and where, and a sentence for people."""

    kind: str
    checkpoint: str
    where: str  # "all", or the tensors, files or settings concerned
    sentence: str
    others: tuple[str, ...] = ()  # the other checkpoints concerned


def listed(names: Iterable[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
