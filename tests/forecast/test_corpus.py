"""The forecast of a corpus: against counts by hand, against training, and on files that cannot be read."""

import json
from pathlib import Path

import numpy as np
import pytest

from foretrain.cli import main
from foretrain.data.labelled_texts import LabelledTexts, read_labelled
from foretrain.forecast.corpus import forecast_corpus
from foretrain.forecast.corpus_page import page, scatter, summary
from foretrain.forecast.corpus_training import learned_against_predicted

REVIEWS = Path(__file__).parents[2] / "examples" / "reviews.csv"


@pytest.fixture(scope="module")
def reviews() -> LabelledTexts:
    return read_labelled(REVIEWS)


def corpus(rows: list[tuple[str, int]], classes: tuple[str, ...] = ("no", "yes")) -> LabelledTexts:
    return LabelledTexts(tuple(t for t, _ in rows), np.array([k for _, k in rows]), classes)


def test_cooccurrence_is_a_difference_of_counts() -> None:
    found = forecast_corpus(corpus([("good good plain", 1), ("bad plain", 0), ("plain", 0)]), least=1)
    omega = dict(zip(found.tokens, found.cooccurrence[:, 0], strict=True))
    assert omega == {"good": 2, "plain": -1, "bad": -1}
    assert found.bias["MLP tanh"][0] == 0


def test_symmetric_corpus_has_opposite_scores_and_no_bias() -> None:
    found = forecast_corpus(corpus([("good thing", 1), ("bad thing", 0)] * 20))
    score = dict(zip(found.tokens, found.scores["MLP ReLU"][:, 0], strict=True))
    assert score["good"] == pytest.approx(-score["bad"])
    assert score["good"] > 0.1
    assert score["thing"] == pytest.approx(0, abs=1e-12)
    assert found.bias["MLP ReLU"][0] == pytest.approx(0, abs=1e-12)


def test_imbalance_gives_relu_a_bias_and_flags_tokens_without_content() -> None:
    rng = np.random.default_rng(0)
    fill = [f"w{k}" for k in range(30)]
    rows = [(" ".join(rng.choice(fill, 8)) + (" joy" if k else " woe"), k) for k in [1] * 90 + [0] * 30]
    found = forecast_corpus(corpus(rows))
    assert found.bias["MLP ReLU"][0] > 1e-3 > abs(found.bias["MLP GeLU"][0])
    flagged = {token for token, flag in zip(found.tokens, found.from_imbalance, strict=True) if flag}
    assert len(flagged) > 10
    assert not flagged & {"joy", "woe"}


def test_negations_are_what_an_additive_network_cannot_learn(reviews: LabelledTexts) -> None:
    found = forecast_corpus(reviews)
    assert {c["bigram"].split()[0] for c in found.contradictions} == {"not"}
    assert len(found.contradictions) >= 10
    assert found.spurious["<br />"] == "markup"
    assert found.spurious["marlowe"] == "name"


def test_four_classes_have_a_score_each() -> None:
    rows = [(f"word{k} common", k) for k in range(4) for _ in range(10)]
    found = forecast_corpus(corpus(rows, ("a", "b", "c", "d")))
    best = found.top(found.scores["self-attention"], found.tokens, 1)
    assert {name: item[0][0] for name, item in best.items()} == {"a": "word0", "b": "word1", "c": "word2", "d": "word3"}


def test_predicted_scores_are_those_learned(reviews: LabelledTexts) -> None:
    found = forecast_corpus(reviews)
    learned = learned_against_predicted(reviews, found, epochs=3)
    assert all(one["spearman"] > 0.6 for one in learned.values())
    turned = LabelledTexts(reviews.texts, 1 - reviews.labels, reviews.classes)
    assert all(one["spearman"] < 0 for one in learned_against_predicted(turned, found, epochs=2).values())


def test_page_and_figure_hold_what_was_found(reviews: LabelledTexts) -> None:
    found = forecast_corpus(reviews)
    text = page(found, "reviews <1>.csv")
    assert "reviews &lt;1&gt;.csv" in text
    assert "not funny" in text
    assert "&lt;br /&gt;" in text
    assert sum(len(trace.x) for trace in scatter(found).data) == len(found.tokens)
    assert json.loads(json.dumps(summary(found)))["classes"] == {"negative": 80, "positive": 160}


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ("text,label\n", "no rows"),
        ("", "empty"),
        ("body,label\nx,1\n", "no column 'text'"),
        ("text,label\nx,1\ny,1\n", "one class only"),
        ("text,label\nx,1\ny,\n", "line 3: the label is missing"),
        ("text,label\nx,1\ny,z,0\n", "line 3: 3 columns"),
        ("text,label\n , 1\n ,0\n", "No text holds a token"),
        (b"text,label\nx\xff,1\n", "line 2: byte 0xff is not UTF-8"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], contents: str | bytes, said: str
) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    with pytest.raises(SystemExit) as stop:
        main(["forecast", "corpus", str(file), "--json", str(tmp_path / "out.json")])
    told = capsys.readouterr().err
    assert stop.value.code == 2
    assert said in told
    assert "Traceback" not in told
    assert not (tmp_path / "out.json").exists()


def test_the_command_writes_json_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "forecast",
                "corpus",
                str(REVIEWS),
                "--json",
                str(tmp_path / "f.json"),
                "--report",
                str(tmp_path / "f.html"),
            ]
        )
    assert stop.value.code == 0
    assert "not funny" in capsys.readouterr().out
    assert json.loads((tmp_path / "f.json").read_text())["spurious"]["<br />"] == "markup"
    assert (tmp_path / "f.html").stat().st_size > 1_000_000  # Plotly is inside
