"""The command line: it reads what was typed, calls the library's own function, and prints."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import typer

from foretrain.cli.common import say, show
from foretrain.cli.groups import Lazy, LazyGroup
from foretrain.core.errors import InputError, visible_lines
from foretrain.core.workers import settle

YOURS, THEORY = "Your models and data", "Theory"


class Commands(LazyGroup):
    """All commands. A command's module is loaded when it is called, so that `foretrain --help` answers at once."""

    lazy: ClassVar = {
        "watch": Lazy("watching:watch", "Follow a training, with warnings.", YOURS),
        "analyze": Lazy("analyzing:analyze", "Measure a model or its checkpoints, and find faulty ones.", YOURS),
        "compare": Lazy("analyzing:compare", "See where two models or two runs differ.", YOURS),
        "forecast": Lazy("forecasting:forecast", "Fine-tuning, tasks, corpora: what will training do?", YOURS),
        "lab": Lazy("laboratory:lab", "Train a small language model; see what fires each neuron.", YOURS),
        "doctor": Lazy("doctoring:doctor", "Are the numbers right on your hardware?", YOURS, listed=False),
        "list": Lazy("listing:list_all", "The claims of every paper, or the experiments.", THEORY),
        "show": Lazy("listing:show", "One claim or experiment in full.", THEORY),
        "check": Lazy("checking:check", "Do the claims hold? With a report, if you like.", THEORY),
        "run": Lazy("running:run", "Compute an experiment, draw it, convert it.", THEORY),
        "explore": Lazy("exploring:explore", "Look at all of this with sliders, on a local page.", THEORY),
        "new-paper": Lazy("writing:new_paper", "Begin a package with claims of a paper of your own.", THEORY),
    }
    moved: ClassVar = {
        "report": "foretrain check --report FILE",
        "figure": "foretrain run EXPERIMENT --figure FILE",
        "export": "foretrain run RUN --to csv",
        "neurons": "foretrain lab neurons",
        "language": "foretrain lab language",
    }


app = typer.Typer(cls=Commands, rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        show(f"foretrain {version('foretrain')}")
        raise typer.Exit()
    return wanted


@app.callback()
def foretrain(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Says what training will do to an attention network, and checks it against what training did.

    \b
    Examples:
      foretrain watch run.jsonl
      foretrain forecast corpus texts.csv
      foretrain check "Theorem 4"
      foretrain run scan_snap/fig6 --figure fig6.html
      foretrain doctor --device cuda
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Exit codes: 0 done, 1 an unexpected verdict, 2 bad input or an error, 130 interrupted."""
    settle()  # before numpy and torch are loaded
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign gets a question mark
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # acts like Ctrl-C, so that finished work is saved
    words = list(sys.argv[1:] if arguments is None else arguments)
    log, speaker = logging.getLogger("foretrain"), _Speaker()
    log.addHandler(speaker)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            shown = warnings.showwarning
            warnings.showwarning = lambda message, category, *rest, **more: _say_warning(
                shown, message, category, *rest, **more
            )
            code = _exit_code(words or ["--help"])
    finally:
        log.removeHandler(speaker)
        log.setLevel(level)
    sys.exit(code)


class _Speaker(logging.Handler):
    """Says what the library logs."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def _say_warning(otherwise: Any, message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
    """Warnings of the library are sentences for whoever typed the command; others stay as Python shows them."""
    if issubclass(category, UserWarning):
        say(f"Note: {message}")
    else:
        otherwise(message, category, *rest, **more)


def _exit_code(arguments: list[str]) -> int:
    try:
        code = app(args=arguments, prog_name="foretrain", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        say(f"foretrain: {_sentence(error)}")
        return 2
    if code == 130:
        say("Interrupted; finished work is saved. Run the same command again to continue.")
    return code if isinstance(code, int) else 0


def _sentence(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    if hasattr(error, "format_message"):  # wrong commands or options
        message = str(error.format_message()).rstrip(". ")
        command = getattr(getattr(error, "ctx", None), "command_path", "foretrain")
        return f"{message}{' See' if message.endswith('?') else '; see'} {command} --help."
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename or 'a file'}."
    if os.environ.get("FORETRAIN_TRACEBACK"):
        print(visible_lines("".join(traceback.format_exception(error))), file=sys.stderr)
    where = traceback.extract_tb(error.__traceback__)[-1]
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    return (
        f"stopped with {type(error).__name__} at {where.filename}:{where.lineno}: {error}{'.' * bool(notes)}{notes} "
        "(set FORETRAIN_TRACEBACK=1 for the traceback)."
    )
