"""The command line. Each command is a function in one of these modules. It imports what it needs when it is called, so
that `foretrain --help` answers at once."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from foretrain.cli import (
    analyzing,
    checking,
    exploring,
    forecasting,
    language,
    listing,
    neurons,
    running,
    watching,
)
from foretrain.cli.common import say, show
from foretrain.cli.helping import Command, Group
from foretrain.core.errors import InputError, visible_lines
from foretrain.core.workers import settle

app = typer.Typer(cls=Group, rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)


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
    """Predicts what training will do to an attention network, and checks predictions against real training.

    \b
    You train or fine-tune models:
      foretrain forecast finetune MODEL DATA  what will fine-tuning bring?
      foretrain watch run.jsonl               follow a training, with warnings
      foretrain analyze MODEL                 measure a model or its checkpoints
      foretrain compare A B                   see where two models differ
      foretrain language book.txt             train a small language model
      foretrain neurons MODEL --text FILE     see what fires each neuron

    \b
    You label data or design tasks:
      foretrain forecast corpus texts.csv     which words will a classifier use?
      foretrain forecast templates task.toml  will a network learn this?

    \b
    You study theory (a claim: a statement of a paper that a program checks):
      foretrain list                          the claims of every paper
      foretrain show scan_snap/theorem4       one of them in full
      foretrain check scan_snap --jobs 2      do they hold?
      foretrain report                        verdicts and errata on one page
      foretrain run scan_snap/fig6            compute an experiment, resumably
      foretrain figure scan_snap/fig6         draw it
      foretrain explore                       look at all of this with sliders
    """


app.add_typer(forecasting.forecast_app, name="forecast")
app.command("list", cls=Command)(listing.list_all)
for command in (
    watching.watch, analyzing.analyze, analyzing.compare, language.language, neurons.neurons,
    listing.show, checking.check, checking.report, running.run, running.figure, running.export,
    exploring.explore,
):  # fmt: skip
    app.command(cls=Command)(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Exit codes: 0 done, 1 an unexpected verdict, 2 bad input or an error, 130 interrupted."""
    settle()  # before numpy and torch are loaded
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign gets a question mark
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # acts like Ctrl-C, so that finished work is saved
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_exit_code(words or ["--help"]))


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
