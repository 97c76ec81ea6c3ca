"""An alarm read off the loss at every step, which shows trouble that attention does not.

    loss above its least   the median of the last losses is above the least such median so far

A record holds the values of all steps since the record before it, `{"every_step": {"first": 41, "loss": [...],
"gradient_norm": [...]}}`; without this part, the one loss of the record is used. Values that are missing or not finite
are passed over here: "not a number" is an alarm of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import inf, isfinite, log, nan, sqrt
from statistics import median
from typing import Any

from foretrain.runs.training_log import Record

REMEMBERED = 100  # losses that their noise is estimated from


def values_of(record: Record, name: str) -> list[tuple[int, float]]:
    """(step, value) for every step since the last record: of "loss", or of "gradient_norm". A value that is missing is
    left out; one that is not a number is nan."""
    step, every = int(record["step"]), record.get("every_step")
    if isinstance(every, Mapping) and isinstance(every.get(name), list | tuple):
        first = int(every.get("first", step - len(every[name]) + 1))
        numbers = [(first + place, _number(value)) for place, value in enumerate(every[name]) if value is not None]
        return [(at, value) for at, value in numbers if at <= step]
    if record.get(name) is None or isinstance(every, Mapping):
        return []
    return [(step, _number(record[name]))]


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return nan


@dataclass(frozen=True)
class Rise:
    """The loss is above its least: `low` at step `since` was the least median, and `high` is that at `step`."""

    since: int
    low: float
    step: int
    high: float


@dataclass
class LossAboveLeast:
    """Takes one loss after another: is their median over `steps` values above the least so far?

    A median, because one bad batch is no rise. It must be above the least by the share `rise`, and by more than noise
    explains. Of n losses that are only noise, there are about n/steps independent medians, and the largest exceeds the
    least by about 2·√ln(n/steps) standard errors of a difference; `noise` is how many more are needed. With 2, pure
    noise of 500 and of 5000 steps set off an alarm in 2 and 3 % of 200 and 60 simulations, with `rise` 0. So neither a
    loss close to zero nor a long plateau does.
    """

    steps: int
    rise: float
    noise: float
    last: deque[tuple[int, float]] = field(default_factory=deque)
    low: float = inf
    low_at: int = 0
    seen: int = 0

    def add(self, step: int, loss: float) -> Rise | None:
        self.seen += 1
        while self.last and self.last[-1][0] >= step:
            self.last.pop()  # a resumed training repeats steps
        if not isfinite(loss):
            return None
        self.last.append((step, loss))
        if len(self.last) > max(self.steps, REMEMBERED):
            self.last.popleft()
        if len(self.last) < self.steps:
            return None
        middle = median(value for _, value in islice(reversed(self.last), self.steps))
        if middle < self.low:
            self.low, self.low_at = middle, step
        above = middle - self.low
        if above <= self.rise * abs(self.low):
            return None
        errors = self.noise + 2 * sqrt(log(max(1.0, self.seen / self.steps)))
        noisy = above <= errors * _standard_error([value for _, value in self.last], self.steps)
        return None if noisy else Rise(self.low_at, self.low, step, middle)


def _standard_error(values: list[float], steps: int) -> float:
    """Of the difference of two medians over so many steps: from the median jump between steps, which neither a slow
    trend nor a few large jumps change much, as if losses were normal and independent."""
    jump = median(abs(new - old) for old, new in pairwise(values)) if len(values) > 1 else 0.0
    return 1.25 * 1.48 * jump / sqrt(steps)
