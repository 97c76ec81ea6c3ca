"""The report: complete, escaped, self-contained, and alive in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from foretrain import papers
from made_up.fixtures import Foretrain


class _Page(HTMLParser):
    """What a browser without JavaScript sees: tags with their attributes, text, and scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "script" in self._inside:
            attrs, so_far = self.scripts[-1]
            self.scripts[-1] = (attrs, so_far + data)
        elif "style" not in self._inside:
            self.text += data


PAGES: list[str] = []  # made once: it takes seconds


@pytest.fixture
def report(foretrain: Foretrain) -> str:
    if PAGES:
        return PAGES[0]
    printed = foretrain("check", "toy/[!s]*", "toy/surprise", "toy/stops", "--report", "report.html")
    assert printed.code == 1
    PAGES.append(Path("report.html").read_text())
    return PAGES[0]


def test_every_claim_has_a_card_with_all_it_should_say(report: str) -> None:
    page = _Page(report)
    cards = {attrs["id"]: attrs for tag, attrs in page.tags if attrs.get("class") == "claim"}
    shown = {name for name in papers.claims() if not name.startswith(("toy/slow", "toy/skips"))}
    assert set(cards) == shown - {"toy/misprint_corrected"}  # which shares the row of what it corrects
    assert "toy/misprint_corrected" in {attrs.get("id") for _, attrs in page.tags}
    assert cards["toy/misprint"]["data-status"] == "fails"
    assert cards["toy/misprint"]["data-surprise"] == "no"
    assert cards["toy/surprise"]["data-surprise"] == "yes"
    for words in (
        "6 of 8 verdicts as expected, 1 without an expected verdict at this tier",
        "torch",
        "A. Nobody. Made up & never printed.",
        "how fast <i>x</i> decays",
        "Printed 2ρ, right is ρ",
        "As printed",
        "Corrected",
        "the rate is above 0",
        "rate 2 <b>measured</b>",
        "the measurement slips",
        "rate = 2.0",
        "claims.py:",
        "2 of 9 runs diverged, the first at step 40.",
        ">1000× outside",
    ):
        assert words in page.text, words


def test_the_page_opens_with_the_story_and_the_errata(report: str) -> None:
    page = _Page(report)
    titles = ("Everything decays <i>slowly</i>.", "Wrong as printed", "The ledger")
    order = [page.text.rindex(words) for words in titles]
    assert order == sorted(order)
    for words in (
        "Decay takes twice as long",
        "It does not <u>hold</u>.",
        "How to read it",
        "Theorem 2, eq. 7",
    ):
        assert words in page.text, words
    assert [tag for tag, _ in page.tags if tag == "math"]
    picture = [attrs for _, attrs in page.tags if attrs.get("data-figure") == "toy/bounds:0"]
    assert len(picture) == 3  # in the story, in the ledger and among the figures


def test_the_contents_lead_to_every_section_of_every_paper(report: str) -> None:
    page = _Page(report)
    ids = {attrs.get("id") for _, attrs in page.tags}
    links = {str(attrs["href"])[1:] for tag, attrs in page.tags if tag == "a" and attrs.get("href")}
    assert links <= ids
    sections = {"stories", "errata", "findings", "ledger", "figures", "glossary"}
    assert sections | {f"{kind}-toy" for kind in ("story", "errata", "findings", "paper", "figures")} <= links


