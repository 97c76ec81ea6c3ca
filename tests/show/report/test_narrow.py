"""Pages with figures, on a narrow screen."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from foretrain.show.pages import as_html
from foretrain.show.plotting import add_subtitle, new_panels, panel_place, prediction_line


def drawn(page: Path) -> str:
    """What a browser of 500 pixels makes of a page."""
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
    if browser is None:
        pytest.skip("no Chrome or Chromium on this machine")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--virtual-time-budget=5000"]
    command += ["--disable-background-networking", f"--user-data-dir={page.parent / 'profile'}", "--dump-dom"]
    command += ["--window-size=500,900", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.slow
def test_in_a_narrow_browser_panels_stand_below_each_other(tmp_path: Path) -> None:
    figure = new_panels("Two panels", ["left", "right"], columns=2)
    for place in range(2):
        figure.add_trace(prediction_line([1, 2], [1, 2], "line"), **panel_place(place))
    add_subtitle(figure, "words " * 20)
    page = tmp_path / "figure.html"
    page.write_text(as_html(figure, "two"), encoding="utf-8")
    names = re.findall(r'annotation-text-g" transform="rotate\(0,([\d.]+),([\d.]+)\)"', drawn(page))
    (x, y), (other_x, other_y) = [(float(x), float(y)) for x, y in names]
    assert x == other_x
    assert y < other_y


@pytest.mark.slow
def test_in_a_narrow_browser_a_watched_training_is_not_cut_off(tmp_path: Path) -> None:
    from foretrain.monitor.page.writing import write_page
    from foretrain.runs.training_log import read_lines

    write_page(read_lines(Path(__file__).parents[3] / "examples" / "training.jsonl"), tmp_path / "training.html")
    shown = drawn(tmp_path / "training.html")
    widths = [float(width) for width in re.findall(r'class="main-svg"[^>]* width="([\d.]+)"', shown)]
    assert len(widths) >= 8
    assert max(widths) < 500
    assert shown.count("layer 2") >= 3  # a panel for each layer, and none that is empty
