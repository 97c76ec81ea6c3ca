"""Peak memory of a process, or of a part of it."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

_ALONE = """
import sys
from contextlib import suppress
from benchmarks.memory import peak_memory, restart_peak
restart_peak()
with suppress(SystemExit):
    exec(sys.argv[1], {"__name__": "__main__"})
print("peak", peak_memory())
"""
_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def restart_peak() -> None:
    """Let the peak begin at what is held now. A child process otherwise begins at its parent's peak.

    Only Linux can do this; elsewhere the peak is that of the whole process.
    """
    if _CLEAR.exists():
        _CLEAR.write_text("5")


def peak_memory() -> float:
    """The peak of this process since `restart_peak`, in bytes."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024.0 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def peak_of(code: str) -> float:
    """The peak in bytes of a process of its own that runs this code and nothing else."""
    done = subprocess.run([sys.executable, "-c", _ALONE, code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])
