"""Shows progress: a bar on a terminal, otherwise a plain line every ten seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from foretrain.cli.common import say
from foretrain.cli.terminal import console
from foretrain.core.progress import Listener, Progress, listening

LINE_EVERY = 10.0  # seconds


@contextmanager
def progress_shown(label: str) -> Iterator[None]:
    """Show the progress that the work inside this block reports, on stderr."""
    show = _bar if console(results=False).is_terminal else _lines
    with show(label) as listener, listening(listener):
        yield


@contextmanager
def _bar(label: str) -> Iterator[Listener]:
    columns: tuple[Any, ...] = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[doing]}", style="dim", markup=False),
    )
    with Bar(*columns, console=console(results=False), transient=True) as bar:
        task = bar.add_task(label, total=None, doing="")

        def listener(progress: Progress) -> None:
            if progress.inner:
                bar.update(task, doing=progress.doing)
            else:
                bar.update(task, completed=progress.done, total=progress.total, doing=progress.doing)

        yield listener


@contextmanager
def _lines(label: str) -> Iterator[Listener]:
    """Print a line every ten seconds, even without news: a log that stands still looks like a crash."""
    latest: dict[bool, Progress] = {}  # the overall count (False), and progress within one part (True)
    finished = threading.Event()
    started = time.monotonic()

    def print_lines() -> None:
        while not finished.wait(LINE_EVERY):
            say(_line(label, latest.get(False), latest.get(True), time.monotonic() - started))

    def listener(progress: Progress) -> None:
        latest[progress.inner] = progress
        if not progress.inner:
            latest.pop(True, None)

    thread = threading.Thread(target=print_lines, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        finished.set()
        thread.join()


def _line(label: str, count: Progress | None, inner: Progress | None, seconds: float) -> str:
    done = f"{count.done} of {count.total}" if count else "started"
    doing = inner.doing if inner else count.doing if count and count.doing != label else ""
    return f"{label}: {done} after {seconds:.0f} s{f'; {doing}' if doing else ''}"
