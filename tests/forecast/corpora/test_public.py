"""foretrain.forecast.corpus as a user calls it: what goes in, and what the result can show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

import foretrain.forecast
from foretrain.core.errors import InputError
from foretrain.core.progress import listening
from foretrain.data.labelled_texts import LabelledTexts, read_labelled
from foretrain.forecast.corpora.forecast import CorpusForecast
from foretrain.forecast.corpora.page import excerpt
from foretrain.forecast.corpora.words import better_baseline

REVIEWS = Path(__file__).parents[3] / "examples" / "reviews.csv"


@pytest.fixture(scope="module")
def reviews() -> CorpusForecast:
    return foretrain.forecast.corpus(REVIEWS, test=REVIEWS)


def test_the_result_has_an_answer_a_table_a_dataset_a_figure_and_a_page(
    reviews: CorpusForecast, tmp_path: Path
) -> None:
    assert reviews.summary.startswith("A classifier will get about 100 %")
    assert "\n" not in reviews.summary
    assert reviews.table.loc["matrix-vector", "accuracy"] == pytest.approx(1)
    assert set(reviews.table["kind"]) == {"network", "baseline"}
    assert (reviews.table["low"] <= reviews.table["accuracy"]).all()
    curve = reviews.dataset["held_out_accuracy"].sel(architecture="matrix-vector").values
    assert np.nanmax(curve) == pytest.approx(1)
    scores = reviews.dataset["token_scores"].sel(architecture_1="MLP ReLU", token="<br />", output="positive")
    assert float(scores) < -1
    assert isinstance(reviews.figure(), go.Figure)
    reviews.report(tmp_path / "f.html")
    page = (tmp_path / "f.html").read_text(encoding="utf-8")
    assert all(part in page for part in ("Fix these first", "How far to trust it", "Test rows that will be missed"))
    assert page.index("Fix these first") < page.index("How far to trust it") < page.index("logistic regression")
    assert "<table>" in reviews._repr_html_()


def test_scores_have_one_sign_everywhere(reviews: CorpusForecast) -> None:
    """Above 0 is for the second class: in the lists, the dataset and the scores of test rows."""
    best = reviews.top("MLP ReLU", 3)
    assert all(score < 0 for _, score in best["negative"])
    assert all(score > 0 for _, score in best["positive"])
    for record in reviews.test_rows():
        said = record["networks"]["MLP ReLU"]
        assert (said["score"] > 0) == (said["guess"] == "positive")
        assert said["probability"] >= 0.5


def test_predicted_errors_are_those_of_the_scores(reviews: CorpusForecast) -> None:
    assert reviews.answered is not None
    said = reviews.answered["MLP ReLU"]
    text = reviews.counted.texts
    token_scores = reviews.scores["MLP ReLU"].scores[:, 0]
    known = text.flat < len(token_scores)
    assert known.all()
    sums = np.array([token_scores[text[i]].sum() for i in range(len(text))])
    np.testing.assert_allclose(said.logits[:, 0], sums, atol=1e-6 * np.abs(sums).max())  # additive, so exactly
    wrong = {record["row"] for record in reviews.test_rows() if "MLP ReLU" in record["errors"]}
    assert wrong == set(np.flatnonzero((sums > 0) != reviews.corpus.labels).tolist())


def test_frames_pairs_and_tokenizers_are_taken() -> None:
    texts = read_labelled(REVIEWS)
    frame = pd.DataFrame({"body": texts.texts, "stars": [texts.classes[k] for k in texts.labels]}).iloc[:60]

    class HuggingFace:
        def tokenize(self, text: str) -> list[str]:
            return ["▁" + word for word in text.split()]

    result = foretrain.forecast.corpus(frame, text="body", label="stars", tokenizer=HuggingFace(), time=8)
    assert all(token.startswith("▁") for token in result.tokens)
    same = foretrain.forecast.corpus(frame, text="body", label="stars", tokenizer=HuggingFace().tokenize, time=8)
    np.testing.assert_array_equal(result.scores["MLP ReLU"].scores, same.scores["MLP ReLU"].scores)
    assert set(result.times.values()) == {8}


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [(5, "tokenizer must be a function"), (len, "must return a list of strings; it returned int")],
)
def test_a_tokenizer_that_is_none_is_refused(tokenizer: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        foretrain.forecast.corpus(REVIEWS, tokenizer=tokenizer)


def test_labels_that_only_the_test_rows_have_are_refused() -> None:
    train = LabelledTexts(("a b", "c d"), np.array([0, 1]), ("no", "yes"))
    other = LabelledTexts(("a b", "c d"), np.array([0, 1]), ("maybe", "no"))
    with pytest.raises(InputError, match="The test rows have the label maybe, which the corpus does not have"):
        foretrain.forecast.corpus(train, least=1, test=other)
    swapped = LabelledTexts(("a b", "c d"), np.array([1, 0]), ("yes", "no"))
    result = foretrain.forecast.corpus(train, least=1, test=swapped)
    assert result.test is not None
    assert result.test.labels.tolist() == [0, 1]
    assert not any(record["errors"] for record in result.test_rows() if "MLP tanh" in record["errors"])


def test_a_baseline_that_is_surely_better_gives_the_answer(reviews: CorpusForecast) -> None:
    assert better_baseline(reviews) is None
    assert "(matrix-vector, a network that sees tokens and their neighbours)" in reviews.summary
    even = np.arange(240) % 2 == 0
    worse = {name: replace(curve, chosen_right=curve.chosen_right & even) for name, curve in reviews.curves.items()}
    spoiled = replace(reviews, curves=worse)
    assert better_baseline(spoiled) == "logistic regression"
    accuracy = reviews.baselines["logistic regression"].accuracy
    assert spoiled.summary.startswith(f"A classifier will get about {100 * accuracy:.0f} %")
    assert "(logistic regression; the best network, " in spoiled.summary


def test_progress_is_told() -> None:
    heard = []
    with listening(heard.append):
        foretrain.forecast.corpus(REVIEWS, time=4)
    assert {"counting", "held-out rows", "scores"} <= {progress.doing for progress in heard}


def test_an_excerpt_is_one_line_around_the_phrase() -> None:
    text = "word " * 100 + "sent from my iPhone"
    assert excerpt(text, "sent from").endswith("sent from my iPhone")
    assert excerpt("a\nb") == "a b"
    assert len(excerpt(text)) <= 162


def test_real_sources_are_found_and_topics_are_not(data_dir: Path) -> None:
    """AG News: news agencies are markers; iraq and league are what the texts are about."""
    from foretrain.data.corpora import labelled_corpus
    from foretrain.forecast.corpora import heldout
    from foretrain.forecast.corpora.counting import counted
    from foretrain.forecast.corpora.scores import TrainingSet, architectures
    from foretrain.forecast.corpora.shortcuts import find_shortcuts

    news = labelled_corpus("ag_news", data=data_dir)
    count = counted(news, window=None, least=None, most=30_000)
    folds = heldout.split(count.tokenised, news.labels)
    whole = TrainingSet(count.texts, news.labels, 4)
    scores = heldout.fold_scores(architectures(2)["MLP GeLU"], whole, folds, 256.0)
    found = find_shortcuts(whole.select(folds.rows), count.vocabulary.tokens, folds, scores)
    named = {token for shortcut in found for token in shortcut.phrase.split(" ")}
    assert {"ap", "afp", "reuters"} <= named
    assert {"ap", "afp"} <= {token for s in found if s.costs for token in s.phrase.split(" ")}
    assert not {"iraq", "league", "microsoft", "oil"} & named
