"""Serves the page on this machine only."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from werkzeug.serving import make_server

from foretrain.core.errors import InputError
from foretrain.explore.app import make_app
from foretrain.explore.view import Places

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Serving:
    """A server that is ready; `forever` answers until it is stopped."""

    server: Any
    port: int

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def forever(self) -> None:
        self.server.serve_forever()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def prepare_server(places: Places, port: int = 0) -> Serving:
    """A server at 127.0.0.1 and this port; 0 takes one that is free."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # no line per request
    try:
        server = make_server(HOST, port, _not_yet, threaded=True)
    except (OSError, SystemExit) as error:
        raise InputError(f"Port {port} is taken; give another with --port, or 0 for a free one.") from error
    app = make_app(places, frozenset({f"{HOST}:{server.server_port}", f"localhost:{server.server_port}"}))
    server.app = app.server
    return Serving(server, server.server_port)


def _not_yet(environ: Any, start_response: Any) -> list[bytes]:
    start_response("503 Service Unavailable", [])
    return [b""]
