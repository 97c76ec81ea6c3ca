"""The tables of the guide are those of the kept results, and the results are what the guide says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.corpus_forecast import tables
from benchmarks.corpus_forecast.planting import CHOSEN, JUDGED, Plant, planted

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.forecast.corpora.words import EVIDENCE

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return dict(json.loads((DOCS / "results" / "corpus_forecast.json").read_text(encoding="utf-8")))


def test_the_guide_has_the_tables_of_the_kept_results(results: dict[str, Any]) -> None:
    guide = (DOCS / "forecast-a-corpus.md").read_text(encoding="utf-8")
    assert tables.agreement_table(results["agreement"]) in guide
    assert tables.classifier_table(results["agreement"]) in guide
    assert tables.recall_table(results["shortcuts"]) in guide
    assert tables.untouched_table(results["shortcuts"]) in guide
    assert results["command"] in guide


@pytest.mark.parametrize("many", [False, True])
def test_the_trust_line_gives_the_range_of_the_kept_results(results: dict[str, Any], many: bool) -> None:
    said = EVIDENCE[3 if many else 2]
    for network in ("MLP ReLU", "CNN ReLU"):
        ranks = [
            values[network]["agreement"]["forecast"]["rank_correlation"]
            for values in results["agreement"].values()
            if (values["classes"] > 2) == many
        ]
        assert f"{min(ranks):.2f} to {max(ranks):.2f}".replace("0.", ".") in said


def test_the_forecast_classifies_within_a_hundredth_of_logistic_regression(results: dict[str, Any]) -> None:
    assert len(results["agreement"]) == 5
    for values in results["agreement"].values():
        accuracy = values["test_accuracy"]
        assert min(accuracy["MLP ReLU"], accuracy["CNN ReLU"]) >= accuracy["logistic regression"] - 0.01


def test_at_least_ten_shortcuts_of_five_kinds_were_judged_that_nothing_was_chosen_with(results: dict[str, Any]) -> None:
    assert len(JUDGED) >= 10
    assert len({plant.kind for plant in JUDGED}) >= 5
    assert not {plant.name for plant in JUDGED} & {plant.name for plant in CHOSEN}
    for values in results["shortcuts"]["judged"].values():
        assert set(values["planted"]) == {plant.name for plant in JUDGED}


@pytest.mark.parametrize("plant", [*CHOSEN, *JUDGED], ids=lambda plant: plant.name)
def test_a_shortcut_is_planted_in_its_share_of_one_class_only(plant: Plant) -> None:
    texts = tuple(f"some words of text number {k} that go on" for k in range(600))
    corpus = LabelledTexts(texts, np.arange(600) % 2, ("a", "b"))
    changed, rows = planted(corpus, plant)
    assert set(np.flatnonzero(corpus.labels == 0)) >= set(rows)
    assert len(rows) == pytest.approx(plant.share * 300, abs=4 * np.sqrt(plant.share * 300))
    different = [k for k in range(600) if changed.texts[k] != texts[k]]
    assert different == rows.tolist()
    assert all(any(token in changed.texts[k].lower() for token in plant.tokens) for k in rows)
