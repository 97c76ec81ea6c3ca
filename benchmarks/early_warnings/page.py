"""Writes what is published: the tables of docs/early-warnings.md, and the numbers that the package itself quotes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.early_warnings.judging import JUDGED, Label, share_interval
from benchmarks.early_warnings.results import ANY, ATTENTION, LOSS, Results
from benchmarks.early_warnings.rules import BASELINES, WARNINGS
from foretrain.core.files import write_text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "early_warnings.json"
PAGE = ROOT / "docs" / "early-warnings.md"
EVIDENCE = ROOT / "src" / "foretrain" / "monitor" / "alarm_evidence.py"
MARKS = ("<!-- table: made by benchmarks/early_warnings -->", "<!-- end of table -->")
QUOTED = ("in_time", "troubles", "median_lead", "false_alarms", "sound")
COMPARED = (ANY, LOSS, "entropy collapse", "update-norm spikes", "gradient z-score")  # fault by fault


def tables(results: Results) -> str:
    """Everything between the marks."""
    return "\n".join([table(results), kinds(results), architectures(results), diagnosis(results)])


def table(results: Results) -> str:
    """All rules, judged on the fresh runs."""
    alarms = [(rule.name, "warning" if rule.name in results["serious"] else "notice") for rule in WARNINGS]
    joined = [(name, "") for name in (ANY, ATTENTION) if name in results["table"]]
    order = [*joined, *alarms, *((rule.name, rule.source or "baseline") for rule in BASELINES)]
    columns = ("rule", "", "in time (95 %)", "median lead (95 %)", "lead, a miss as 0", "seen", "false alarms (95 %)")
    return _head(*columns) + "".join(_line(name, group, results["table"][name]) for name, group in order)


def _line(name: str, group: str, row: Mapping[str, Any]) -> str:
    lead = "—" if row["median_lead"] is None else f"{row['median_lead']:g}"
    if row["low"] is not None:
        lead += f" ({row['low']} to {row['high']})"
    in_time = _share(row["in_time"], row["troubles"])
    if row["before_cause"]:
        in_time += f", {row['before_cause']} too soon"
    shown, false = name if group else f"**{name}**", _share(row["false_alarms"], row["sound"])
    return f"| {shown} | {group} | {in_time} | {lead} | {row['median_of_all']:g} | {row['seen']} | {false} |\n"


def _share(count: int, of: int) -> str:
    low, high = share_interval(count, of)
    return f"{count} of {of} ({100 * low:.0f} to {100 * high:.0f} %)"


def kinds(results: Results) -> str:
    """In how many of the fresh runs of each fault a rule was in time, and its median lead there."""
    runs = [run for run in results["runs"] if run["half"] == JUDGED and run["trouble"] is not None]
    rows = _head("what was wrong", "runs in trouble", *(f"{name}: in time, lead" for name in COMPARED))
    for kind in dict.fromkeys(run["kind"] for run in runs):
        alike = [run for run in runs if run["kind"] == kind]
        cells = [_in_time(alike, results["serious"] if name == ANY else [name]) for name in COMPARED]
        rows += f"| {kind} | {len(alike)} | {' | '.join(cells)} |\n"
    return rows


def _in_time(runs: Sequence[Mapping[str, Any]], rules: Sequence[str]) -> str:
    leads = [lead for run in runs if (lead := _lead(run, rules)) is not None]
    return f"{len(leads)}, {median(leads):g}" if leads else "0"


def _lead(run: Mapping[str, Any], rules: Sequence[str]) -> int | None:
    alarm = min((step for rule in rules if (step := run["first_alarm"][rule]) is not None), default=None)
    return Label("", "", run["trouble"], run["cause"]).lead(alarm)


def architectures(results: Results) -> str:
    """How the serious warnings did in the fresh runs, by architecture."""
    rows = _head("architecture", "any serious warning: in time (95 %)", "false alarms (95 %)")
    judging = [run for run in results["runs"] if run["half"] == JUDGED]
    for architecture in dict.fromkeys(run["architecture"] for run in judging):
        alike = [run for run in judging if run["architecture"] == architecture]
        bad = [run for run in alike if run["trouble"] is not None]
        good = [run for run in alike if run["trouble"] is None and run["meant"] == "health"]
        in_time = sum(_lead(run, results["serious"]) is not None for run in bad)
        false = sum(any(run["first_alarm"][rule] is not None for rule in results["serious"]) for run in good)
        rows += f"| {architecture} | {_share(in_time, len(bad))} | {_share(false, len(good))} |\n"
    return rows


def diagnosis(results: Results) -> str:
    """How often the diagnosis named the layer that was made to explode, beside a random guess."""
    row = results["diagnosis"]
    right, elsewhere = _share(row["right"], row["of"]), _share(row["named_elsewhere"], row["elsewhere"])
    return (
        _head("which layer began it?", "")
        + f"| one layer was made to explode: this layer is named (95 %) | {right} |\n"
        + f"| a random guess would be right in | {100 * row['guess']:.0f} % |\n"
        + f"| another layer is named; none is | {row['of'] - row['right'] - row['none']}; {row['none']} |\n"
        + f"| the fault was in all layers: a layer is named nevertheless (95 %) | {elsewhere} |\n"
    )


def _head(*columns: str) -> str:
    return "| " + " | ".join(columns) + " |\n" + "| --- " * len(columns) + "|\n"


def page(text: str, results: Results) -> str:
    """The page with its tables made anew."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{tables(results)}{MARKS[1]}{after}"


def module(results: Results) -> str:
    """The source of foretrain.monitor.alarm_evidence."""
    rows = {rule.name: {key: results["table"][rule.name][key] for key in QUOTED} for rule in WARNINGS}
    serious = ", ".join(f'"{name}"' for name in (*results["serious"], "not a number"))
    lines = "".join(f'    "{name}": {_literal(row)},\n' for name, row in rows.items())
    return (
        '"""How each kind of alarm did in the benchmark. Written by benchmarks/early_warnings.\n\n'
        "in_time: trainings that went wrong and were warned of before their loss showed it; median_lead: in steps.\n"
        '"""\n\nfrom __future__ import annotations\n\n'
        f"SERIOUS = ({serious})\n"
        f"EVIDENCE: dict[str, dict[str, float]] = {{\n{lines}}}\n"
    )


def _literal(row: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f'"{key}": {0 if value is None else value}' for key, value in row.items()) + "}"


def publish(results: Results) -> None:
    write_text(RESULTS, dumps(results))
    write_text(EVIDENCE, module(results))
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8"), results))


def dumps(results: Results) -> str:
    """One line per run, so that differences can be read."""
    rest = {key: value for key, value in results.items() if key != "runs"}
    runs = ",\n".join("  " + json.dumps(run, allow_nan=False) for run in results["runs"])
    return json.dumps(rest, indent=1, allow_nan=False)[:-2] + ',\n "runs": [\n' + runs + "\n ]\n}\n"
