"""The documentation site builds without a warning, loads nothing from elsewhere, and shows every claim."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from scripts import paper_pages, site
from scripts.verdicts import IMAGES, kept, pictured

from foretrain.papers import claims, experiments, papers

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(r"^(?:https?:)?//")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}  # attributes that fetch


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class _Requests(HTMLParser):
    """Addresses that a browser fetches when it opens the page, not those that a reader may click on."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and values.get("rel") != "canonical":
            self.addresses.append(values.get("href") or "")
        if tag in LOADS:
            self.addresses.append(values.get(LOADS[tag]) or "")


def _requests(html: str) -> list[str]:
    parser = _Requests()
    parser.feed(html)
    return parser.addresses


def test_a_request_is_recognised() -> None:
    html = (
        '<a href="https://a.org">a</a><script src="https://b.org/x.js"></script><link rel="stylesheet" href="//c.org">'
    )
    assert [address for address in _requests(html) if ELSEWHERE.match(address)] == ["https://b.org/x.js", "//c.org"]


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(built: Path) -> None:
    pages = list(built.rglob("*.html"))
    assert len(pages) > 40
    foreign = {(page.name, a) for page in pages for a in _requests(page.read_text("utf-8")) if ELSEWHERE.match(a)}
    assert foreign == set()
    styles = [
        path for path in built.rglob("*.css") if re.search(r"url\(\s*[\"']?https?:|@import", path.read_text("utf-8"))
    ]
    assert styles == []
    assert "__index" in (built / "search" / "search_index.js").read_text("utf-8")[:100]


