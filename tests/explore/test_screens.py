"""Every view at three widths: nothing is wider than the screen, every figure is drawn, and screenshots are kept.

On a phone, nothing is too small to read, and every control has a name and can be reached by the keyboard.

Look at them in build/screens, or in the folder that FORETRAIN_SCREENS names.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from explore.conftest import Visit
from foretrain.explore.registry import VIEWS

WIDTHS = {360: 780, 768: 1024, 1280: 900}
SCREENS = Path(os.environ.get("FORETRAIN_SCREENS") or Path(__file__).parents[2] / "build" / "screens")
EXAMPLES = {"ledger": "ledger?claim=scan_snap/theorem4", "runs": "runs?run=one.jsonl&other=two.jsonl"}
TOO_WIDE = """() => {
  const most = document.documentElement.clientWidth + 1;
  const scrolls = (part) => part && (getComputedStyle(part).overflowX !== "visible" || scrolls(part.parentElement));
  return [...document.querySelectorAll("main *")]
    .filter((part) => part.getBoundingClientRect().right > most && !scrolls(part.parentElement))
    .map((part) => part.tagName + "." + part.className);
}"""


@pytest.mark.slow
@pytest.mark.parametrize("path", list(VIEWS))
def test_every_view_fits_every_screen(visit: Visit, path: str) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    for width, height in WIDTHS.items():
        visit.page.set_viewport_size({"width": width, "height": height})
        if width == min(WIDTHS):
            visit.open(EXAMPLES.get(path, path))
            check_on_a_phone(visit)
        visit.settled()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(TOO_WIDE) == []
        plots = visit.page.locator(".js-plotly-plot")
        assert plots.count() > 0
        for k in range(plots.count()):
            box = plots.nth(k).bounding_box()
            assert box is not None
            assert box["width"] > 200
            assert box["height"] > 150
        visit.page.screenshot(path=SCREENS / f"{path}-{width}.png", full_page=True)
        assert (SCREENS / f"{path}-{width}.png").stat().st_size > 15_000  # a blank page is smaller


def check_on_a_phone(visit: Visit) -> None:
    smallest = visit.page.locator("main :is(p, td, label, small, output, a)").evaluate_all(
        "nodes => Math.min(...nodes.filter(n => n.innerText).map(n => parseFloat(getComputedStyle(n).fontSize)))"
    )
    assert smallest >= 12
    unnamed = "nodes => nodes.filter(n => !n.labels.length && !n.ariaLabel).map(n => n.outerHTML)"
    unreached = "nodes => nodes.filter(n => { n.focus(); return n !== document.activeElement }).map(n => n.outerHTML)"
    fields = visit.page.locator("form :is(input, select, textarea)")
    assert fields.count() > 0
    assert fields.evaluate_all(unnamed) == []
    assert fields.evaluate_all(unreached) == []
    visit.page.evaluate("document.activeElement.blur()")
