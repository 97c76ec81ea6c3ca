"""Progress events from worker processes to the process that started them.

All workers write to one pipe without a lock: a write of a few hundred bytes to a pipe is atomic. So a worker that is
killed at any moment leaves no lock behind, and one that finds the pipe full drops the event and goes on working.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing import Pipe, connection
from typing import Any

from foretrain.core.progress import Listener, Progress, current_listener

LARGEST = 512  # bytes of an event: POSIX promises that writes up to this size are atomic


@contextmanager
def events_of_workers() -> Iterator[Any]:
    """The end of the pipe that workers write to; what they send reaches the current listener. None if there is none."""
    listener = current_listener()
    if listener is None or os.name == "nt":  # on Windows, with its other pipes, bars count finished pieces only
        yield None
        return
    (events, for_workers), (stopped, stop) = Pipe(duplex=False), Pipe(duplex=False)
    os.set_blocking(for_workers.fileno(), False)
    thread = threading.Thread(target=_pass_on, args=(events, stopped, listener), daemon=True)
    thread.start()
    try:
        yield for_workers
    finally:
        stop.close()  # the reading thread sees the end of this pipe, which no worker has
        thread.join(timeout=5)
        for end in (events, for_workers, stopped):
            end.close()


def send_event(events: Any, progress: Progress) -> None:
    """Send an event from a worker, if there is room for it."""
    short = {**asdict(progress), "doing": progress.doing[:200]}
    line = json.dumps(short, ensure_ascii=False).encode() + b"\n"
    if len(line) <= LARGEST:
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(events.fileno(), line)


def _pass_on(events: Any, stopped: Any, listener: Listener) -> None:
    rest = b""
    while True:
        ready = connection.wait([events, stopped])
        if events in ready:
            *lines, rest = (rest + os.read(events.fileno(), 1 << 16)).split(b"\n")
            for line in lines:
                with suppress(Exception):  # what a listener does wrong must not stop the work
                    listener(Progress(**json.loads(line)))
        elif stopped in ready:
            return