class _Anchors(HTMLParser):
    """What a page can be entered at, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        if tag == "a" and not re.match(r"[a-z]+:|//", values.get("href") or "//"):
            self.links.append(unquote(str(values["href"])))


def _broken_links(folder: Path) -> list[tuple[str, str]]:
    pages = {page.resolve(): _Anchors() for page in folder.rglob("*.html") if page.name != "404.html"}
    for page, parser in pages.items():
        parser.feed(page.read_text("utf-8"))
    broken = []
    for page, parser in pages.items():
        for link in parser.links:
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            known = pages[target].ids if target in pages else {""} if target.is_file() else set()
            if anchor not in known | {""} or not target.is_file():
                broken.append((page.name, link))
    return broken


def test_a_broken_link_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<p id="there">')
    links = ("b.html", "b.html#there", "b.html#gone", "c.html", "#here", "#away", "https://a.org/#x")
    (tmp_path / "a.html").write_text('<p id="here">' + "".join(f'<a href="{link}">' for link in links))
    assert [link for _, link in _broken_links(tmp_path)] == ["b.html#gone", "c.html", "#away"]


@pytest.mark.slow
def test_links_and_anchors_lead_somewhere(built: Path) -> None:
    assert _broken_links(built) == []


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine; install it with apt or so")
def test_search_works_from_disk(built: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    complaints: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("request", lambda asked: complaints.append(asked.url) if asked.url.startswith("http") else None)
        page.goto((built / "index.html").as_uri())
        for words, title in (
            ("attention e", ""),
            ("kill", "Reliability"),
            ("add_identity_scaling", "Add identity"),
            ("slurm?", "cluster"),
        ):
            page.fill(".md-search__input", "")
            page.type(".md-search__input", words)
            page.wait_for_selector(f".md-search-result__item h1:has-text('{title}')", state="attached")
        page.goto((built / "papers" / "scan_snap.html").as_uri() + "#scan_snap/theorem4")
        page.wait_for_selector("details.claim[open] [id='scan_snap/theorem4']")
        browser.close()
    assert complaints == []


@pytest.mark.slow
def test_the_site_is_small(built: Path) -> None:
    assert sum(path.stat().st_size for path in built.rglob("*") if path.is_file()) < 30e6


@pytest.mark.slow
def test_every_claim_has_a_place_and_links_lead_to_it(built: Path) -> None:
    for paper in papers():
        own = {claim.id for claim in claims(paper).values()}
        if not own:
            continue
        html = (built / "papers" / f"{paper}.html").read_text("utf-8")
        assert {id for id in own if f'id="{id}"' not in html} == set()
    disagree = (built / "where-theory-and-training-disagree.html").read_text("utf-8")
    assert 'href="papers/scan_snap.html#scan_snap/theorem4_training"' in disagree


@pytest.mark.slow
def test_formulas_are_typeset(built: Path) -> None:
    html = (built / "papers" / "scan_snap.html").read_text("utf-8")
    assert html.count("<math") >= 2 * sum(bool(c.erratum and not c.corrects) for c in claims("scan_snap").values())


def _ids() -> Iterator[tuple[str, str]]:
    for page in sorted((ROOT / "docs").glob("*.md")):
        for id in re.findall(r"`((?:" + "|".join(papers()) + r")/\w+)`", page.read_text("utf-8")):
            yield page.name, id


def test_ids_in_the_docs_are_claims_or_experiments() -> None:
    known = {*claims(), *experiments()}
    named = list(_ids())
    assert len(named) > 40
    families = {f"{id.rsplit('_', 1)[0]}_" for id in known}  # "scan_snap/real_text_*" is several claims
    assert [(page, id) for page, id in named if id not in known and id not in families] == []


@pytest.mark.parametrize("paper", sorted(papers()))
def test_kept_verdicts_are_those_of_the_ledger(paper: str) -> None:
    renew = f"run `foretrain check {paper}`, then `.venv/bin/python -m scripts.verdicts {paper}`"
    record = kept().get(paper, {"verdicts": {}})
    assert set(record["verdicts"]) == set(claims(paper)), renew
    if not record["verdicts"]:
        return
    assert (record["tier"], len(record["code"]), len(record["made"])) == ("fast", 12, 10)
    halves = [half for card in paper_pages.cards_of(paper) for half in card.halves]
    assert [half.claim.id for half in halves if half.surprise] == []
    there = {path.stem for path in (IMAGES / paper).glob("*.webp")}
    assert there, renew
    assert there <= {claim.id.split("/")[1] for claim in pictured(paper)}, renew


def test_nothing_is_kept_of_papers_that_are_gone() -> None:
    assert set(kept()) <= set(papers())
    assert {path.name for path in IMAGES.iterdir()} <= set(papers())


def test_sizes_of_figures_are_read_from_their_files() -> None:
    sizes = [paper_pages.webp_size(path.read_bytes()) for path in IMAGES.rglob("*.webp")]
    assert {width for width, _ in sizes} == {900}
    assert all(300 < height < 2500 for _, height in sizes)


def test_a_claim_without_a_verdict_is_shown_as_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_pages, "kept_verdicts", dict)
    card = paper_pages.cards_of("scan_snap")[0]
    assert (card.status, card.colour, card.surprise) == ("not judged", "open", False)
    assert "Not judged here" in paper_pages.page(papers()["scan_snap"])


def test_what_is_too_small_to_tell_is_not_counted_as_a_failure() -> None:
    claim = claims("abstract_symbols/fig2")["abstract_symbols/fig2"]
    assert (claim.expect, claim.expect_from) == ("holds", "full")
    verdict = {"status": "fails", "expected": None, "control": "fails", "reason": "No gain.", "assumptions": []}
    card = paper_pages.Card(claim, verdict)
    assert (card.shown, card.colour, card.surprise) == ("needs tier full", "open", False)
    assert "1 cannot be seen" in paper_pages.tally([card])
    assert paper_pages.agreement([card]) == "Tier fast cannot tell whether it agrees."


@pytest.mark.parametrize("paper", papers())
def test_the_numbers_of_claims_add_up(paper: str) -> None:
    said = paper_pages.tally(paper_pages.cards_of(paper))
    counts, _, rest = said.partition(". ")
    total, *listed = (int(number) for number in re.findall(r"(?:^|: |, )(\d+)", counts))
    assert sum(listed) == total
    bound = int(re.findall(r"(?:All|of the) (\d+)", rest)[0])
    other = re.search(r"the other (\w+) ha", rest)
    assert bound + (0 if other is None else 1 if other[1] == "one" else int(other[1])) == total


def test_a_surprise_is_shown_in_red() -> None:
    claim = claims("scan_snap/lemma6")["scan_snap/lemma6"]
    verdict = {"status": "fails", "expected": "holds", "control": "fails", "reason": "", "assumptions": []}
    assert paper_pages.Card(claim, verdict).colour == "bad"
    assert paper_pages.Card(claim, verdict | {"status": "holds"}).colour == "good"
    assert paper_pages.Card(claim, verdict | {"status": "holds", "control": "holds"}).colour == "bad"


def test_a_public_name_without_a_docstring_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "all_undocumented", lambda: ["foretrain.made_up.nameless"])
    with pytest.raises(site.PluginError, match=r"without a docstring: foretrain\.made_up\.nameless"):
        site.on_config(None)


def test_every_benchmark_is_on_the_speed_page() -> None:
    page = (ROOT / "docs" / "speed.md").read_text("utf-8")
    named = set(re.findall(r"`python -m benchmarks (\w+)`", page))
    assert named == {path.stem.removeprefix("bench_") for path in (ROOT / "benchmarks").glob("bench_*.py")}
