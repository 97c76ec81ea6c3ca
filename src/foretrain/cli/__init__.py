"""The command line. A command is a function in one of the modules here; what it needs it imports when called,
so that `foretrain --help` answers at once."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from foretrain.cli import checking, forecasting, forecasting_corpus, listing, running
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
    """Says what training will do to an attention network, and checks it against what training did.

    \b
    Examples:
      foretrain list                       every claim of every paper
      foretrain show scan_snap/lemma6      what one of them says
      foretrain check scan_snap --jobs 2   judge the claims of one paper
      foretrain run scan_snap/fig6         compute an experiment, resumably
      foretrain figure scan_snap/fig6      draw it
      foretrain report                     all verdicts in one HTML file
    """


app.command("list")(listing.list_all)
app.command()(listing.show)
app.command()(checking.check)
app.command()(running.run)
app.command()(running.figure)
app.command()(checking.report)
app.command()(running.export)
forecasting.forecast_app.command()(forecasting_corpus.corpus)
app.add_typer(forecasting.forecast_app, name="forecast")


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit codes: 0 done, 1 a verdict is not the expected one, 2 something cannot be used, 130 interrupted."""
    settle()  # before numpy and torch are loaded
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: finished work is saved
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_exit_code(given or ["--help"]))


def _exit_code(arguments: list[str]) -> int:
    try:
        code = app(args=arguments, prog_name="foretrain", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        say(f"foretrain: {_sentence(error)}")
        return 2
    if code == 130:
        say("Interrupted; what was finished is saved, and the same command goes on where it stopped.")
    return code if isinstance(code, int) else 0


def _sentence(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    if hasattr(error, "format_message"):  # the command line itself could not be understood
        message = str(error.format_message()).rstrip(". ")
        return f"{message}; see foretrain --help."
    if isinstance(error, OSError):
        return f"{error.strerror or error}: {error.filename or 'a file'}."
    if os.environ.get("FORETRAIN_TRACEBACK"):
        traceback.print_exception(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"stopped with {type(error).__name__} at {where.filename}:{where.lineno}: {error} "
        "(FORETRAIN_TRACEBACK=1 shows the way there)."
    )
