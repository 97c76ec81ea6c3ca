"""Writes what is published: the tables of docs/early-warnings.md, and the numbers that the package itself quotes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.early_warnings.judging import Label
from benchmarks.early_warnings.results import ANY, EITHER, Results
from benchmarks.early_warnings.rules import BASELINES, WARNINGS
from foretrain.core.files import write_text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "early_warnings.json"
PAGE = ROOT / "docs" / "early-warnings.md"
EVIDENCE = ROOT / "src" / "foretrain" / "monitor" / "alarm_evidence.py"
MARKS = ("<!-- table: made by benchmarks/early_warnings -->", "<!-- end of table -->")
QUOTED = ("in_time", "troubles", "median_lead", "false_alarms", "sound")


def table(results: Results) -> str:
    """The table as Markdown, judged on the half of the runs that chose nothing."""
    alarms = [(rule.name, "warning" if rule.name in results["serious"] else "notice") for rule in WARNINGS]
    order = [*alarms, (ANY, ""), *((rule.name, "baseline") for rule in BASELINES), (EITHER, "")]
    columns = ("rule", "", "in time", "median lead in steps (95 % interval)", "median lead, a miss as 0", "missed")
    return _head(*columns, "false alarms") + "".join(
        _line(name, group, results["table"][name]) for name, group in order
    )


def _line(name: str, group: str, row: dict[str, Any]) -> str:
    lead = "—" if row["median_lead"] is None else f"{row['median_lead']:g}"
    if row["low"] is not None:
        lead += f" ({row['low']} to {row['high']})"
    missed = f"{row['troubles'] - row['in_time']}"
    if row["before_cause"]:
        missed += f" ({row['before_cause']} too soon)"
    shown = name if group else f"**{name}**"
    return (
        f"| {shown} | {group} | {row['in_time']} of {row['troubles']} | {lead} | {row['median_of_all']:g} | {missed} | "
        f"{row['false_alarms']} of {row['sound']} |\n"
    )


def kinds(results: Results) -> str:
    """How early each kind of trouble was seen, in the runs of the judging half whose loss showed it."""
    runs = [run for run in results["runs"] if run["half"] == "judge" and run["trouble"] is not None]
    compared = {
        "a serious warning": results["serious"],
        "loss slope": ["loss slope"],
        "gradient norm": ["gradient norm"],
    }
    rows = _head("what was wrong", "loss shows it at step", *(f"lead of {name}" for name in compared))
    for kind in dict.fromkeys(run["kind"] for run in runs):
        own = [run for run in runs if run["kind"] == kind]
        cells = [", ".join(_lead(run, rules) for run in own) for rules in compared.values()]
        rows += f"| {kind} | {', '.join(str(run['trouble']) for run in own)} | {' | '.join(cells)} |\n"
    return rows


def _lead(run: dict[str, Any], rules: list[str]) -> str:
    alarm = min((step for rule in rules if (step := run["first_alarm"][rule]) is not None), default=None)
    lead = Label("", "", run["trouble"], run["cause"]).lead(alarm)
    if lead is not None:
        return str(lead)
    if alarm is None:
        return "none"
    return "too soon" if alarm < run["cause"] else "late"


def _head(*columns: str) -> str:
    return "| " + " | ".join(columns) + " |\n" + "| --- " * len(columns) + "|\n"


def page(text: str, results: Results) -> str:
    """The page with its tables made anew."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{table(results)}\n{kinds(results)}{MARKS[1]}{after}"


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


def _literal(row: dict[str, Any]) -> str:
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
