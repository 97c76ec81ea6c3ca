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
from pathlib import Path
from typing import Any

from foretrain.core.errors import InputError
from foretrain.monitor.guard import is_first_process
from foretrain.runs.training_log import (
    FINISHED,
    PROCESS,
    STOPPED,
    Record,
    append_line,
    append_nothing,
    read_training,
)

_log = logging.getLogger("foretrain")


class TrainingFile:
    """Writes the records of one training; only the first process of a distributed one writes."""

    def __init__(self, wanted: Path, resume: bool) -> None:
        self.path, self.records = _opened(wanted, resume)
        self.steps = 0  # when it ends
        self._begun = self._ended = self._failed = False
        self._process = os.getpid()

    def finish_with(self, owner: Any) -> None:
        """Write the last line when this object is gone, or when Python exits."""
        weakref.finalize(owner, self.end)

    def add(self, record: Record) -> None:
        """Write a record. A disk that is full is no reason to stop someone's training: it is said once."""
        self._ended = False
        if not self._begun:
            record = {**record, PROCESS: {"host": socket.gethostname(), "number": os.getpid()}}
            self._begun = True
        self._write(record)

    def end(self, error: str | None = None) -> None:
        """Note that the training is finished, or by what kind of error it was stopped. A second call does nothing."""
        if self._ended or not self._begun or os.getpid() != self._process:  # a child process has a copy
            return
        self._ended = True
        error = error or _uncaught()
        self._write({FINISHED: self.steps} if error is None else {STOPPED: self.steps, "error": error})

    def _write(self, line: Record) -> None:
        if not is_first_process():
            return
        try:
            append_line(self.path, line)
        except InputError as error:
            if not self._failed:
                _log.error("%s Records from step %d on are not in the file.", error, self.steps)
            self._failed = True


def _uncaught() -> str | None:
    """The kind of error that ends this process, or by which a function is being left now."""
    kind = sys.exc_info()[0] or getattr(sys, "last_type", None)
    return None if kind is None or kind in (SystemExit, GeneratorExit, StopIteration) else kind.__name__


def _opened(file: Path, resume: bool) -> tuple[Path, list[Record]]:
    """The file to write to, and the records that are in it: none, unless its training is to go on."""
    beside, number = file, 1
    while beside.exists():
        records = read_training(beside)[0]
        if resume:
            return beside, records
        if not records:
            break
        number += 1
        beside = file.with_name(f"{file.stem}-{number}{file.suffix}")
    append_nothing(beside)  # now, not at the first record: the place may not be writable
    if beside != file and is_first_process():
        _log.warning(
            "%s holds another training, so this one is written to %s. To go on with the other one, give resume=True.",
            file, beside.name,
        )  # fmt: skip
    return beside, []
