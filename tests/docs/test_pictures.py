"""The README's pictures show what pages say today, and its numbers are those of the recorded runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from benchmarks.template_needs import examples
from scripts import pictures

from foretrain.core.workers import single_threaded
from foretrain.data import template_examples
from foretrain.forecast.templating.evidence import ERRORS, size_need
from foretrain.forecast.templating.prediction import forecast_templates
from foretrain.forecast.templating.words import about
from foretrain.kernels.architectures import TRANSFORMER, TRANSFORMER_AI
from foretrain.papers import claims

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "forecast-your-task.md").read_text(encoding="utf-8")
NAMES = ("transformer", "transformer with a·I in every head", "MLP", "MLP told which positions are equal")


@pytest.fixture(scope="module")
def stored() -> dict:
    return dict(json.loads(examples.RESULTS.read_text(encoding="utf-8"))["tasks"])


@pytest.mark.filterwarnings("ignore:Judged from")
def test_pictures_show_the_words_of_today() -> None:
    written = json.loads(pictures.WORDS.read_text(encoding="utf-8"))
    assert written == pictures.words(), "run .venv/bin/python -m scripts.pictures"


@pytest.mark.slow
def test_the_script_draws_them(tmp_path: Path) -> None:
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        pytest.skip("no Chrome or Chromium here, which draws images")
    pictures.draw(tmp_path, {"watch": pictures.watch_page()})
    for name in ("templates", "watch"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_every_picture_of_the_readme_is_there_and_no_other() -> None:
    shown = {path.stem for path in pictures.IMAGES.glob("*.png")}
    assert shown == {"finetune", "templates", *pictures.PAGES}
    assert all(f"docs/images/{name}.png" in README for name in shown)


def test_the_readme_shows_forecast_and_training_side_by_side(stored: dict) -> None:
    entries = stored[pictures.SHOWN]["0.5"]
    for name, entry in zip(NAMES, entries.values(), strict=True):
        assert f"| {name} | {' | '.join(examples.cells(entry, 0.5))} |" in README


def test_the_guide_shows_every_task_that_was_tried(stored: dict) -> None:
    assert set(stored) == set(examples.EXAMPLES)
    regression = {p.stem for p in (ROOT / "examples").glob("*.toml") if 'kind = "regression"' in p.read_text("utf-8")}
    assert regression - {"word_problem"} <= set(stored)
    for error in ERRORS:
        for name in stored:
            assert examples.templates_row(stored, name, error) in GUIDE


def test_the_recorded_forecasts_are_those_of_the_code(stored: dict) -> None:
    forecast = examples.templates(ROOT / "examples" / "aba.toml", error=0.5)
    for name, entry in stored["aba"]["0.5"].items():
        needed = forecast.table["samples"][name]
        assert needed == (pytest.approx(entry["forecast"]) if entry["forecast"] is not None else float("inf"))


@pytest.mark.parametrize(
    ("length", "architecture", "trained", "factor"), [(4, TRANSFORMER, 5665, 32), (6, TRANSFORMER_AI, 1716, 900)]
)
def test_the_guide_warns_of_sizes_in_another_setting(length: int, architecture: str, trained: int, factor: int) -> None:
    """Trained numbers are those of `abstract_symbols/data_need_thousands` in the guide to the paper."""
    task = template_examples.majority(length)
    with single_threaded():
        forecast = forecast_templates(task, error=0.1, samples=(64,), architectures=(architecture,))
    needed = forecast.samples_needed.item()
    assert f"{needed:,.0f}" in GUIDE
    assert needed / trained == pytest.approx(factor, rel=0.02)
    assert f"{factor} times" in GUIDE
    assert about(size_need(task, architecture, 0.1)) in GUIDE
    paper = (ROOT / "docs" / "abstract-symbols.md").read_text(encoding="utf-8")
    assert str(trained) in next(line for line in paper.splitlines() if line.startswith(f"| majority of {length} |"))


def test_statements_and_claims_add_up() -> None:
    every = claims().values()
    corrections = sum(bool(claim.corrects) for claim in every)
    statements = len(every) - corrections
    assert f"There are {statements} statements, judged as {len(every)} claims" in README
    assert f"that makes {corrections} more" in README
