"""Progress: long work says how far it is, and the program that started it decides how to show that.

Work calls `tell`. Without a listener nothing happens, so that a library call prints nothing. `foretrain` on the command
line listens and draws a bar; events of worker processes reach it too (`core.workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far some work is: `done` of `total` pieces, and what it is doing in words."""

    done: int
    total: int
    doing: str = ""
    inner: bool = False  # within one piece of the work that is counted


Listener = Callable[[Progress], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_process_listener: Listener | None = None  # of a worker, whose tasks may run in any thread


def current_listener() -> Listener | None:
    """The current listener."""
    return _listener.get() or _process_listener


def tell(progress: Progress) -> None:
    """Tell the current listener how far the work is."""
    listener = current_listener()
    if listener is not None:
        listener(progress)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Hear what is told inside this block, in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def listen_for_good(listener: Listener) -> None:
    """Hear everything that is told in this process: for a worker, which passes it on."""
    global _process_listener
    _process_listener = listener
