"""foretrain explore: a local page with sliders."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from foretrain.cli.common import RUNS, Runs, say, show
from foretrain.core.errors import InputError, require


def explore(
    runs: Runs = RUNS,
    kept: Annotated[
        Path | None,
        typer.Option(help="A stored pass over a model and its texts, see forecast finetune --keep.", metavar="FILE"),
    ] = None,
    port: Annotated[int, typer.Option(help="Port; 0 chooses a free one.", metavar="N")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Open a local page to look at theory, simulations, forecasts and runs, with sliders.

    The page is for this machine only, and loads nothing from the network. Ctrl-C stops it.

    \b
    Examples:
      foretrain explore
      foretrain explore --runs my-runs --port 8050 --no-browser
    """
    require(0 <= port <= 65535, f"--port must lie between 0 and 65535; got {port}.")
    require(kept is None or kept.is_file(), f"There is no file {kept}; write one with forecast finetune --keep.")
    try:
        from foretrain.explore.serving import prepare_server
    except ModuleNotFoundError as error:
        if error.name not in ("dash", "flask", "werkzeug"):
            raise
        raise InputError("The explorer needs Dash; install it with pip install 'foretrain[web]'.") from error
    from foretrain.explore.registry import VIEWS
    from foretrain.explore.view import Places

    places = Places(runs, kept)
    for view in VIEWS.values():
        view.controls(places)  # a file that cannot be used is refused now, not on the page
    serving = prepare_server(places, port)
    show(serving.address)
    say("Press Ctrl-C to stop.")
    if browser:
        webbrowser.open(serving.address)
    try:
        serving.forever()
    except KeyboardInterrupt:
        say("The explorer has stopped.")
    finally:
        serving.server.server_close()
