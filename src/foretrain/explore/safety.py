"""What the page may load, and whom the server answers: itself, and nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Response, abort, request

if TYPE_CHECKING:
    from dash import Dash

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LARGEST_REQUEST = 2_000_000  # bytes; a pasted corpus is the largest


def policy(hashes: list[str]) -> str:
    """Everything comes from this server. Styles may be inline, because Plotly writes them; scripts must be known."""
    return (
        f"default-src 'none'; script-src 'self' {' '.join(hashes)}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def protect(app: Dash, hosts: frozenset[str]) -> None:
    """Refuse other hosts and foreign origins, and send the policy with every answer. Call it after all callbacks."""
    server: Any = app.server
    server.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST
    content_policy = policy(list(app.csp_hashes()))

    @server.before_request
    def refuse_strangers() -> None:
        if request.host not in hosts:
            abort(403, "This server answers only requests to its own address.")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            abort(403, "This server answers only its own page.")

    @server.after_request
    def guard(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = content_policy
        for name, value in HEADERS.items():
            response.headers[name] = value
        return response
