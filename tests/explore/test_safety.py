"""The server answers itself only, shows no debugger, and lets the page load nothing from elsewhere."""

from __future__ import annotations

import http.client
import json

import pytest

from foretrain.core.errors import InputError
from foretrain.explore.safety import LARGEST_REQUEST
from foretrain.explore.serving import HOST, Serving, prepare_server
from foretrain.explore.view import Places


def asked(serving: Serving, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(HOST, serving.port, timeout=10)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return connection.getresponse()


def test_it_listens_on_this_machine_only(serving: Serving) -> None:
    assert serving.server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "127.0.0.1:1", "evil.localhost", ""])
def test_other_hosts_are_refused(serving: Serving, host: str) -> None:
    assert asked(serving, "/", Host=host).status in (400, 403)


def test_its_own_names_are_answered(serving: Serving) -> None:
    for host in (f"127.0.0.1:{serving.port}", f"localhost:{serving.port}"):
        assert asked(serving, "/", Host=host).status == 200


def test_another_page_cannot_ask(serving: Serving) -> None:
    host = f"127.0.0.1:{serving.port}"
    assert asked(serving, "/_dash-layout", Host=host, Origin="http://example.org").status == 403
    assert asked(serving, "/_dash-layout", Host=host, Origin=f"http://{host}").status == 200


def test_the_policy_permits_only_this_server(serving: Serving) -> None:
    policy = str(asked(serving, "/").getheader("Content-Security-Policy"))
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for rule in ("default-src", "base-uri", "form-action", "frame-ancestors"):
        assert rules[rule] == "'none'"
    assert "unsafe" not in rules["script-src"]
    assert all(
        source in ("'self'", "'none'", "data:", "blob:", "'unsafe-inline'") or source.startswith("'sha256-")
        for sources in rules.values()
        for source in sources.split()
    )


def test_the_page_names_no_other_server(serving: Serving) -> None:
    page = asked(serving, "/").read().decode()
    assert "https://" not in page
    assert "plot.ly" not in page
    config = json.loads(page.split('id="_dash-config"')[1].split(">", 1)[1].split("</script>")[0])
    assert not config.get("ui")  # the developers' tools
    assert not config.get("hot_reload")


def test_files_beside_the_page_cannot_be_reached(serving: Serving) -> None:
    for path in ("/assets/../app.py", "/assets/%2e%2e/app.py", "/_dash-component-suites/dash/../../app.py"):
        answer = asked(serving, path)
        assert b"make_app" not in answer.read()


def test_a_port_that_is_taken_is_refused_in_a_sentence(serving: Serving) -> None:
    with pytest.raises(InputError, match=f"Port {serving.port} is taken"):
        prepare_server(Places(), serving.port)


def test_every_answer_tells_the_browser_to_be_careful(serving: Serving) -> None:
    for path in ("/", "/_dash-layout", "/no-such-page"):
        answer = asked(serving, path)
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("X-Frame-Options") == "DENY"
        assert answer.getheader("Referrer-Policy") == "no-referrer"
        assert answer.getheader("Cross-Origin-Opener-Policy") == "same-origin"
        assert answer.getheader("Cross-Origin-Resource-Policy") == "same-origin"


def test_a_request_that_fills_memory_is_refused(serving: Serving) -> None:
    connection = http.client.HTTPConnection(HOST, serving.port, timeout=10)
    headers = {"Content-Type": "application/json", "Content-Length": str(LARGEST_REQUEST + 1)}
    connection.putrequest("POST", "/_dash-update-component")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()  # the answer comes before the body
    assert connection.getresponse().status == 413
