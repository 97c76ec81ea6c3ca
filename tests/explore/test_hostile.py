"""Hostile names, texts and claims in the explorer: nothing runs, nothing is asked of others, no link leads out."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import xarray as xr

from explore.conftest import Visit, training_line
from foretrain import papers
from foretrain.core.trajectory import save
from foretrain.explore.serving import Serving, prepare_server
from foretrain.explore.view import Places
from foretrain.explore.views import ledger
from foretrain.ledger.claim import Erratum
from foretrain.ledger.verdict import Verdict
from safety.hostile import ALL, SCRIPTS

pytestmark = pytest.mark.slow
NAME = "<img src=x onerror=window.harmed=1>\u202e"  # that a file can have
CLAIM = "scan_snap/lemma13_17"
LEADS_OUT = """own => Array.from(document.querySelectorAll("*"))
  .flatMap((one) => ["href", "xlink:href", "src", "action"].map((name) => one.getAttribute(name)))
  .filter((link) => link && /^(\\/\\/|[a-z][a-z0-9+.-]*:)/i.test(link))
  .filter((link) => !link.startsWith(own) && !/^(data|blob):/.test(link))"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """An explorer of a folder in which every name is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    lines = [training_line(step, 1.0) for step in range(0, 200, 10)]
    named = [{**line, "attention": dict.fromkeys((*SCRIPTS, ALL), line["attention"]["second"])} for line in lines]
    (folder / f"{NAME}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in named))
    names = [text for text in SCRIPTS if "/" not in text]
    data = {f"value {text}": ("case", [1.0] * len(SCRIPTS), {"units": ALL}) for text in names}
    save(xr.Dataset(data, {"case": list(SCRIPTS)}), folder / f"{NAME}.nc")
    serving = prepare_server(Places(folder))
    thread = threading.Thread(target=serving.forever, daemon=True)
    thread.start()
    yield serving
    serving.stop()
    thread.join(5)


def require_harmless(visit: Visit) -> None:
    for place in visit.page.query_selector_all(".js-plotly-plot .nsewdrag")[:2]:
        if place.is_visible():
            place.scroll_into_view_if_needed()
            place.hover(force=True)
    visit.page.wait_for_timeout(150)
    assert not visit.page.evaluate("window.harmed")
    assert visit.page.evaluate(LEADS_OUT, visit.serving.address) == []
    assert visit.page.locator("#picture :is(script, img[src=x], svg[onload], iframe)").count() == 0


def test_names_of_files_layers_and_variables(visit: Visit) -> None:
    visit.open("runs")
    require_harmless(visit)
    for file in (f"{NAME}.jsonl", f"{NAME}.nc"):
        visit.page.get_by_label("run", exact=True).select_option(file)
        visit.settled()
        assert SCRIPTS[0] in visit.text("#picture") or SCRIPTS[0] in visit.page.locator("#picture").text_content()
        require_harmless(visit)


def test_pasted_texts_and_classes(visit: Visit) -> None:
    visit.open("corpus")
    printable = "".join(c if c.isprintable() else " " for c in ALL)
    rows = [f"{'good' if k % 2 else 'bad'} {SCRIPTS[1]}\t{SCRIPTS[k % len(SCRIPTS)]} {printable}" for k in range(24)]
    visit.page.get_by_label("your texts").fill("\n".join(rows))
    visit.page.get_by_label("texts", exact=True).select_option("pasted texts")
    visit.settled(quiet=0.8)
    assert SCRIPTS[1] in visit.text("#picture")
    require_harmless(visit)


def test_typed_templates_and_addresses(visit: Visit) -> None:
    visit.open("templates")
    visit.page.get_by_label("templates", exact=True).fill(f"αβα {SCRIPTS[0]} = 1\nαββ {SCRIPTS[1]} = -1")
    visit.settled(quiet=0.8)
    require_harmless(visit)
    visit.open("scan-snap?eta_y=%3Cscript%3Ewindow.harmed=1%3C/script%3E&%3Cimg%20src=x%20onerror=window.harmed=1%3E=1")
    assert "<script>" in visit.text("#refused")
    require_harmless(visit)


def test_a_claim_and_its_verdict(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = papers.claim(CLAIM)
    erratum = Erratum(ALL, (rf"\href{{{SCRIPTS[4]}}}{{x}}", SCRIPTS[1]), ALL)
    control = replace(claim.control, says=ALL)
    hostile = replace(claim, says=ALL, source=f"Lemma 1 {ALL}", control=control, erratum=erratum)
    verdict = Verdict(CLAIM, "fails", "fails", 2.0, ALL, 0.1, control_status="holds", control_reason=ALL, notes=(ALL,))
    monkeypatch.setattr(ledger, "_claims", lambda: {CLAIM: hostile})
    monkeypatch.setattr(ledger, "_verdicts", lambda *_: {CLAIM: verdict})
    visit.open(f"ledger?paper=all&claim={CLAIM}")
    assert SCRIPTS[0] in visit.text("#picture")
    require_harmless(visit)


def test_harm_would_be_seen(visit: Visit) -> None:
    visit.open("runs")
    visit.page.evaluate("""document.querySelector("#picture").innerHTML = '<a href="https://example.org">a</a>'""")
    with pytest.raises(AssertionError):
        require_harmless(visit)
