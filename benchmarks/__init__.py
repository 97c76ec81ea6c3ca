"""Ratios against baselines timed in the same run: `make bench`.

Every `bench_*.py` in this folder has a function `measure()` that yields `Measured`, and is run without being listed
anywhere. Times are CPU seconds of one thread, because other programs may be running too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Measured:
    """One number, and the bound it must meet."""

    name: str
    value: float
    required: float | None  # None: for information only
    unit: str = "x"
    at_most: bool = False  # the requirement is an upper bound
    detail: str = ""  # what was timed, in seconds

    @property
    def ok(self) -> bool:
        if self.required is None:
            return True
        return self.value <= self.required if self.at_most else self.value >= self.required

    def row(self) -> tuple[str, str, str, str, str]:
        measured = f"{self.value:.4g} {self.unit}"
        if self.required is None:
            return (self.name, measured, "", "", self.detail)
        bound = f"{'≤' if self.at_most else '≥'} {self.required:g} {self.unit}"
        return (self.name, measured, bound, "ok" if self.ok else "MISS", self.detail)


def cpu_seconds(function: Callable[[], object], repeats: int = 1) -> float:
    """Median CPU time of a call."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return median(times)
