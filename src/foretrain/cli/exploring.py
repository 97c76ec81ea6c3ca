"""foretrain explore: a local page with sliders."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

from foretrain.cli.common import RUNS, Runs, option, say, show
from foretrain.core.errors import InputError, require

KEPT = ("A stored pass over a model and its texts, see forecast finetune --keep.", "FILE")


def explore(
    runs: Runs = RUNS,
    kept: Annotated[Path | None, option(*KEPT)] = None,
    port: Annotated[int, option("Port; 0 chooses a free one.", "N")] = 0,
    browser: Annotated[bool, option("Open the page.", None, "--browser/--no-browser")] = True,
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
    try:  # Dash is an extra, and help is there without it
        from foretrain.explore.registry import VIEWS
        from foretrain.explore.serving import prepare_server
        from foretrain.explore.view import Places
    except ModuleNotFoundError as error:
        if error.name not in ("dash", "flask", "werkzeug"):
            raise
        raise InputError("The explorer needs Dash; install it with pip install 'foretrain[web]'.") from error
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
