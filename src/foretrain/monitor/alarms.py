"""Early warnings, read off the monitor's records: which head or matrix is going wrong, since when, and by what numbers.

    loss above its least   the median of the last losses is above the least such median so far
    entropy collapse       a head is left with little of its entropy, while its largest logit grows
    runaway logits         the largest logit of a head is large, and growing fast
    rank collapse          a weight matrix is left with few directions, and is losing more
    dead head              a head still spreads its attention evenly, when most heads of the model no longer do
    attention sink         a head gives far more of its attention to the first token than at the start
    not a number           a measured value is infinite or undefined

Each head and each matrix is compared with its own past, and entropy with the largest possible, so the rules mean the
same in a model of any size. The loss is read at every step where the records have it. An alarm at a step uses the
records up to that step and no later ones. How well they work, and what to do about them: docs/early-warnings.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, isnan
from typing import Any

import numpy as np

from foretrain.monitor.alarm_evidence import EVIDENCE, SERIOUS
from foretrain.monitor.alarm_words import ShortNames, Values, reason, reason_of_rise, steps, steps_of
from foretrain.monitor.loss_alarms import LossAboveLeast, values_of
from foretrain.runs.training_log import Record

KINDS = (
    "loss above its least",
    "entropy collapse",
    "runaway logits",
    "rank collapse",
    "dead head",
    "attention sink",
    "not a number",
)
READ = {"entropy", "relative_entropy", "first_token", "largest_logit"}  # a layer without these is passed over
ALWAYS_FINITE = (
    "entropy",
    "norm",
)  # other values may be undefined by design: self-attention in cross-attention
MAY_BE_INFINITE = ("gradient_norm",)  # in fp16 with a loss scale, which then skips the step
MAY_BE_UNDEFINED = ("self_attention", "relative_entropy")  # in cross-attention; where no query has a choice


@dataclass(frozen=True)
class Thresholds:
    """When an alarm holds. All but `window` and `loss_noise` were chosen on one half of the runs of
    benchmarks/early_warnings."""

    window: int = 100  # steps over which growth is measured; set beforehand
    loss_steps: int = 20  # loss above its least: the median over so many steps
    loss_rise: float = 0.05  # ... is above the least such median by this share
    loss_noise: float = 2.0  # ... and by so many standard errors more than noise explains; set beforehand
    entropy_left: float = 0.1  # entropy collapse: at most this share of the relative entropy at the start
    entropy_growth: float = 2.0  # ... and the largest logit grew by this factor in the window
    logit_level: float = 100.0  # runaway logits: the largest logit is at least this
    logit_growth: float = 3.0  # ... and grew by this factor in the window
    rank_left: float = 0.05  # rank collapse: at most this share of the stable rank at the start
    rank_fall: float = 0.9  # ... and at most this share of what it was a window ago
    dead_entropy: float = 0.98  # dead head: at least this share of the largest possible entropy
    dead_others: float = 0.7  # ... when the median head has at most this
    sink_share: float = 0.5  # attention sink: this share of what the first token did not get at the start


CHOSEN = Thresholds()
ADVICE = {
    "loss above its least": "Go back to the last sound checkpoint; lower the rate, or look at the data since then.",
    "entropy collapse": "Try a lower rate, a longer warm-up, or normalised queries and keys.",
    "runaway logits": "Try a lower rate, a longer warm-up, or normalised queries and keys; compute softmax in float32.",
    "rank collapse": "Common in sound trainings too; look at the update ratio if the loss stalls.",
    "dead head": "Usually harmless.",
    "attention sink": "Usually harmless; large language models commonly have them.",
    "not a number": "Go back to the last sound checkpoint, lower the rate, and check the data and the precision.",
}


@dataclass(frozen=True)
class Alarm:
    """Something that went wrong, first seen at `step`, with the reason in one sentence."""

    kind: str  # one of KINDS
    step: int
    where: str  # "layer 5, head 2", the name of a layer or of a matrix, or "loss"
    reason: str
    serious: bool  # False for a notice: in the benchmark, or in models known to be sound, it is common and harmless

    def __str__(self) -> str:
        place = "" if self.kind.startswith(self.where) else f" in {self.where}"
        return f"{self.kind}{place} at step {steps(self.step)}: {self.reason}."


def in_words(alarms: Iterable[Alarm]) -> list[str]:
    """One line for each kind: where it came first and why, how often it came after that, and what to try."""
    kinds: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        kinds.setdefault(alarm.kind, []).append(alarm)
    lines = []
    for first, *more in kinds.values():
        until = f" by step {steps(more[-1].step)}" if more and more[-1].step > first.step else ""
        also = f" Also in {len(more)} other place{'s' * (len(more) > 1)}{until}." if more else ""
        lines.append(f"{first}{also} {ADVICE[first.kind]}")
    return lines


def one_of_each_kind(alarms: Iterable[Alarm]) -> list[Alarm]:
    """The first alarm of each kind, whose reason says in how many other places it came up."""
    kinds: dict[str, list[Alarm]] = {}
    for alarm in alarms:
        kinds.setdefault(alarm.kind, []).append(alarm)
    return [
        replace(first, reason=f"{first.reason}; also in {len(more)} other places") if more else first
        for first, *more in kinds.values()
    ]


def alarms_of(records: Iterable[Record], thresholds: Thresholds = CHOSEN) -> list[Alarm]:
    """Every alarm of a training, in the order in which they came up: each kind once for each place."""
    watcher = Watcher(thresholds)
    return [alarm for record in records for alarm in watcher.update(record)]


def evidence(kind: str) -> str | None:
    """How this kind of alarm did in the benchmark, in one sentence; None for a kind that was not judged."""
    row = EVIDENCE.get(kind)
    if row is None:
        return None
    lead = f", and then a median of {row['median_lead']:.0f} steps before the loss showed it" if row["in_time"] else ""
    happened = (
        f"In our benchmark this came in time in {row['in_time']} of {row['troubles']} trainings that went wrong{lead}"
    )
    return f"{happened}; it came in {row['false_alarms']} of {row['sound']} that stayed sound."


def evidence_of(alarms: Iterable[Alarm]) -> list[str]:
    """How each serious kind of alarm that came up did in the benchmark."""
    kinds = dict.fromkeys(alarm.kind for alarm in alarms if alarm.serious)
    sentences = {kind: evidence(kind) for kind in kinds}
    return [f"{kind}: {sentence}" for kind, sentence in sentences.items() if sentence]


class Watcher:
    """Takes one record after another and returns the alarms that each of them sets off."""

    def __init__(self, thresholds: Thresholds = CHOSEN) -> None:
        self.thresholds = thresholds
        self._past: dict[tuple[str, str], _Past] = {}
        self._known: set[tuple[str, str]] = set()
        self._names = ShortNames()
        self._loss = LossAboveLeast(int(thresholds.loss_steps), thresholds.loss_rise, thresholds.loss_noise)

    def update(self, record: Record) -> list[Alarm]:
        """The alarms that are new with this record."""
        new: list[Alarm] = []
        for alarm in self._all(record):
            if (alarm.kind, alarm.where) not in self._known:
                self._known.add((alarm.kind, alarm.where))
                new.append(alarm)
        return new

    def _all(self, record: Record) -> Iterator[Alarm]:
        step = int(record["step"])
        yield from self._losses(record, step)
        layers = {layer: _arrays(statistics) for layer, statistics in record.get("attention", {}).items()}
        self._names.learn(layers)
        others = _median([now["relative_entropy"] for now in layers.values() if "relative_entropy" in now])
        for layer, now in layers.items():
            seen = self._seen("layer", layer, step, now)
            yield from seen.undefined(layer)
            if now.keys() & seen.recent[0][1].keys() >= READ:
                yield from self._heads(seen, self._names.of(layer), others)
        for matrix, measures in record.get("weights", {}).items():
            seen = self._seen("matrix", matrix, step, _arrays(measures))
            yield from seen.undefined(matrix)
            if "stable_rank" in measures and "stable_rank" in seen.recent[0][1]:
                yield from self._matrix(seen, matrix)

    def _losses(self, record: Record, step: int) -> Iterator[Alarm]:
        for at, loss in values_of(record, "loss"):
            if not isfinite(loss):
                value = "it is not a number" if isnan(loss) else "it is infinite"
                yield Alarm("not a number", at, "loss", value, "not a number" in SERIOUS)
            if rise := self._loss.add(at, loss):
                kind, why = "loss above its least", reason_of_rise(rise, self._loss.steps)
                yield Alarm(kind, step, "loss", why, kind in SERIOUS)

    def _seen(self, part: str, name: str, step: int, now: Values) -> _Past:
        past = self._past.setdefault((part, name), _Past())
        past.add(step, now, self.thresholds.window)
        return past

    def _heads(self, seen: _Past, layer: str, others: float) -> Iterator[Alarm]:
        t, start, (before, ago), (step, now) = self.thresholds, seen.start, seen.recent[0], seen.recent[-1]
        entropy, logit, first = now["relative_entropy"], now["largest_logit"], now["first_token"]
        known = np.maximum(ago["largest_logit"], 1.0)  # growth below one nat does not matter
        holds = {
            "entropy collapse": (entropy <= t.entropy_left * start["relative_entropy"])
            & (logit >= t.entropy_growth * known),
            "runaway logits": (logit >= t.logit_level) & (logit >= t.logit_growth * known),
            "dead head": (entropy >= t.dead_entropy) & (others <= t.dead_others),
            "attention sink": first >= t.sink_share + (1 - t.sink_share) * start["first_token"],
        }
        for kind, heads in holds.items():
            for head in np.flatnonzero(heads & np.isfinite(entropy)).tolist():
                why = reason(kind, head, start, ago, now, step - before, others)
                yield Alarm(kind, step, f"layer {layer}, head {head}", why, kind in SERIOUS)

    def _matrix(self, seen: _Past, matrix: str) -> Iterator[Alarm]:
        t, (before, ago), (step, now) = self.thresholds, seen.recent[0], seen.recent[-1]
        first, earlier, rank = (float(values["stable_rank"][0]) for values in (seen.start, ago, now))
        if earlier > 0 and rank <= t.rank_left * first and rank <= t.rank_fall * earlier:
            why = (
                f"its stable rank fell from {first:.3g} at the start to {rank:.3g}, and by {1 - rank / earlier:.0%} in "
            )
            yield Alarm("rank collapse", step, matrix, why + steps_of(step - before), "rank collapse" in SERIOUS)


@dataclass
class _Past:
    """What a layer or a matrix was: its first finite values, and the records of the last `window` steps."""

    start: Values = field(default_factory=dict)
    recent: deque[tuple[int, Values]] = field(default_factory=deque)  # the first is the one of `window` steps ago

    def add(self, step: int, now: Values, window: int) -> None:
        for name, values in now.items():
            first = self.start.get(name, values)
            self.start[name] = np.where(np.isfinite(first), first, values) if len(first) == len(values) else values
        while self.recent and (self.recent[-1][0] >= step or not _alike(self.recent[-1][1], now)):
            self.recent.pop()  # a resumed training repeats steps; a model that was rebuilt starts anew
        self.recent.append((step, now))
        while len(self.recent) > 2 and self.recent[1][0] <= step - window:
            self.recent.popleft()

    def undefined(self, where: str) -> Iterator[Alarm]:
        """An alarm if a value is not finite now that was finite before, or that should always be."""
        step, now = self.recent[-1]
        no_rank = "norm" in now and now["norm"][0] == 0  # of a zero matrix
        for name, values in now.items():
            bad = ~np.isfinite(values) & (np.isfinite(self.start[name]) | (name in ALWAYS_FINITE))
            if (
                bad.any()
                and name not in (*MAY_BE_INFINITE, *MAY_BE_UNDEFINED)
                and not (no_rank and name.endswith("_rank"))
            ):
                value = "infinite" if np.isinf(values[bad][0]) else "not a number"
                heads = f" of head {', '.join(map(str, np.flatnonzero(bad)))}" if len(values) > 1 else ""
                why = f"the {name.replace('_', ' ')}{heads} is {value}"
                yield Alarm("not a number", step, where, why, "not a number" in SERIOUS)
                return


def _alike(old: Values, new: Values) -> bool:
    return all(len(old[name]) == len(values) for name, values in new.items() if name in old)


def _arrays(statistics: Mapping[str, Any]) -> Values:
    return {name: np.atleast_1d(np.asarray(value, dtype=float)) for name, value in statistics.items()}


def _median(parts: list[np.ndarray]) -> float:
    """Of the finite numbers; 1 if there is none."""
    values = np.concatenate([part[np.isfinite(part)] for part in parts]) if parts else np.ones(1)
    return float(np.median(values)) if len(values) else 1.0
