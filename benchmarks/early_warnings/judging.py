"""Labels runs by what their loss did, chooses thresholds on one half of them, and judges rules on fresh runs.

The other half was meant to judge. But rules were changed after it was seen, so its numbers are kept only to compare.

The loss shows trouble at the first step at which its mean over the last 20 steps is more than 10 % above the least such
mean so far, if this then lasts for 30 steps or the loss becomes infinite or undefined before that, whatever the run was
meant to be. A run that was meant to go well and shows no trouble is sound. One that was meant to go wrong and shows
none is neither: its fault is at work, so an alarm is not false, and its loss is not high, so nothing is missed.

A warning is in time if its first alarm comes before that step, and not before the cause: where the rate begins to grow
at step 300, an alarm at step 200 is luck. An alarm in a sound run is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb, isfinite, sqrt
from statistics import NormalDist, median
from typing import Any, TypeVar

import numpy as np

from benchmarks.early_warnings.settings import EVERY

SMOOTH, RISE, LASTS = 20, 0.1, 30  # steps, share of the least mean, steps: one bad batch lifts 20 means, not 30
FALSE_ALARMS = 0.05  # at most this share of the sound runs of the choosing half, for one rule
FALSE_TOGETHER = 0.1  # ... and for all serious warnings together
MORE = 2  # runs that a further warning must be in time in

JUDGED, EARLIER = "fresh", "judge"  # halves: the one that the tables show, and the one that was seen before

C = TypeVar("C")


@dataclass(frozen=True)
class Label:
    """What is known of a run when rules are judged."""

    name: str
    half: str  # "choose", "judge" or "fresh"
    trouble: int | None  # the step at which the loss shows it
    cause: int = 0  # no alarm before this step can be about the trouble
    meant: str = "health"  # or "trouble"

    @property
    def sound(self) -> bool:
        return self.trouble is None and self.meant == "health"

    def lead(self, alarm: int | None) -> int | None:
        """Steps from the alarm to the trouble; None if it is not in time."""
        in_time = alarm is not None and self.trouble is not None and self.cause <= alarm < self.trouble
        return self.trouble - alarm if in_time else None  # type: ignore[operator]


@dataclass(frozen=True)
class Row:
    """How a rule did on some runs. Leads are in steps, of the runs in which it was in time."""

    in_time: int
    troubles: int
    median_lead: float | None
    low: int | None  # 95 % interval of the median lead, from order statistics; None with fewer than 6 leads
    high: int | None
    median_of_all: float  # lead over all runs in trouble, a miss counting as 0
    before_cause: int  # runs in trouble whose first alarm came before the cause: counted as missed
    seen: int  # runs in trouble in which it came before the trouble, or at the latest at the next record
    false_alarms: int
    sound: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def trouble_step(losses: Sequence[float]) -> int | None:
    """The first step at which the loss shows trouble, as the head of this file says."""
    values = np.asarray(losses, dtype=float)
    broken = len(values) > 0 and not isfinite(values[-1])
    if len(values) < SMOOTH:
        return len(values) - 1 if broken else None
    means = np.convolve(np.where(np.isfinite(values), values, np.inf), np.ones(SMOOTH) / SMOOTH, "valid")
    high = means > (1 + RISE) * np.minimum.accumulate(means)
    for first in np.flatnonzero(high):
        if high[first : first + LASTS].all() and (first + LASTS <= len(high) or broken):
            return int(first) + SMOOTH - 1
    return None


def judge(alarms: Mapping[str, int | None], labels: Iterable[Label]) -> Row:
    """How the first alarms of a rule, by the name of the run, compare with what happened."""
    labels = list(labels)
    troubles = [label for label in labels if label.trouble is not None]
    leads = sorted(lead for label in troubles if (lead := label.lead(alarms[label.name])) is not None)
    low, high = median_interval(leads)
    seen = [label for label in troubles if _seen(label, alarms[label.name])]
    early = [label for label in troubles if (step := alarms[label.name]) is not None and step < label.cause]
    sound = [label for label in labels if label.sound]
    false = sum(alarms[label.name] is not None for label in sound)
    middle = median(leads) if leads else None
    all_leads = leads + [0] * (len(troubles) - len(leads))
    of_all = median(all_leads or [0])
    return Row(len(leads), len(troubles), middle, low, high, of_all, len(early), len(seen), false, len(sound))


def _seen(label: Label, alarm: int | None) -> bool:
    return alarm is not None and label.trouble is not None and label.cause <= alarm <= label.trouble + EVERY


def median_interval(ordered: Sequence[int], confidence: float = 0.95) -> tuple[int | None, int | None]:
    """An interval that holds the median of the distribution with at least this probability, whatever it is like."""
    n = len(ordered)
    below = 0.0
    for k in range(n // 2 + 1):
        below += comb(n, k) / 2**n  # P(at most k values lie below the median)
        if 2 * below > 1 - confidence:
            return (ordered[k - 1], ordered[n - k]) if k else (None, None)
    return None, None


def share_interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """An interval for a share of which `count` of `of` were seen: Wilson's, which also works near 0 and 1."""
    if of == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle, width = count + z * z / 2, z * sqrt(count * (of - count) / of + z * z / 4)
    return max(0.0, (middle - width) / (of + z * z)), min(1.0, (middle + width) / (of + z * z))


