"""From finished runs to the numbers that are published: labels, chosen thresholds, and one row per rule."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from benchmarks.early_warnings.judging import Label, choose, first_of, join, judge, trouble_step
from benchmarks.early_warnings.rules import BASELINES, NOTICES, WARNINGS, Rule
from benchmarks.early_warnings.settings import Setting
from benchmarks.early_warnings.training import digest

ANY, EITHER = "any serious warning", "any serious warning, or the loss slope"
Results = dict[str, Any]


def label_of(setting: Setting, run: Mapping[str, Any]) -> Label:
    """Where the rate changes during the run, that is the cause of any trouble; else the start is."""
    cause = setting.ramp[0] if setting.peak > setting.rate else 0
    return Label(setting.name, setting.half, trouble_step(run["losses"]), cause)


def inputs_digest(settings: Iterable[Setting], text_sha256: str) -> str:
    """Of all settings and the text: the same on every machine, and different if the benchmark is."""
    return hashlib.sha256("".join(digest(setting, text_sha256) for setting in settings).encode()).hexdigest()


def results(pairs: Sequence[tuple[Setting, Mapping[str, Any]]], text_sha256: str, date: str) -> Results:
    """Everything that docs/results/early_warnings.json holds."""
    labels = [label_of(setting, run) for setting, run in pairs]
    runs = {setting.name: run for setting, run in pairs}
    chosen, first = {}, {}
    for rule in (*WARNINGS, *BASELINES):
        chosen[rule.name], first[rule.name] = _chosen(rule, runs, labels)
    able = {rule.name: first[rule.name] for rule in WARNINGS if rule.name not in NOTICES}
    serious = join(able, labels)
    first |= _joined(first, serious)
    judging = [label for label in labels if label.half == "judge"]
    return {
        "command": "python -m benchmarks.early_warnings --data input.txt",
        "date": date,
        "text_sha256": text_sha256,
        "inputs_sha256": inputs_digest([setting for setting, _ in pairs], text_sha256),
        "chosen": chosen,
        "serious": serious,
        "table": {name: judge(alarms, judging).as_json() for name, alarms in first.items()},
        "runs": [
            _run(setting, runs[label.name], label, first) for (setting, _), label in zip(pairs, labels, strict=True)
        ],
    }


def _chosen(
    rule: Rule, runs: Mapping[str, Mapping[str, Any]], labels: Sequence[Label]
) -> tuple[dict[str, float], dict[str, int | None]]:
    candidates = rule.candidates()

    @cache
    def alarm(number: int, name: str) -> int | None:
        return rule.first(candidates[number], runs[name])

    best = choose(range(len(candidates)), alarm, labels)
    return candidates[best], {label.name: alarm(best, label.name) for label in labels}


def _run(setting: Setting, run: Mapping[str, Any], label: Label, first: Mapping[str, Mapping[str, Any]]) -> Results:
    alarms = {rule: steps[label.name] for rule, steps in first.items() if rule not in (ANY, EITHER)}
    return {
        **setting.as_json(),
        "half": label.half,
        "steps": len(run["losses"]),
        "trouble": label.trouble,
        "cause": label.cause,
        "first_alarm": alarms,
    }


def _joined(first: Mapping[str, Mapping[str, int | None]], serious: Sequence[str]) -> dict[str, dict[str, int | None]]:
    """What several rules say together. The second shows what watching attention adds to watching the loss."""
    warning = first_of([first[name] for name in serious])
    return {ANY: warning, EITHER: first_of([warning, first["loss slope"]])}


def table_of(published: Results) -> dict[str, Any]:
    """The table, computed anew from what is published of the runs: by this, anyone can check it."""
    labels = [
        Label(f"{run['kind']}, seed {run['seed']}", run["half"], run["trouble"], run["cause"])
        for run in published["runs"]
    ]
    names = [label.name for label in labels]
    first = {
        rule: {name: run["first_alarm"][rule] for name, run in zip(names, published["runs"], strict=True)}
        for rule in published["runs"][0]["first_alarm"]
    }
    first |= _joined(first, published["serious"])
    judging = [label for label in labels if label.half == "judge"]
    return {rule: judge(alarms, judging).as_json() for rule, alarms in first.items()}
