"""Fuzz every reader, each in a process of its own: `python -m fuzzing [--inputs N] [--seed N] [TARGET...]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fuzzing.processes import in_a_process
from fuzzing.running import MOST_MEMORY, Outcome, save


def main(arguments: list[str]) -> int:
    from fuzzing.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"any of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--inputs", type=int, default=110_000, help="over all targets (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/fuzzing"), help="folder for findings")
    given = parser.parse_args(arguments)
    unknown = set(given.targets) - set(TARGETS)
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    chosen = given.targets or list(TARGETS)
    shares = sum(TARGETS[name].share for name in chosen)
    outcomes = []
    for name in chosen:
        count = max(1, round(given.inputs * TARGETS[name].share / shares))
        outcomes.append(in_a_process(name, count, given.seed))
        for file in save(outcomes[-1], given.out):
            print(f"  finding: {file.read_text(encoding='utf-8').splitlines()[0]}\n           {file}", flush=True)
    _print_table(outcomes)
    return 1 if any(outcome.findings for outcome in outcomes) else 0


def _print_table(outcomes: list[Outcome]) -> None:
    rows = [
        [
            "target",
            "inputs",
            "accepted",
            "refused",
            "by the parser",
            "places",
            "findings",
            "slowest",
            "memory",
            "seconds",
        ]
    ]
    for one in outcomes:
        counts = (one.inputs, one.accepted, one.refused, one.by_parser, len(one.refusals), len(one.findings))
        used = (f"{one.slowest:.2f} s", f"{one.memory / 1e6:.0f} MB", f"{one.seconds:.0f}")
        rows.append([one.name, *(f"{count:,}" for count in counts), *used])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    total, found = sum(one.inputs for one in outcomes), sum(len(one.findings) for one in outcomes)
    print(f"{total:,} inputs, {found} findings; at most {MOST_MEMORY >> 20:,} MB and 5 s were allowed for each.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
