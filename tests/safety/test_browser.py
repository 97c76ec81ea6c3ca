"""Hostile names in a real browser: nothing runs, nothing is requested, nothing leads out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from safety.pages import PAGES

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine; install it with apt or so")

# Opens everything, chooses every option, and asks for the links that are there afterwards.
LOOK = """() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  for (const one of document.querySelectorAll("select")) {
    for (const option of one.options) { option.selected = true; one.dispatchEvent(new Event("change")); }
  }
  const all = Array.from(document.querySelectorAll("*"));
  const links = all.flatMap((one) => ["href", "xlink:href", "src"].map((name) => one.getAttribute(name)));
  return links.filter((link) => link && !/^(#|data:|blob:)/.test(link));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright; install foretrain with its extra dev")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def _visit(browser: Any, file: Path, hover: bool = True) -> tuple[list[str], list[str]]:
    """What went wrong on a page, and the links on it."""
    troubles: list[str] = []
    page = browser.new_page()
    page.on("dialog", lambda dialog: (troubles.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("pageerror", lambda error: troubles.append(f"error {error}"))
    page.on("console", lambda m: troubles.append(f"console {m.text}") if m.type in ("error", "warning") else None)
    page.on("request", lambda r: None if _own(r.url, file) else troubles.append(f"request {r.url}"))
    page.goto(file.as_uri())
    links = page.evaluate(LOOK)
    for place in page.query_selector_all(".js-plotly-plot .nsewdrag")[:2] if hover else []:
        if place.is_visible():
            place.scroll_into_view_if_needed()
            place.hover(force=True)
    page.wait_for_timeout(150)
    links += page.evaluate(LOOK)
    if page.evaluate("window.harmed"):
        troubles.append("a script of a name has run")
    assert page.url == file.as_uri()
    page.close()
    return troubles, links


def _own(url: str, file: Path) -> bool:
    return url == file.as_uri() or url.startswith(("data:", "blob:"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAGES, "notebook"])
def test_hostile_names_do_no_harm(name: str, made: str, browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(made, encoding="utf-8")
    troubles, links = _visit(browser, file)
    assert troubles == []
    assert links == []


def test_harm_would_be_seen(browser: Any, tmp_path: Path) -> None:
    """The test above can fail: without escaping, each of these is noticed."""
    file = tmp_path / "page.html"
    for content, seen in (
        ("<script>window.harmed=1</script>", "a script of a name has run"),
        ('<img src=x onerror="window.harmed=1">', "request"),
        ("<script>alert(1)</script>", "dialog"),
        ("<script>nothing()</script>", "error"),
    ):
        file.write_text(f"<!doctype html>{content}", encoding="utf-8")
        assert seen in " ".join(_visit(browser, file)[0])
    file.write_text('<!doctype html><a href="https://example.org">a</a>', encoding="utf-8")
    assert _visit(browser, file)[1] == ["https://example.org"] * 2
