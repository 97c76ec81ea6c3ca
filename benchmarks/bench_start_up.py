"""Start-up: what one claim costs from a cold start, in CPU seconds of a process of its own.

Where Dask is installed, xarray loads it when it saves a file. Most people do not have it, so the required numbers are
those without it; the one with it is beside them.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import Measured

REPEATS = 5
CLAIM = "scan_snap/lemma6"
WITHOUT_DASK = "import sys; sys.modules['dask'] = sys.modules['distributed'] = None; "
COMMAND = "import sys; from foretrain.cli import main; main(sys.argv[1:])"


def measure() -> Iterator[Measured]:
    nothing = _cpu_seconds(["-c", "pass"])
    with TemporaryDirectory() as folder:
        runs = str(Path(folder) / "runs")
        check = ["check", CLAIM, "--runs", runs]
        for name, command, most in (
            ("import foretrain", ["-c", "import foretrain"], 0.15),
            (f"foretrain show {CLAIM}", ["-c", WITHOUT_DASK + COMMAND, "show", CLAIM], 1.5),
            (f"foretrain check {CLAIM}", ["-c", WITHOUT_DASK + COMMAND, *check], 1.5),
            ("the same, with Dask installed", ["-c", COMMAND, *check], None),
            ("foretrain list, every paper", ["-c", WITHOUT_DASK + COMMAND, "list"], None),
        ):
            seconds = _cpu_seconds(command)
            yield Measured(name, seconds, most, unit="s", at_most=True, detail=f"of them Python itself {nothing:.2f} s")


def _cpu_seconds(arguments: list[str]) -> float:
    times = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return median(times)
