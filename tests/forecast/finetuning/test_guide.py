"""The guide's numbers are those of the kept trials, and so are the limits of trust."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import pytest

from foretrain.forecast.finetuning import trust

ROOT = Path(__file__).parents[3]
KEPT: dict[str, Any] = json.loads((ROOT / "docs/results/finetune_forecast.json").read_text())
GUIDE = (ROOT / "docs/forecast-fine-tuning.md").read_text()
MODELS = {"minilm": "MiniLM", "stories": "stories260K", "gpt": "a GPT trained here"}
CORPORA = {"sst2": "SST-2", "ag_news_2": "AG News", "imdb": "IMDB", "books": "two books"}
USUAL = [trial for trial in KEPT["trials"] if trial["rate"] <= 5e-5]


def met(trial: dict[str, Any]) -> bool:
    return bool(trial["score"]["correlation"] >= 0.95 and 0.8 <= trial["score"]["scale"] <= 1.25)


def flagged(trial: dict[str, Any]) -> bool:
    signs = trial["trust"]
    return bool(signs["turn"] < trust.LEAST_AGREEMENT or signs["first_step"] > trust.LARGEST_FIRST_STEP)


def chosen_on(trial: dict[str, Any]) -> bool:
    return trial["model"] in ("minilm", "stories") and trial["corpus"] in ("sst2", "ag_news_2")


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("model", MODELS)
def test_rows_of_the_table(model: str, corpus: str) -> None:
    for rate in (2e-5, 5e-5):
        own = [t for t in USUAL if (t["model"], t["corpus"], t["rate"]) == (model, corpus, rate)]
        scores = [trial["score"] for trial in own]
        correlations, scales = ([score[name] for score in scores] for name in ("correlation", "scale"))
        row = (
            f"| {MODELS[model]} | {CORPORA[corpus]} | {rate:g} | "
            f"{median(correlations):.3f} ({min(correlations):.3f}) | "
            f"{median(scales):.2f} ({min(scales):.2f} to {max(scales):.2f}) | "
        )
        assert row in GUIDE
        assert f"| {sum(map(met, own))} of {len(own)} |" in GUIDE.split(row)[1].splitlines()[0]


def test_counts_and_means() -> None:
    correlated = sum(trial["score"]["correlation"] >= 0.95 for trial in USUAL)
    scaled = sum(0.8 <= trial["score"]["scale"] <= 1.25 for trial in USUAL)
    assert f"{sum(map(met, USUAL))} of {len(USUAL)} forecasts met the target" in GUIDE
    assert f"at least .95 in {correlated} and the scale inside in {scaled}" in GUIDE
    assert {(t["model"], t["rate"]) for t in USUAL if not met(t)} == {("minilm", 5e-5)}
    errors = [mean(trial["score"][name] for trial in USUAL) for name in ("accuracy_error", "probe_error")]
    assert [f"{error:.3f}" for error in errors] == ["0.008", "0.021"]
    removals = sorted(t["row_removal"]["correlation"] for t in KEPT["trials"] if "row_removal" in t)
    assert len(removals) == 24
    assert removals[0] == pytest.approx(0.824, abs=5e-4)
    assert removals[1] > 0.905


def test_the_limits_of_trust_are_those_that_nine_in_ten_forecasts_that_held_meet() -> None:
    held = [t["trust"] for t in KEPT["trials"] if chosen_on(t) and met(t)]
    assert np.quantile([signs["turn"] for signs in held], 0.1) == pytest.approx(trust.LEAST_AGREEMENT, abs=5e-4)
    assert np.quantile([signs["first_step"] for signs in held], 0.9) == pytest.approx(
        trust.LARGEST_FIRST_STEP, abs=5e-3
    )


@pytest.mark.parametrize("name", ["chosen on", "judged on IMDB, and on the GPT", "two books, run last"])
def test_how_trust_was_judged(name: str) -> None:
    fresh = [t for t in KEPT["trials"] if t["corpus"] == "books"]
    others = [t for t in KEPT["trials"] if t["corpus"] != "books"]
    trials = {
        "chosen on": [t for t in others if chosen_on(t)],
        "judged on IMDB, and on the GPT": [t for t in others if not chosen_on(t)],
        "two books, run last": fresh,
    }[name]
    missed, held = [t for t in trials if not met(t)], [t for t in trials if met(t)]
    row = f"| {name} | {sum(map(flagged, missed))} of {len(missed)} | {sum(map(flagged, held))} of {len(held)} |"
    assert row in GUIDE
