"""Run every benchmark whose file name contains one of the words given, all by default; exit 1 if one misses.

Each runs in a process of its own, because memory that one leaves to the allocator makes the next one faster.
"""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module

import benchmarks
from benchmarks import Measured
from foretrain.core.workers import settle

ROW = "measured: "  # begins each line that a process prints for its parent


def main(words: list[str]) -> int:
    names = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith("bench_")]
    chosen = [name for name in names if not words or any(word in name for word in words)]
    if not chosen:
        print(f"No benchmark is named like {' or '.join(words)}; there are {', '.join(names)}.", file=sys.stderr)
        return 2
    measured = []
    for one in (one for name in chosen for one in alone(name)):
        print("  ".join(one.row()), flush=True)
        measured.append(one)
    rows = [("benchmark", "measured", "required", "", "detail"), *(one.row() for one in measured)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0 if all(one.ok for one in measured) else 1


def alone(name: str) -> Iterator[Measured]:
    """What a benchmark measures in a process of its own; one that fails is a miss."""
    command = [sys.executable, "-m", "benchmarks", "--in-this-process", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(ROW):
                yield Measured(**json.loads(line.removeprefix(ROW)))
            else:
                print(line, end="", flush=True)
    if process.returncode:
        yield Measured(f"{name} ended with exit code {process.returncode}", 1, 0, "failure", at_most=True)


def in_this_process(name: str) -> None:
    settle()  # as the command line does, before torch is loaded
    for one in import_module(f"benchmarks.{name}").measure():
        print(ROW + json.dumps(asdict(one)), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-this-process"]:
        in_this_process(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