def ranked_right(scores: Mapping[str, float], labels: Iterable[Label]) -> float | None:
    """How often a run in trouble has a higher score than a sound one: the area under the ROC curve. Ties count half."""
    labels = list(labels)
    bad = np.array([scores[label.name] for label in labels if label.trouble is not None])
    good = np.array([scores[label.name] for label in labels if label.sound])
    if not len(bad) or not len(good):
        return None
    return float(((bad[:, None] > good) + 0.5 * (bad[:, None] == good)).mean())


def choose(candidates: Sequence[C], alarm: Callable[[C, str], int | None], labels: Iterable[Label]) -> C:
    """The candidate with the largest median lead on the choosing half, a miss counting as 0, with few false alarms.

    `alarm(candidate, name of a run)` is the step of its first alarm. Ties go to the candidate that is in time more
    often, then to the larger mean lead, then to fewer false alarms, then to the earlier in the list. If none keeps to
    the limit of false alarms, the one with the fewest is taken.
    """
    chosen = [label for label in labels if label.half == "choose"]
    allowed = FALSE_ALARMS * sum(label.sound for label in chosen)
    return max(candidates, key=lambda candidate: _merit(lambda name: alarm(candidate, name), chosen, allowed))


def _merit(alarm: Callable[[str], int | None], labels: Sequence[Label], allowed: float) -> tuple[float, ...]:
    alarms = {label.name: alarm(label.name) for label in labels}
    leads = [label.lead(alarms[label.name]) or 0 for label in labels if label.trouble is not None]
    false = sum(alarms[label.name] is not None for label in labels if label.sound)
    in_time = sum(lead > 0 for lead in leads)
    return (-max(false, allowed), median(leads or [0]), in_time, sum(leads), -false)


def join(rules: Mapping[str, Mapping[str, int | None]], labels: Iterable[Label]) -> list[str]:
    """Which rules to join into one that alarms when any of them does: the best rule of the choosing half, then each one
    with which the joint rule is in time in at least two more runs there, with few false alarms. One may be chance."""
    chosen = [label for label in labels if label.half == "choose"]
    allowed = FALSE_TOGETHER * sum(label.sound for label in chosen)
    joined: list[str] = []

    def merit(names: list[str]) -> tuple[float, ...]:
        return _merit(first_of([rules[name] for name in names]).get, chosen, allowed)

    while rest := [name for name in rules if name not in joined]:
        best = max(rest, key=lambda name: merit([*joined, name]))
        if joined and not _clearly_better(merit([*joined, best]), merit(joined)):
            break
        joined.append(best)
    return joined


def _clearly_better(new: tuple[float, ...], old: tuple[float, ...]) -> bool:
    return new[0] >= old[0] and new[2] >= old[2] + MORE


def first_of(rules: Sequence[Mapping[str, int | None]]) -> dict[str, int | None]:
    """For each run, the first alarm of several rules."""
    names = rules[0] if rules else {}
    return {name: min((step for rule in rules if (step := rule[name]) is not None), default=None) for name in names}
