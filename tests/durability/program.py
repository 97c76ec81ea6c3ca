"""A program that has everything imported and runs foretrain's commands in forks of itself, which can be killed.

It reads one request per line (JSON), and writes what happens: `begun PID`, `w` before every operation of the command
that changes a file, `p` for every progress report, `ended STATUS`. A start of Python and torch per command would take
a hundred times as long as the commands themselves.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import foretrain.papers

LANGUAGE = "language" in sys.argv[1:]  # trainings need the real papers; sweeps and checks use made-up ones
if not LANGUAGE:  # at import, so that worker processes, which import this file anew, see the same papers
    foretrain.papers.__path__[:] = [str(Path(__file__).parents[1] / "made_up" / "papers")]

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
_EVENTS = os.dup(1) if __name__ == "__main__" else -1


def _say(word: str) -> None:
    os.write(_EVENTS, f"{word}\n".encode())


def _tell_changes(stop_before: int) -> None:
    """Say `w` before every operation that makes, changes, renames or removes a file; stop before one of them, and wait
    to be killed. Where a kill must not come too late, it cannot, however slow the killer is."""
    here, changes, one_at_a_time = os.getpid(), 0, threading.Lock()  # zarr writes in threads
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & writing
        if (opened or event in CHANGES) and os.getpid() == here:
            with one_at_a_time:
                changes += 1
                _say("w")
                if changes == stop_before:
                    os.kill(here, signal.SIGSTOP)

    sys.addaudithook(hook)


def _tell_progress() -> None:
    from foretrain.core import progress

    told = progress.tell

    def tell(now: progress.Progress) -> None:
        told(now)
        _say("p")

    for module in list(sys.modules.values()):
        if getattr(module, "tell", None) is told and module is not progress:
            module.tell = tell  # type: ignore[attr-defined]


def _set_clock(days: float) -> None:
    real = time.time
    time.time = lambda: real() + days * 86400  # type: ignore[assignment]


def _obey(request: dict[str, Any]) -> None:
    """In the fork: become the command."""
    os.setsid()
    os.chdir(request["folder"])
    said = os.open(request["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(said, stream)
    if request.get("largest_file"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"],) * 2)
    if request.get("clock"):
        _set_clock(request["clock"])
    if request["arguments"][:2] == ["lab", "language"]:
        import foretrain.language.training as training

        training.SAVE_EVERY = 0.0  # a state after every step: training that mostly writes
    if request.get("watched"):
        _tell_progress()
        _tell_changes(request["stop_before"])
    from foretrain.cli import main

    main(request["arguments"])


def _exit_code(error: SystemExit) -> int:
    return error.code if isinstance(error.code, int) else 1


def _warm_up() -> None:
    """Import everything that commands import when they are called."""
    from foretrain.cli import main

    if LANGUAGE:
        import foretrain.language.text
        import foretrain.language.training
        import foretrain.monitor.page.story
        import foretrain.monitor.page.writing
        import foretrain.runs.sweep
        from foretrain.language.made_up import made_up_text
        from foretrain.language.models import build
        from foretrain.language.setting import LanguageSetting

        setting = LanguageSetting(layers=1, width=8, heads=2, hidden=8, tokens="words", vocabulary=40, context=8)
        torch_model = build(setting, 40)
        foretrain.language.training.make_optimizer(torch_model, setting)
        foretrain.language.text.tokenize((made_up_text(100), made_up_text(100, seed=1)), setting)
        return
    import zarr  # noqa: F401, not used before the fork: it starts a thread

    import foretrain.api.sweep
    import foretrain.runs.sweep
    import foretrain.show.report

    quiet = open(os.devnull, "w")  # noqa: SIM115, for as long as the program runs
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(quiet), redirect_stderr(quiet), suppress(SystemExit):
        main(["check", "toy/holds", "toy/means", "--runs", folder])


def serve() -> None:
    _warm_up()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _say("ready")
    for line in sys.stdin:
        request = json.loads(line)
        waiting, go = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.read(waiting, 1)  # so that `begun` comes before everything else
                _obey(request)
            except SystemExit as error:
                code = _exit_code(error)
            finally:
                with suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(code)
        _say(f"begun {child}")
        os.write(go, b"!")
        os.close(waiting)
        os.close(go)
        _, status = os.waitpid(child, 0)  # reaped at once: a dead process must not look alive to the next one
        _say(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    serve()
