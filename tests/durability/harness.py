"""Runs foretrain's commands where they can be killed, and compares what they leave on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("program.py")
LEFT_BEHIND = ("*.part", "*.partial", "sweep.zarr.*")


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (minus the signal), what it printed, and how many events it reported."""

    code: int
    said: str
    events: int


class Commands:
    """Commands of foretrain, each in a process of its own."""

    def __init__(self, folder: Path, *, language: bool = False) -> None:
        self.said = folder / "said.txt"
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *(["language"] if language else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            text=True,
        )

    def event(self) -> str:
        assert self.process.stdout is not None
        event = self.process.stdout.readline().strip()
        assert event, "the program that starts commands is gone"
        return event

    def run(self, *arguments: str, folder: Path, kill: Kill | None = None, **more: Any) -> Ended:
        """Run a command to its end, or kill it as told."""
        request = {"arguments": arguments, "folder": str(folder), "said": str(self.said), **more}
        request["watched"] = more.get("watched", False) or kill is not None
        request["stop_before"] = kill.after if kill and kill.event == "w" and kill.delay == 0 else 0
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        pid, events = int(self.event().removeprefix("begun ")), 0
        while not (event := self.event()).startswith("ended"):
            if event == (kill.event if kill else "w"):
                events += 1
                if kill is not None and events == kill.after:
                    time.sleep(kill.delay)
                    with suppress(ProcessLookupError):
                        (os.killpg if kill.everyone else os.kill)(pid, signal.SIGKILL)
        said = self.said.read_text(errors="replace")
        assert "Traceback" not in said, said
        assert "stopped with" not in said, said
        return Ended(int(event.removeprefix("ended ")), said, events)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@dataclass(frozen=True)
class Kill:
    """SIGKILL a moment after the command has reported an event so many times.

    Without delay, the command stops itself right before that change of a file, and is killed there.
    """

    after: int  # events
    delay: float  # seconds
    event: str = "w"  # an operation that changes a file, or "p": a report of progress
    everyone: bool = True  # also the worker processes

    @classmethod
    def draw(cls, draw: np.random.Generator, events: int, event: str = "w", longest: float = 0.004) -> Kill:
        everyone = bool(draw.integers(2))
        return cls(int(draw.integers(1, events + 1)), float(draw.uniform(0, longest)), event, everyone)


@contextmanager
def commands(folder: Path, **more: Any) -> Iterator[Commands]:
    made = Commands(folder, **more)
    try:
        assert made.event() == "ready"
        yield made
    finally:
        made.close()


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names of files that only one has, or that differ."""
    return sorted(name for name in one.keys() | other.keys() if not same(one.get(name), other.get(name)))


def same(one: Any, other: Any) -> bool:
    """Equal to the bit; nan equals nan."""
    return bytes(json.dumps(one, default=repr), "utf-8") == bytes(json.dumps(other, default=repr), "utf-8")


def left_behind(folder: Path) -> list[str]:
    """Temporary files and folders."""
    return [path.relative_to(folder).as_posix() for pattern in LEFT_BEHIND for path in folder.rglob(pattern)]


def tries(sample: int, full: int) -> pytest.MarkDecorator:
    """Run a test with a small number of tries, and with the whole number at `make test-full`."""
    return pytest.mark.parametrize("number", [sample, pytest.param(full, marks=pytest.mark.full)])
