"""The rules that are compared, each with the thresholds it may choose from and the step of its first alarm in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from benchmarks.early_warnings.published_rules import PUBLISHED, Candidate, Run
from foretrain.monitor.alarms import Thresholds, Watcher

HISTORY = 100  # steps of the running median of the gradient's norm


@dataclass(frozen=True)
class Rule:
    name: str
    grid: Mapping[str, tuple[float, ...]]  # every combination is a candidate
    first: Callable[[Candidate, Run], int | None]
    source: str = ""  # who published it; nothing for our own

    def candidates(self) -> list[Candidate]:
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


def _alarm(kind: str, part: str) -> Callable[[Candidate, Run], int | None]:
    """The first alarm of a kind. It needs one part of the records, and of matrices one measure: this saves time."""

    def first(candidate: Candidate, run: Run) -> int | None:
        watcher = Watcher(replace(Thresholds(), **candidate))  # type: ignore[arg-type]
        for record in run["records"]:
            needed = record.get(part, {})
            if part == "weights":
                needed = {name: {"stable_rank": measures["stable_rank"]} for name, measures in needed.items()}
            if any(alarm.kind == kind for alarm in watcher.update({"step": record["step"], part: needed})):
                return int(record["step"])
        return None

    return first


def with_every_step(run: Run) -> Run:
    """The run with losses and norms of gradients in its records, as the monitor writes them."""
    records, first = [], 0
    for record in run["records"]:
        after = int(record["step"]) + 1
        every = {"first": first, "loss": run["losses"][first:after], "gradient_norm": run["gradients"][first:after]}
        records.append({**record, "every_step": every})
        first = after
    return {**run, "records": records}


def _means(values: list[float], steps: int) -> np.ndarray:
    """Over the last so many steps; entry i is of step i + steps − 1."""
    finite = np.nan_to_num(np.asarray(values, dtype=float), nan=1e30, posinf=1e30)
    return np.convolve(finite, np.ones(steps) / steps, "valid") if len(finite) >= steps else np.array([])


def _first(holds: np.ndarray, offset: int) -> int | None:
    return int(np.argmax(holds)) + offset if holds.any() else None


def loss_slope(candidate: Candidate, run: Run) -> int | None:
    """A line through the last `steps` losses rises by more than `rise` of their mean from end to end."""
    steps = int(candidate["steps"])
    losses = np.nan_to_num(np.asarray(run["losses"], dtype=float), nan=1e30, posinf=1e30)
    if len(losses) < steps:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(losses, steps)
    time = np.arange(steps) - (steps - 1) / 2
    rise = windows @ time / (time @ time) * (steps - 1)
    return _first(rise > candidate["rise"] * windows.mean(-1), steps - 1)


def loss_above_least(candidate: Candidate, run: Run) -> int | None:
    """The mean of the last `steps` losses is above the least such mean so far by more than the share `rise`."""
    means = _means(run["losses"], int(candidate["steps"]))
    if not len(means):
        return None
    return _first(means > (1 + candidate["rise"]) * np.minimum.accumulate(means), int(candidate["steps"]) - 1)


def gradient_norm(candidate: Candidate, run: Run) -> int | None:
    """The mean norm of the last `steps` gradients is above `factor` times the median norm of the 100 steps before.

    There must be `history` such steps: at the start of training the norm changes in sound runs, too.
    """
    steps, norms = int(candidate["steps"]), np.asarray(run["gradients"], dtype=float)
    means = _means(run["gradients"], steps)
    for step in range(steps + int(candidate["history"]) - 1, len(norms)):
        before = norms[max(0, step - steps + 1 - HISTORY) : step - steps + 1]
        if means[step - steps + 1] > candidate["factor"] * np.median(before):
            return step
    return None


WARNINGS = [
    Rule(
        "loss above its least",
        {"loss_steps": (10, 20, 30), "loss_rise": (0.0, 0.01, 0.02, 0.03, 0.05)},
        _alarm("loss above its least", "every_step"),
    ),
    Rule(
        "entropy collapse",
        {"entropy_left": (0.02, 0.05, 0.1, 0.2), "entropy_growth": (1.0, 1.5, 2.0, 3.0)},
        _alarm("entropy collapse", "attention"),
    ),
    Rule(
        "runaway logits",
        {"logit_level": (50.0, 100.0, 200.0, 400.0), "logit_growth": (1.25, 2.0, 3.0, 5.0)},
        _alarm("runaway logits", "attention"),
    ),
    Rule(
        "rank collapse",
        {"rank_left": (0.05, 0.1, 0.2, 0.3), "rank_fall": (0.9, 0.7, 0.5)},
        _alarm("rank collapse", "weights"),
    ),
    Rule(
        "dead head",
        {"dead_entropy": (0.95, 0.98, 0.99, 0.995), "dead_others": (0.5, 0.7, 0.9)},
        _alarm("dead head", "attention"),
    ),
    Rule("attention sink", {"sink_share": (0.3, 0.5, 0.7, 0.9)}, _alarm("attention sink", "attention")),
]
BASELINES = [
    Rule("loss slope", {"steps": (20, 50, 100), "rise": (0.01, 0.02, 0.03, 0.05, 0.08)}, loss_slope),
    Rule(
        "loss above its least, at every step",
        {"steps": (5, 10, 20, 30), "rise": (0.01, 0.02, 0.03, 0.04, 0.05, 0.07)},
        loss_above_least,
    ),
    Rule(
        "gradient norm, at every step",
        {"steps": (1, 5, 20), "factor": (1.25, 1.5, 2.0, 3.0, 5.0), "history": (20, 100)},
        gradient_norm,
    ),
    *(Rule(name, grid, first, source) for name, source, grid, first in PUBLISHED),
]
AT_START = ("RKSP, before training",)  # it knows no step, so an alarm of its is never before the cause
NOTICES = ("dead head", "attention sink")  # normal in sound models; whatever this benchmark says, they stay notices
