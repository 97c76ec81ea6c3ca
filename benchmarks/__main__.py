"""Run every benchmark whose file name contains one of the words given, all by default; exit 1 if one misses."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module

import benchmarks
from foretrain.core.workers import settle


def main(words: list[str]) -> int:
    settle()  # as the command line does, before torch is loaded
    names = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith("bench_")]
    chosen = [name for name in names if not words or any(word in name for word in words)]
    if not chosen:
        print(f"No benchmark is named like {' or '.join(words)}; there are {', '.join(names)}.", file=sys.stderr)
        return 2
    measured = []
    for name in chosen:
        for one in import_module(f"benchmarks.{name}").measure():
            print("  ".join(one.row()), flush=True)
            measured.append(one)
    rows = [("benchmark", "measured", "required", "", "detail"), *(one.row() for one in measured)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0 if all(one.ok for one in measured) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
