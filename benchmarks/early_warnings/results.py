"""From finished runs to the numbers that are published: labels, chosen thresholds, and one row per rule."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from benchmarks.early_warnings.diagnosing import chosen_limits, diagnosed, summary
from benchmarks.early_warnings.judging import (
    EARLIER,
    JUDGED,
    Label,
    choose,
    first_of,
    join,
    judge,
    ranked_right,
    trouble_step,
)
from benchmarks.early_warnings.rules import AT_START, BASELINES, NOTICES, WARNINGS, Rule, with_every_step
from benchmarks.early_warnings.settings import FROZEN, Setting
from benchmarks.early_warnings.training import digest
from foretrain.monitor.alarms import CHOSEN

ANY = "any serious warning"
ATTENTION = "any serious warning but the loss"
LOSS = "loss above its least"
Results = dict[str, Any]
Alarms = Mapping[str, Mapping[str, int | None]]  # rule -> run -> the step of its first alarm


def label_of(setting: Setting, run: Mapping[str, Any]) -> Label:
    return Label(setting.name, setting.half, trouble_step(run["losses"]), setting.cause, setting.meant)


def inputs_digest(settings: Iterable[Setting], text_sha256: str) -> str:
    """Of all settings and the text: the same on every machine, and different if the benchmark is."""
    return hashlib.sha256("".join(digest(setting, text_sha256) for setting in settings).encode()).hexdigest()


def results(pairs: Sequence[tuple[Setting, Mapping[str, Any]]], text_sha256: str, date: str) -> Results:
    """Everything that docs/results/early_warnings.json holds."""
    settings = [setting for setting, _ in pairs]
    labels = [label_of(setting, run) for setting, run in pairs]
    runs = {setting.name: with_every_step(run) for setting, run in pairs}
    chosen, first = {}, {}
    for rule in (*WARNINGS, *BASELINES):
        chosen[rule.name], first[rule.name] = _chosen(rule, runs, _labels_for(rule.name, labels))
    able = {rule.name: first[rule.name] for rule in WARNINGS if rule.name not in NOTICES}
    by_name = {label.name: label for label in labels}
    thresholds = replace(CHOSEN, **chosen[LOSS])  # type: ignore[arg-type]
    limits = chosen_limits(settings, runs, by_name, thresholds)
    layers = diagnosed(settings, runs, by_name, thresholds, limits)
    published: Results = {
        "command": "python -m benchmarks.early_warnings --data input.txt",
        "date": date,
        "frozen": FROZEN,
        "text_sha256": text_sha256,
        "inputs_sha256": inputs_digest(settings, text_sha256),
        "chosen": chosen,
        "serious": join(able, labels),
        "limits": asdict(limits),
        "runs": [_run(s, runs[s.name], by_name[s.name], first, layers) for s in settings],
    }
    return {**published, **judged(published)}


def _labels_for(rule: str, labels: Iterable[Label]) -> list[Label]:
    """A rule that speaks before training cannot wait for the cause."""
    return [replace(label, cause=0) for label in labels] if rule in AT_START else list(labels)


def _chosen(
    rule: Rule, runs: Mapping[str, Mapping[str, Any]], labels: Sequence[Label]
) -> tuple[dict[str, float], dict[str, int | None]]:
    candidates = rule.candidates()

    @cache
    def alarm(number: int, name: str) -> int | None:
        return rule.first(candidates[number], runs[name])

    best = choose(range(len(candidates)), alarm, labels)
    return candidates[best], {label.name: alarm(best, label.name) for label in labels}


def _run(
    setting: Setting, run: Mapping[str, Any], label: Label, first: Alarms, layers: Mapping[str, str | None]
) -> Results:
    return {
        **setting.as_json(),
        "half": label.half,
        "steps": len(run["losses"]),
        "trouble": label.trouble,
        "cause": label.cause,
        "near_unit_mass": run["near_unit_mass"],
        "named": layers.get(label.name),
        "first_alarm": {rule: steps[label.name] for rule, steps in first.items()},
    }


def judged(published: Results) -> Results:
    """The tables of the fresh runs, and of the earlier judging half, which was seen before rules were changed. They
    are computed anew from what is published of the runs: by this, anyone can check them."""
    return {**_tables(published, JUDGED), "earlier": _tables(published, EARLIER)}


def _tables(published: Results, half: str) -> Results:
    runs = {str(place): run for place, run in enumerate(published["runs"])}
    labels = [Label(name, run["half"], run["trouble"], run["cause"], run["meant"]) for name, run in runs.items()]
    judging = [label for label in labels if label.half == half]
    rules = published["runs"][0]["first_alarm"]
    first = {rule: {name: run["first_alarm"][rule] for name, run in runs.items()} for rule in rules}
    first |= _joined(first, published["serious"])
    masses = {name: run["near_unit_mass"] for name, run in runs.items()}
    return {
        "table": {rule: judge(alarms, _labels_for(rule, judging)).as_json() for rule, alarms in first.items()},
        "ranked_right_by_near_unit_mass": ranked_right(masses, judging),
        "diagnosis": summary(published["runs"], half),
    }


def _joined(first: Alarms, serious: Sequence[str]) -> dict[str, dict[str, int | None]]:
    """What several rules say together. The second shows what watching attention adds to watching the loss."""
    rest = [first[name] for name in serious if name != LOSS]
    joined = {ANY: first_of([first[name] for name in serious])}
    return joined | ({ATTENTION: first_of(rest)} if rest and LOSS in serious else {})
