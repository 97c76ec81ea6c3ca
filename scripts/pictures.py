"""The pictures of the README, drawn from what is in this repository: `.venv/bin/python -m scripts.pictures`.

Each picture is the top of a page that foretrain writes. docs/images/words.json keeps the words that it shows; a test
compares them with today's, so that no picture is older than what it shows. Fine-tuning needs a model, and its page is
drawn only on request: `--finetune PAGE.html`, written by `foretrain forecast finetune … --report PAGE.html`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.template_needs import examples
from scripts import verdicts

from foretrain import forecast
from foretrain.core.files import write_bytes, write_text
from foretrain.ledger.judge import judge
from foretrain.ledger.verdict import Verdict
from foretrain.monitor.page.writing import page as training_page
from foretrain.papers import claims, papers
from foretrain.runs.training_log import read_lines
from foretrain.show.pages import as_image
from foretrain.show.report.page import report_page

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
WORDS = IMAGES / "words.json"
SHOWN = "aba"  # the template task of the README
SIZES = {"watch": (1100, 880), "corpus": (1120, 668), "report": (1200, 1190), "finetune": (1000, 1000)}  # pixels


@cache
def templates_figure() -> Any:
    """The README's template task: the forecast, with the errors of training as docs/results has them."""
    error = examples.ERRORS[0]
    made = forecast.templates(ROOT / "examples" / f"{SHOWN}.toml", error=error)
    stored = json.loads(examples.RESULTS.read_text(encoding="utf-8"))["tasks"][SHOWN][str(error)]
    errors = {name: examples.trained(entry).errors for name, entry in stored.items()}
    sizes = sorted({n for each in errors.values() for n in each})
    seeds = len(next(iter(next(iter(errors.values())).values())))
    table = [[errors[name].get(n, [np.nan] * seeds) for n in sizes] for name in made.dataset.architecture.values]
    trained = made.dataset.assign_coords(trained_n=sizes).assign(
        trained=(("architecture", "trained_n", "trained_seed"), table)
    )
    from foretrain.forecast.templating.figures import forecast_figure

    return forecast_figure(trained)


@cache
def corpus_page() -> str:
    with tempfile.TemporaryDirectory() as folder, chdir(ROOT):  # the page names the file as it was given
        forecast.corpus("examples/reviews.csv").report(Path(folder) / "reviews.html")
        return (Path(folder) / "reviews.html").read_text(encoding="utf-8")


@cache
def watch_page() -> str:
    records = read_lines(ROOT / "examples" / "training.jsonl")
    return training_page(records, "training.jsonl")


@cache
def whole_report() -> str:
    """The report on the verdicts that the documentation keeps, with the picture of the first paper."""
    kept: dict[str, Verdict] = {}
    for paper in sorted(papers().values(), key=lambda paper: paper.position):
        kept |= {name: _verdict(name, stored) for name, stored in verdicts.kept()[paper.name]["verdicts"].items()}
        if paper.position == min(each.position for each in papers().values()) and paper.story:
            kept[paper.story.picture] = judge(claims()[paper.story.picture], verdicts.TIER)
    return report_page(kept, verdicts.TIER)


def _verdict(name: str, stored: dict[str, Any]) -> Verdict:
    return Verdict(
        claim=name,
        status=stored["status"],
        expected=stored["expected"],
        margin=float(stored["margin"]),
        reason=stored["reason"],
        seconds=0.0,
        control_status=stored["control"],
        control_reason=stored["control_reason"],
    )


PAGES: dict[str, Callable[[], str]] = {"watch": watch_page, "corpus": corpus_page, "report": whole_report}


def words() -> dict[str, str]:
    """What the pictures say first: the answer of a page, and the legend of a figure."""
    legend = [trace.name for trace in templates_figure().data if trace.name and trace.showlegend is not False]
    return {
        "templates": ", ".join(legend),
        "watch": _text(watch_page(), r'<p class="answer">(.*?)</p>'),
        "corpus": _text(corpus_page(), r'<p class="answer">(.*?)</p>'),
        "report": _text(whole_report(), r"<header>(.*?)</header>"),
    }


def _text(page: str, pattern: str) -> str:
    [first, *_] = re.findall(pattern, page, re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", first)).split())


def draw(folder: Path, pages: dict[str, str]) -> None:
    """Draw pages, and the figure of the template task, into a folder."""
    write_bytes(folder / "templates.png", as_image(templates_figure(), ".png"))
    for name, page in pages.items():
        _photograph(page, folder / f"{name}.png", *SIZES[name])


def _photograph(page: str, out: Path, width: int, height: int) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("Pictures are drawn by Chromium or Chrome, and there is none.")
    with tempfile.TemporaryDirectory() as folder:
        file, image = Path(folder) / "page.html", Path(folder) / "page.png"
        file.write_text(page, encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000"]
        command = [browser, *options, f"--user-data-dir={folder}/profile", f"--window-size={width},{height}"]
        subprocess.run([*command, f"--screenshot={image}", file.as_uri()], capture_output=True, timeout=180, check=True)
        write_bytes(out, image.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of the README.")
    parser.add_argument("--out", type=Path, default=IMAGES, help="the folder to write to")
    parser.add_argument(
        "--finetune", type=Path, help="a page of `foretrain forecast finetune --report` to draw as well"
    )
    given = parser.parse_args()
    pages = {name: made() for name, made in PAGES.items()}
    if given.finetune:
        pages["finetune"] = given.finetune.read_text(encoding="utf-8")
    draw(given.out, pages)
    write_text(given.out / WORDS.name, json.dumps(words(), ensure_ascii=False, indent=1) + "\n")
    print(f"Drew {', '.join(sorted([*pages, 'templates']))} into {given.out}.", file=sys.stderr)


if __name__ == "__main__":
    main()
