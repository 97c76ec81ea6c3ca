"""A running explorer, and a real browser in which every error and every request to another machine is a failure."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foretrain.core.trajectory import save, trajectory
from foretrain.explore.serving import Serving, prepare_server
from foretrain.explore.view import Places

CHROMIUM = os.environ.get("FORETRAIN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one verdict, its trajectories, and a secret beside it that must not be reached."""
    from foretrain import papers
    from foretrain.ledger.verdict_store import VerdictFolder, judge_all

    above = tmp_path_factory.mktemp("explore")
    (above / "secret.jsonl").write_text('{"step": 1, "loss": 0.123456}\n')
    claims = [papers.claim("scan_snap/theorem4"), papers.claim("scan_snap/theorem4_corrected")]
    folder = VerdictFolder(above / "runs", "fast")
    name = folder.begin([claim.id for claim in claims])
    for _ in judge_all(claims, folder, check=name):
        pass
    folder.finish(name, [claim.id for claim in claims])
    for name, factor in (("one", 1.0), ("two", 0.5)):
        lines = [training_line(step, factor) for step in range(0, 200, 10)]
        (above / "runs" / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    save(trajectory({"error": ("time", [4.0, 2.0, 1.0])}, {"time": [0, 1, 2]}), above / "runs" / "kept" / "small.nc")
    (above / "runs" / "out.jsonl").symlink_to(above / "secret.jsonl")
    return above / "runs"


def training_line(step: int, factor: float) -> dict[str, Any]:
    """A monitored step: the loss falls, and so does the entropy of two heads."""
    entropy = [1 - factor * step / 400, 1 - factor * step / 800]
    measured = {"entropy": entropy, "relative_entropy": entropy}
    attention = {"<b>first</b>": measured, "second": measured}
    return {"step": step, "loss": 2.0 - factor * step / 200, "attention": attention}


@pytest.fixture(scope="session")
def places(runs: Path) -> Places:
    return Places(runs)


@pytest.fixture(scope="session")
def serving(places: Places) -> Iterator[Serving]:
    serving = prepare_server(places)
    thread = threading.Thread(target=serving.forever, daemon=True)
    thread.start()
    yield serving
    serving.stop()
    thread.join(5)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Closed after each module: while it is open, nothing else in this process can open one, or run an event loop."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; set FORETRAIN_CHROMIUM to one")
    library = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed; pip install playwright")
    with library.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visit:
    """A page of the explorer, and all that went wrong on it."""

    def __init__(self, page: Any, serving: Serving) -> None:
        self.page, self.serving, self.wrong = page, serving, []
        self.pending, self.moved = 0, time.monotonic()
        page.on("requestfinished", lambda _: self._done())
        page.on("requestfailed", lambda _: self._done())
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", self._request)
        page.on("response", lambda r: self.wrong.append(f"{r.status} {r.url}") if r.status >= 400 else None)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text}")

    def _done(self) -> None:
        self.pending, self.moved = self.pending - 1, time.monotonic()

    def _request(self, request: Any) -> None:
        self.pending, self.moved = self.pending + 1, time.monotonic()
        if not request.url.startswith((self.serving.address, "data:", "blob:")):
            self.wrong.append(f"request to {request.url}")

    def open(self, path: str) -> Visit:
        self.page.goto(self.serving.address + path)
        return self.settled()

    def settled(self, quiet: float = 0.25) -> Visit:
        """Wait until nothing is asked, computed or drawn, for longer than a slider waits between two values."""
        self.moved, until = time.monotonic(), time.monotonic() + 120
        while time.monotonic() < until:
            self.page.wait_for_timeout(50)
            at_rest = self.pending == 0 and time.monotonic() - self.moved > quiet
            drawn = self.page.locator(".dash-graph--pending").count() == 0  # Dash hides a figure until it is drawn
            if at_rest and drawn and self.page.locator(".waiting[hidden]").count():
                return self
        raise AssertionError("the page does not come to rest")

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    @property
    def query(self) -> str:
        return str(self.page.url.partition("?")[2])


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    """One for all visits of a module: scripts are loaded once, as for a person who comes back."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def visit(context: Any, serving: Serving) -> Iterator[Visit]:
    visit = Visit(context.new_page(), serving)
    yield visit
    visit.page.evaluate("localStorage.clear()")
    visit.page.close()
    assert visit.wrong == []
