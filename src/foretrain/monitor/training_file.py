"""The file that a monitored training is written to: one training in one file, and a last line that says how it ended.

A process that ends normally finishes its file, without a line of the user's: when the monitor is let go of, or when
Python exits. If an error ends the process, the line says so. A process that is killed leaves no such line, and whoever
reads the file knows by its process number that it is gone.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from foretrain.core.errors import InputError
from foretrain.monitor.guard import is_first_process
from foretrain.runs.training_log import (
    EVERY_STEP,
    FINISHED,
    PROCESS,
    STOPPED,
    Record,
    append_line,
    append_nothing,
    read_training,
)

_log = logging.getLogger("foretrain")
LONGEST = 200  # characters of an error that are kept
ENDINGS = (SystemExit, GeneratorExit, StopIteration)  # by which nothing fails


class TrainingFile:
    """Writes the records of one training; only the first process of a distributed one writes."""

    def __init__(self, wanted: Path, resume: bool) -> None:
        self.path, self.records, self._claim = _opened(wanted, resume)
        self.steps = 0  # when it ends
        self.pending: Callable[[], Record] = dict  # what is known of the steps since the last record
        self._begun = self._ended = self._failed = False
        self._process = 0  # that writes
        self._earlier = _errors()  # of another time, such as that of an earlier cell of a notebook

    def finish_with(self, owner: Any) -> None:
        """Write the last line when this object is gone, or when Python exits."""
        weakref.finalize(owner, self.end)

    def add(self, record: Record) -> None:
        """Write a record. A disk that is full is no reason to stop someone's training: it is said once."""
        self._ended = False
        if not self._begun:
            self._begun, self._process = True, os.getpid()
            record = {**record, PROCESS: {"host": socket.gethostname(), "number": self._process}}
        self._write(record)

    def end(self, error: str | None = None, *, known: bool = False) -> None:
        """Note that the training is finished, or by what it was stopped. A second call does nothing.

        Unless it is `known` how the training ended, an error that is being handled now has ended it.
        """
        if self._ended or not self._begun or os.getpid() != self._process:  # a child process has a copy
            return
        self._ended = True
        error = error if known else self._uncaught()
        line: Record = {FINISHED: self.steps} if error is None else {STOPPED: self.steps, "error": error}
        with suppress(Exception):  # as Python exits, a device may be gone already
            pending = self.pending()
            line |= {EVERY_STEP: pending} if pending else {}
        self._write(line)
        self._claim.close()

    def _uncaught(self) -> str | None:
        """The error that ends this process, or by which a function is being left now."""
        for error, earlier in zip(_errors(), self._earlier, strict=True):
            if error is not None and error is not earlier and not isinstance(error, ENDINGS):
                return described(type(error), error)
        return None

    def _write(self, line: Record) -> None:
        if not is_first_process():
            return
        try:
            append_line(self.path, line)
        except InputError as error:
            if not self._failed:
                _log.error("%s Records from step %d on are not in the file.", error, self.steps)
            self._failed = True


def described(kind: type[BaseException], error: BaseException | None) -> str:
    """An error in one short line."""
    message = str(error or "").strip().splitlines()
    return f"{kind.__name__}: {message[0]}"[:LONGEST] if message else kind.__name__


def _errors() -> tuple[BaseException | None, BaseException | None]:
    """The error that is being handled now, and the last one that nobody has handled."""
    return sys.exc_info()[1], getattr(sys, "last_value", None)


class _Claim:
    """Keeps a file for one training as long as that lives, by a lock that the system takes back when a process dies.

    Where there are no such locks, as on Windows, a file is kept by its records only.
    """

    def __init__(self, file: Path) -> None:
        self.taken = False
        self._stream = open(file, "ab")  # noqa: SIM115  (it is closed when the training ends)
        weakref.finalize(self, self._stream.close)
        with suppress(ImportError):
            import fcntl

            try:
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.taken = True

    def close(self) -> None:
        """Let others have the file."""
        self._stream.close()


class _NoClaim:
    taken = False

    def close(self) -> None:
        """There is nothing to let go of."""


def _opened(file: Path, resume: bool) -> tuple[Path, list[Record], _Claim | _NoClaim]:
    """The file to write to, and the records that are in it: none, unless its training is to go on."""
    if not is_first_process():
        return file, read_training(file)[0] if resume and file.exists() else [], _NoClaim()
    beside, number = file, 1
    while True:
        records = read_training(beside)[0] if beside.exists() else []
        append_nothing(beside)  # now, not at the first record: the place may not be writable
        claim = _Claim(beside)
        if resume or not (records or claim.taken):
            break
        claim.close()
        number += 1
        beside = file.with_name(f"{file.stem}-{number}{file.suffix}")
    if beside != file:
        _log.warning(
            "%s holds another training, so this one is written to %s. To go on with the other one, give resume=True.",
            file, beside.name,
        )  # fmt: skip
    return beside, records if resume else [], claim
