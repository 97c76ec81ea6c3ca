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
    forecasting,
    forecasting_corpus,
    language,
    listing,
    neurons,
    running,
    watching,
)
from foretrain.cli.common import say
from foretrain.core.errors import InputError
from foretrain.core.workers import settle

app = typer.Typer(rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"foretrain {version('foretrain')}")
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
    Examples:
      foretrain list                       list the claims of every paper
      foretrain show scan_snap/lemma6      show one claim in full
      foretrain check scan_snap --jobs 2   check the claims of one paper
      foretrain run scan_snap/fig6         compute an experiment, resumably
      foretrain figure scan_snap/fig6      draw it
      foretrain report                     write all verdicts to one HTML file
      foretrain watch run.jsonl            follow a training of your own
      foretrain analyze MODEL              measure a model or a series of checkpoints
      foretrain compare A B                see where two models or two runs differ
      foretrain language book.txt          train a small language model and watch it
      foretrain neurons MODEL --text FILE  see which patterns fire each neuron
    """


app.command("list")(listing.list_all)
app.command()(listing.show)
app.command()(checking.check)
app.command()(running.run)
app.command()(running.figure)
app.command()(checking.report)
app.command()(running.export)
app.command()(analyzing.analyze)
app.command()(analyzing.compare)
app.command()(watching.watch)
app.command()(language.language)
app.command()(neurons.neurons)
forecasting.forecast_app.command()(forecasting_corpus.corpus)
app.add_typer(forecasting.forecast_app, name="forecast")


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
        return f"{message}; see foretrain --help."
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename or 'a file'}."
    if os.environ.get("FORETRAIN_TRACEBACK"):
        traceback.print_exception(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"stopped with {type(error).__name__} at {where.filename}:{where.lineno}: {error} "
        "(set FORETRAIN_TRACEBACK=1 for the traceback)."
    )
