"""The page of one figure, on a narrow screen."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from foretrain.show.pages import as_html
from foretrain.show.plotting import add_subtitle, new_panels, panel_place, prediction_line


@pytest.mark.slow
def test_in_a_narrow_browser_panels_stand_below_each_other(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
    if browser is None:
        pytest.skip("no Chrome or Chromium on this machine")
    figure = new_panels("Two panels", ["left", "right"], columns=2)
    for place in range(2):
        figure.add_trace(prediction_line([1, 2], [1, 2], "line"), **panel_place(place))
    add_subtitle(figure, "words " * 20)
    page = tmp_path / "figure.html"
    page.write_text(as_html(figure, "two"), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--virtual-time-budget=5000"]
    command += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    command += ["--window-size=500,900", page.as_uri()]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    names = re.findall(r'annotation-text-g" transform="rotate\(0,([\d.]+),([\d.]+)\)"', printed.stdout)
    (x, y), (other_x, other_y) = [(float(x), float(y)) for x, y in names]
    assert x == other_x
    assert y < other_y
