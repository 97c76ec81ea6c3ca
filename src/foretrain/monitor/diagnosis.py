"""Why did the loss rise? Which layer moved first, read off the records before it.

Each layer is compared with its own past and with the other layers: a layer has *moved* when one of its measures,
relative to the same measure of the other layers, has left what it was and does not come back before the loss rises.
Where all layers move together, as under a rate that is too high for all of them, no layer is named.

Only layers that have a number in their names can be compared: "blocks.3" or "model.layers.3", not an embedding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import exp, isfinite, log
from statistics import median
from typing import Any

from foretrain.monitor.alarm_words import number, steps
from foretrain.monitor.alarms import CHOSEN, Thresholds
from foretrain.monitor.loss_alarms import LossAboveLeast, values_of
from foretrain.monitor.short_names import without_shared
from foretrain.runs.training_log import Record

Series = dict[str, dict[int, float]]  # layer -> step -> logarithm of a measure
HEADS: dict[str, Callable[[list[float]], float]] = {"largest_logit": max, "entropy": median}  # one number of many
MATRICES = ("norm", "gradient_norm", "update_ratio")
ACTIVATIONS = ("residual_norm", "massive")
FALLS = ("entropy",)  # trouble makes it smaller; everything else it makes larger
WORDS = {"massive": "largest activation, relative to the median,"}
AT_START = 5  # records that a layer's past needs at least


@dataclass(frozen=True)
class Limits:
    """When a layer has moved. Chosen on one half of the runs of benchmarks/early_warnings."""

    factor: float = 3.0  # a measure, relative to the other layers, has changed by this factor
    spread: float = 6.0  # ... and by so many times what it usually strays, in its own past
    window: int = 20  # the records that are its past
    strongest: bool = True  # of several layers, name the one that moved furthest, instead of the one that moved first


@dataclass(frozen=True)
class Moved:
    """One measure of one layer, which left its past at step `since`: until then `before`, and `value` at step `at`."""

    layer: str  # its name without what all layers share: "3"
    measure: str  # "largest logit", or "update ratio of attention.query.weight"
    falls: bool
    since: int
    before: float
    value: float
    at: int
    by: float  # the logarithm of the factor by which it changed, relative to the other layers


@dataclass(frozen=True)
class Diagnosis:
    """Where a rise of the loss began. `str` gives it in words."""

    after: int  # the step of the least loss
    low: float
    high: float  # the largest median over the same number of steps after that
    seen: int  # the step at which the rise was seen
    first: Moved | None  # None where no layer stood out
    others: tuple[Moved, ...]  # what moved in other layers, before the loss rose

    def __str__(self) -> str:
        rose = f"The loss rose from {number(self.low)} to {number(self.high)} after step {steps(self.after)}."
        if self.first is None:
            return f"{rose} No single layer stood out before that."
        moved, verb = self.first, "falling" if self.first.falls else "growing"
        grown = f"its {moved.measure} had been {verb} since step {steps(moved.since)}"
        grown += f" ({number(moved.value)} at step {steps(moved.at)}, {number(moved.before)} before)"
        if not self.others:
            return f"{rose} It began in layer {moved.layer}: {grown}, while every other layer was quiet."
        other = min(self.others, key=lambda other: other.since)
        if other.since < moved.since:
            also = f"layer {other.layer} had moved before, at step {steps(other.since)}, but less"
            return f"{rose} Layer {moved.layer} moved most: {grown}; {also}."
        return (
            f"{rose} It began in layer {moved.layer}: {grown}; layer {other.layer} moved at step {steps(other.since)}."
        )


def first_mover(
    records: Iterable[Record], thresholds: Thresholds = CHOSEN, limits: Limits | None = None
) -> Diagnosis | None:
    """Where the first rise of the loss began; None if the loss never rose by so much that it is an alarm."""
    limits, records = limits or Limits(), list(records)
    rule = LossAboveLeast(thresholds.loss_steps, thresholds.loss_rise, thresholds.loss_noise)
    losses = [loss for record in records for loss in values_of(record, "loss")]
    rises = [rise for step, loss in losses if (rise := rule.add(step, loss)) is not None]
    if not rises:
        return None
    rise = rises[0]
    layers = movers([record for record in records if int(record["step"]) <= rise.step], limits)
    best = sorted(layers, key=lambda moved: (-moved.by if limits.strongest else moved.since, -moved.by))
    high = max(later.high for later in rises)
    return Diagnosis(rise.since, rise.low, high, rise.step, best[0] if best else None, tuple(best[1:]))


def movers(records: Sequence[Record], limits: Limits) -> list[Moved]:
    """For each layer that has moved by the last of these records, the measure that moved first."""
    layers: dict[str, Moved] = {}
    names: set[str] = set()
    for measure, measured in _series(records).items():
        names |= measured.keys()
        for layer in measured if len(measured) > 1 else ():
            moved = _moved(layer, measure, measured, limits)
            known = layers.get(layer)
            if moved and (known is None or (moved.since, -moved.by) < (known.since, -known.by)):
                layers[layer] = moved
    short = without_shared(sorted(names))
    return [replace(moved, layer=short[name]) for name, moved in layers.items()]


def _moved(layer: str, measure: str, measured: Series, limits: Limits) -> Moved | None:
    """The first step at which a measure has left its past for good, compared with the other layers."""
    relative, values = _relative(layer, measured), measured[layer]
    at = list(relative)
    lowest = _least_from_here([relative[step] for step in at])
    for place in range(AT_START, len(at)):
        past = at[max(0, place - limits.window) : place]
        usual, before = median(relative[step] for step in past), median(values[step] for step in past)
        stray = 1.48 * median(abs(relative[step] - usual) for step in past)  # a standard deviation, if it were normal
        needed = max(log(limits.factor), limits.spread * stray)
        if lowest[place] - usual > needed and values[at[-1]] - before > log(limits.factor):
            sign = -1 if measure in FALLS else 1
            words, numbers = _words(measure), (exp(sign * before), exp(sign * values[at[-1]]))
            return Moved(layer, words, measure in FALLS, at[place], *numbers, at[-1], relative[at[-1]] - usual)
    return None


def _least_from_here(values: Sequence[float]) -> list[float]:
    return list(accumulate(reversed(values), min))[::-1]


def _words(measure: str) -> str:
    return WORDS.get(measure, measure.replace("_", " "))


def _relative(layer: str, measured: Series) -> dict[int, float]:
    """The logarithm of a measure of a layer, minus the median over the other layers, at the steps that have both."""
    others = [values for name, values in measured.items() if name != layer]
    return {
        step: value - median(around)
        for step, value in measured[layer].items()
        if (around := [values[step] for values in others if step in values])
    }


def _series(records: Sequence[Record]) -> dict[str, Series]:
    """Every measure of every numbered layer, as a logarithm that grows when there is trouble."""
    series: defaultdict[str, Series] = defaultdict(dict)
    for record in records:
        for name, measure, value in _measured(record):
            layer, inside = layer_of(name)
            if layer and isfinite(value) and value > 0:
                full = f"{measure} of {inside}" if inside and measure not in HEADS else measure
                logarithm = -log(value) if measure in FALLS else log(value)
                series[full].setdefault(layer, {})[int(record["step"])] = logarithm
    return dict(series)


def _measured(record: Record) -> Iterator[tuple[str, str, float]]:
    """(name, measure, value) for everything of a record that one number stands for."""
    for name, statistics in _part(record, "attention"):
        for measure, joined in HEADS.items():
            heads = [float(value) for value in statistics.get(measure) or () if value is not None]
            if heads and all(map(isfinite, heads)):
                yield name, measure, float(joined(heads))
    for part, measures in (("weights", MATRICES), ("activations", ACTIVATIONS)):
        for name, numbers in _part(record, part):
            for measure in measures:
                if isinstance(numbers.get(measure), int | float):
                    yield name, measure, float(numbers[measure])


def _part(record: Record, part: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    layers = record.get(part)
    for name, numbers in layers.items() if isinstance(layers, Mapping) else ():
        if isinstance(numbers, Mapping):
            yield str(name), numbers


def layer_of(name: str) -> tuple[str, str]:
    """The layer that a module or a matrix is in, and its name inside that layer: "model.layers.3.mlp.up.weight" gives
    "model.layers.3" and "mlp.up". Both are empty for a name without a number."""
    parts = name.split("#")[0].split(".")
    place = next((place for place, part in enumerate(parts) if part.isdigit()), None)
    if place is None:
        return "", ""
    return ".".join(parts[: place + 1]), ".".join(parts[place + 1 :]).removesuffix(".weight")