def test_long_sections_are_closed_unless_the_report_is_short(
    foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = {"errata-toy", "paper-toy", "figures-toy", "glossary"}
    for short in (True, False):
        monkeypatch.setattr("foretrain.show.report.page.SHORT", 12 if short else 1)
        assert foretrain("check", "toy/misprint", "toy/bounds", "--report", "report.html").code == 0
        tags = _Page(Path("report.html").read_text()).tags
        opened = {attrs["id"]: "open" in attrs for _, attrs in tags if "group" in str(attrs.get("class")).split()}
        assert {opened[group] for group in groups} == {short}


def test_hostile_words_stay_words(report: str) -> None:
    page = _Page(report)
    assert "On <script>alert('title')</script> & other toys" in page.text
    assert "<img src=x onerror=alert(2)>" in page.text  # in a formula
    assert "<img src=x onerror=alert(1)>" in page.text
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert not [attrs for _, attrs in page.tags if any(name.startswith("on") for name in attrs)]
    executable = [content for attrs, content in page.scripts if attrs.get("type") != "application/json"]
    assert len(executable) == 2  # Plotly and the page's own
    assert not any("alert(" in content for content in executable[1:])


def test_nothing_comes_from_elsewhere(report: str) -> None:
    page = _Page(report)
    for tag, attrs in page.tags:
        assert not attrs.get("src"), tag
        if tag not in ("a",):
            assert not attrs.get("href"), tag
        elif attrs.get("href"):
            assert str(attrs["href"]).startswith("#")
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'")
    assert len(report.encode()) < 15_000_000


def test_figures_are_there_once_and_readable(report: str) -> None:
    page = _Page(report)
    figures = {attrs["id"]: json.loads(text) for attrs, text in page.scripts if attrs.get("type") == "application/json"}
    places = [attrs["data-figure"] for _, attrs in page.tags if attrs.get("class") == "figure"]
    assert set(places) == {name for name in figures if name != "look"}
    assert len(places) >= 8
    assert all(figure["data"] for name, figure in figures.items() if name != "look")
    assert len(re.findall(r"\* plotly\.js v\d", report)) == 1


def test_report_uses_saved_verdicts_and_judges_what_is_missing(foretrain: Foretrain) -> None:
    foretrain("check", "toy/holds", "toy/bounds")
    saved = Path("runs/check/fast/toy/holds.json").read_bytes()
    Path("runs/check/fast/toy/bounds.json").unlink()
    printed = foretrain("check", "toy/holds", "toy/bounds", "--reuse", "--report", "new/report.html")
    assert printed.code == 0
    assert Path("runs/check/fast/toy/holds.json").read_bytes() == saved
    assert Path("runs/check/fast/toy/bounds.json").exists()
    assert "2 of 2 verdicts as expected" in Path("new/report.html").read_text()


def test_a_figure_that_cannot_be_drawn_costs_no_report(foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretrain.show.report.drawing.claim_figures", lambda *_: 1 / 0)
    assert foretrain("check", "toy/holds", "--report", "report.html").code == 0
    assert "The figure could not be drawn (ZeroDivisionError" in Path("report.html").read_text()


def test_too_many_points_are_thinned_until_the_page_is_small(
    foretrain: Foretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    foretrain("check", "toy/holds", "toy/matrix", "--report", "large.html")
    monkeypatch.setattr("foretrain.show.report.drawing.BUDGET", 8_000)
    foretrain("check", "toy/holds", "toy/matrix", "--reuse", "--report", "small.html")
    assert Path("small.html").stat().st_size < Path("large.html").stat().st_size - 10_000


@pytest.mark.slow
def test_in_a_browser_a_link_opens_its_card_and_draws_it(foretrain: Foretrain, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
    if browser is None:
        pytest.skip("no Chrome or Chromium on this machine")
    foretrain("check", "toy/bounds", "toy/surprise", "--report", "report.html")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom"]
    address = f"{(tmp_path / 'report.html').as_uri()}#toy/bounds"
    printed = subprocess.run([*command, address], capture_output=True, text=True, timeout=120, check=True)
    page = _Page(printed.stdout)
    opened = {attrs["id"]: "open" in attrs for _, attrs in page.tags if attrs.get("class") == "claim"}
    assert opened == {"toy/bounds": True, "toy/surprise": False}
    drawn = [attrs["data-figure"] for _, attrs in page.tags if attrs.get("data-drawn")]
    assert drawn == ["toy/bounds:0"]
    assert any("main-svg" in str(attrs.get("class")) for _, attrs in page.tags)
    assert "2 of 2 shown" in page.text or 'value="2 of 2 shown"' in printed.stdout


@pytest.mark.slow
def test_in_a_browser_links_and_search_open_what_they_lead_to_and_nothing_is_clipped(
    foretrain: Foretrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
    sync_api = pytest.importorskip("playwright.sync_api")
    if chromium is None:
        pytest.skip("no Chrome or Chromium on this machine")
    monkeypatch.setattr("foretrain.show.report.page.SHORT", 0)
    foretrain("check", "toy/[!s]*", "toy/surprise", "--report", "report.html")
    address = (tmp_path / "report.html").as_uri()
    complaints: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))

        def opened() -> set[str]:
            return set(page.evaluate("[...document.querySelectorAll('main details[open]')].map((place) => place.id)"))

        page.goto(address)
        assert opened() == set()
        assert page.evaluate("document.documentElement.scrollHeight") < 2500
        page.click(".contents a[href='#errata-toy']")
        assert opened() == {"errata-toy"}
        page.click("#errata-toy > summary")
        page.click(".contents a[href='#errata-toy']")  # the address stays; the link works all the same
        assert opened() == {"errata-toy"}
        page.goto(f"{address}#toy/misprint_corrected")
        assert {"paper-toy", "toy/misprint"} <= opened()
        page.wait_for_selector("[id='toy/misprint'] .figure[data-drawn]")

        page.goto("about:blank")
        page.goto(address)
        page.fill("#filters [name=text]", "theorem 2")
        assert {"errata-toy", "paper-toy"} <= opened()
        assert page.is_visible(".misprint[data-claim='toy/misprint']")
        assert page.is_visible("[id='toy/misprint']")
        assert not page.is_visible("[id='toy/surprise']")
        page.fill("#filters [name=text]", "xyzzy")
        assert page.is_visible("#nothing")
        page.fill("#filters [name=text]", "")
        assert opened() == set()

        page.evaluate("document.querySelectorAll('details').forEach((place) => { place.open = true; })")
        for width in (360, 768, 1280, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(OUTSIDE) == [], width
            side = page.evaluate("getComputedStyle(document.querySelector('.contents')).position")
            assert side == ("sticky" if width >= 1280 else "static")
        browser.close()
    assert complaints == []


# Words that reach over the edge of the screen, where nothing scrolls, or that are cut.
OUTSIDE = """() => [...document.querySelectorAll("body *:not(svg *, script)")].filter((place) => {
  const style = (of) => getComputedStyle(of).overflowX;
  const scrolls = (around) => around && (style(around) === "auto" || scrolls(around.parentElement));
  const cut = style(place) === "hidden" && place.scrollWidth > place.clientWidth + 1;
  const right = place.getBoundingClientRect().right;
  return !scrolls(place) && (cut || right > document.documentElement.clientWidth + 1);
}).map((place) => place.outerHTML.slice(0, 120))"""
