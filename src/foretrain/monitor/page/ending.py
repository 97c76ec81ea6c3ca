"""Whether a training that a file records is finished, was stopped by an error or killed, or is still running."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from foretrain.core.errors import visible
from foretrain.monitor.alarm_words import steps
from foretrain.runs.training_log import EVERY_STEP, FINISHED, PROCESS, STOPPED, Record, ending_of

RUNNING = "not yet"
RECENT, LONG = 5, 7200  # seconds since the last record


@dataclass(frozen=True)
class Ending:
    """How a training ended, if it did, in one sentence."""

    word: str
    sentence: str
    steps: int | None = None  # how many there were, where the file says so
    pending: Record | None = None  # what is known of the steps after the last record

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.word != RUNNING


def ending(file: Path) -> Ending:
    """How the training in this file ended."""
    last = ending_of(file)
    if FINISHED in last:
        return Ending("finished", "The training is finished.", int(last[FINISHED]), last.get(EVERY_STEP))
    if STOPPED in last:
        error, count = visible(str(last.get("error", "an error"))), int(last[STOPPED])
        sentence = f"The training was stopped by {error} after {steps(count)} steps."
        return Ending("stopped", sentence, count, last.get(EVERY_STEP))
    age = time.time() - file.stat().st_mtime
    if PROCESS in last and _is_gone(last[PROCESS]):
        return Ending("killed", f"The process was killed: it is gone and left no last line; last record {_ago(age)}.")
    return Ending(RUNNING, f"Last record {_ago(age)}.")


def _is_gone(process: Record) -> bool:
    """Whether a process of this machine no longer runs; of other machines nothing is known."""
    if process.get("host") != socket.gethostname() or os.name != "posix":
        return False
    try:
        os.kill(int(process["number"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _ago(seconds: float) -> str:
    if seconds < 90:
        return "just now" if seconds < RECENT else f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago; is the training still running?" if seconds < LONG else "hours ago"
