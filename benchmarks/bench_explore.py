"""The explorer in a real browser: seconds until something is seen, and from a moved slider to the new picture.

What a person waits for is wall time, so other programs make these numbers worse. The page is on this machine. A slider
is moved by the keyboard; the clock stops when the figure that the closed form draws has changed, and again when the
simulation is on the page too.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import Measured

REPEATS = 7
CLOSED, SIMULATED = 0.2, 1.0  # seconds until a closed form, or a simulation, is on the page
SLIDERS = {  # view: (slider, what is drawn first and how soon, and whether a simulation follows)
    "scan-snap": ("eta_y", "Scan and Snap", CLOSED, True),
    "joma": ("until", "JoMA", CLOSED, True),
    "latent-tree": ("rho", "latent tree", CLOSED, False),
    "templates": ("error", "templates", SIMULATED, False),
    "fine-tuning": ("rate", "fine-tuning", SIMULATED, False),
}
MOVED = """(name) => new Promise((done) => {
  const slider = document.querySelector(`input[name="${name}"]`), waiting = document.getElementById("waiting");
  const drawing = () => [...document.querySelectorAll("#figures, #slow-figures")]
    .flatMap((part) => [...part.querySelectorAll("svg.main-svg, image")]).map((part) => part.innerHTML).join();
  let before = drawing(), first = null, last = null;
  const started = performance.now();
  const look = () => {
    const now = performance.now() - started, seen = drawing();
    if (seen !== before) { before = seen; first ??= now; last = now; }
    if (now > 30000 || (first !== null && waiting.hidden && now - last > 800)) done([first, last]);
    else requestAnimationFrame(look);
  };
  slider.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
  requestAnimationFrame(look);
})"""


def measure() -> Iterator[Measured]:
    try:
        from playwright.sync_api import sync_playwright

        from foretrain.explore.serving import prepare_server
        from foretrain.explore.view import Places
    except ImportError as error:
        print(f"explorer: not measured, {error.name} is not installed")
        return
    chromium = os.environ.get("FORETRAIN_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("explorer: not measured, there is no Chromium on this machine")
        return
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        serving = prepare_server(Places(Path(folder)))
        thread = threading.Thread(target=serving.forever, daemon=True)
        thread.start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            yield _first_paint(browser, serving.address)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            for view, (slider, name, most, simulated) in SLIDERS.items():
                yield from _slider(page, f"{serving.address}{view}", slider, name, most, simulated)
        finally:
            browser.close()
            serving.stop()
            thread.join(5)


def _first_paint(browser: Any, address: str) -> Measured:
    paints = []
    for _ in range(REPEATS):  # in a new context nothing is cached
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.goto(address)
        page.wait_for_selector(".js-plotly-plot")
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000)
        page.context.close()
    return _seconds("explorer: first paint", paints, 2)


def _slider(page: Any, address: str, slider: str, name: str, most: float, simulated: bool) -> Iterator[Measured]:
    page.goto(address)
    page.wait_for_selector(".js-plotly-plot")
    page.wait_for_selector("#waiting[hidden]", state="attached")
    page.wait_for_timeout(1000)
    moved = [page.evaluate(MOVED, slider) for _ in range(REPEATS + 1)][1:]  # the first one loads what it needs
    yield _seconds(f"explorer: slider to picture, {name}", [first / 1000 for first, _ in moved], most)
    if simulated:
        yield _seconds("explorer: slider to simulation, the same view", [last / 1000 for _, last in moved], SIMULATED)


def _seconds(name: str, times: list[float], most: float) -> Measured:
    return Measured(name, median(times), most, "s", at_most=True, detail=f"worst {max(times):.2f} s")
