"""Runs a target over many inputs and keeps what went wrong."""

from __future__ import annotations

import csv
import hashlib
import resource
import signal
import sys
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import foretrain
from foretrain.core.errors import InputError

PACKAGE = Path(foretrain.__file__).resolve().parent
MOST_SECONDS = 5.0  # of computing, per input
MOST_WAITING = 30.0  # seconds by the clock, which other work on the machine may slow down
MOST_MEMORY = 1 << 30  # bytes of the whole process
LIBRARIES = 500_000_000  # bytes of a process that has loaded what foretrain uses
LONGEST_REFUSAL = 2000  # characters
PARSERS = (ValueError, EOFError, OSError, RecursionError, csv.Error, zlib.error)  # what the parsers raise


@dataclass(frozen=True)
class Target:
    """One kind of input: what to try, how to write it down, and who reads it."""

    name: str
    inputs: st.SearchStrategy[Any]
    read: Callable[[Any], None]  # returns, or refuses with an InputError
    share: float = 1.0  # how many inputs, relative to the others


@dataclass
class Outcome:
    """What came of the inputs of one target."""

    name: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    by_parser: int = 0  # of the refused: what no parser could read
    refusals: Counter[str] = field(default_factory=Counter)  # by where they were raised
    findings: dict[str, str] = field(default_factory=dict)  # where -> the first input and its traceback
    slowest: float = 0.0
    seconds: float = 0.0
    memory: int = 0  # bytes, the most that the process ever had


class TooSlow(BaseException):
    """An input took too long; a BaseException, so that no reader takes it for a refusal."""


def run(target: Target, count: int, number: int, *, show: Callable[[Outcome], None] | None = None) -> Outcome:
    """Try `count` inputs; `number` is the seed."""
    outcome, started, before = Outcome(target.name), time.perf_counter(), _start_counting()
    shown = started

    def one(value: Any) -> None:
        nonlocal shown
        _try(target, value, outcome)
        outcome.seconds = time.perf_counter() - started
        if show is not None and time.perf_counter() - shown > 10:
            shown = time.perf_counter()
            show(outcome)

    loop = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    seed(number)(loop(given(target.inputs)(one)))()
    outcome.memory = _peak() - before
    if outcome.memory > MOST_MEMORY:
        outcome.findings["memory"] = f"the process had {outcome.memory / 1e9:.2f} GB"
    return outcome


def _try(target: Target, value: Any, outcome: Outcome) -> None:
    before = time.process_time()
    outcome.inputs += 1
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(value)
        outcome.accepted += 1
    except InputError as error:
        outcome.refused += 1
        outcome.by_parser += _is_of_a_parser(_cause(error).__cause__)
        outcome.refusals[_where(_cause(error))] += 1
        if len(str(error)) > LONGEST_REFUSAL:
            _find(outcome, f"a refusal that fills the screen at {_where(error)}", value, error)
    except (Exception, TooSlow) as error:
        _find(outcome, f"{type(error).__name__} at {_where(error)}", value, error)
    taken = time.process_time() - before
    if taken > MOST_SECONDS and not any(what.startswith("TooSlow") for what in outcome.findings):
        _find(outcome, "TooSlow, and the alarm was not heard", value, TooSlow(f"{taken:.1f} s"))
    outcome.slowest = max(outcome.slowest, taken)


def _find(outcome: Outcome, what: str, value: Any, error: BaseException) -> None:
    if what not in outcome.findings:
        report = "".join(traceback.format_exception(error, limit=-12))
        outcome.findings[what] = f"{value!r}\n\n{report[-6000:]}"


def _cause(error: BaseException) -> BaseException:
    """The refusal that a refusal was made from: that of a value, before the name of its file was added."""
    return _cause(error.__cause__) if isinstance(error.__cause__, InputError) else error


def _is_of_a_parser(error: BaseException | None) -> bool:
    return isinstance(error, PARSERS) and not isinstance(error, ValidationError)  # which judges what was parsed


def _where(error: BaseException) -> str:
    """The last line of the package that an error passed through, as file:line within the package."""
    lines = [
        (path.relative_to(PACKAGE), frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if (path := Path(frame.filename).resolve()).is_relative_to(PACKAGE)
    ]
    raising = [line for line in lines if line[0] != Path("core/errors.py")] or lines
    return f"{raising[-1][0].as_posix()}:{raising[-1][1]}" if raising else "?"


@contextmanager
def _limited() -> Iterator[None]:
    """Stop an input that takes too long, or more memory than the process may have."""

    def stop(*_: Any) -> None:
        raise TooSlow(f"more than {MOST_SECONDS:g} s")

    timers = {
        signal.ITIMER_PROF: (signal.SIGPROF, MOST_SECONDS),
        signal.ITIMER_REAL: (signal.SIGALRM, MOST_WAITING),
    }
    before = {number: signal.signal(number, stop) for number, _ in timers.values()}
    for timer, (_, seconds) in timers.items():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def limit_memory() -> None:
    """Let this process have no more data than `MOST_MEMORY`; asking for more is a MemoryError, and a finding."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, hard))


def _start_counting() -> int:
    """Forget the largest size of this process so far; gives what it has beyond a program with its libraries.

    Tests run in a process that other tests have made large. That is not what an input took.
    """
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is now what is there
    return max(0, _peak() - LIBRARIES)


def _peak() -> int:
    """The largest size of this process, in bytes."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def save(outcome: Outcome, folder: Path) -> list[Path]:
    """Write every finding to a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for what, content in outcome.findings.items():
        name = hashlib.sha256(what.encode()).hexdigest()[:8]
        files.append(folder / f"{outcome.name}-{name}.txt")
        files[-1].write_text(f"{what}\n\n{content}\n", encoding="utf-8", errors="backslashreplace")
    return files
