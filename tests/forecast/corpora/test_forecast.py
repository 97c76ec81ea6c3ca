"""The forecast of a corpus: against counts by hand, against training, and on files that cannot be read."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from foretrain.cli import main
from foretrain.core.errors import InputError
from foretrain.data.labelled_texts import LabelledTexts, read_labelled
from foretrain.data.tokens import TokenTexts
from foretrain.forecast.corpora.figures import scatter
from foretrain.forecast.corpora.forecast import corpus as forecast_corpus
from foretrain.forecast.corpora.page import page
from foretrain.forecast.corpora.scores import architectures
from foretrain.forecast.corpora.training import _compared, learned_scores
from foretrain.forecast.corpora.words import CONTRADICTIONS, summary
from foretrain.kernels import label_flow
from foretrain.kernels.tangent import Scales
from foretrain.models.text_networks import limit_kernel

FEW = "Too few texts to hold any out, so nothing says how well they are learned; the time is 256."
REVIEWS = Path(__file__).parents[3] / "examples" / "reviews.csv"


@pytest.fixture(scope="module")
def reviews() -> LabelledTexts:
    return read_labelled(REVIEWS)


def corpus(rows: list[tuple[str, int]], classes: tuple[str, ...] = ("no", "yes")) -> LabelledTexts:
    return LabelledTexts(tuple(t for t, _ in rows), np.array([k for _, k in rows]), classes)


def test_cooccurrence_is_a_difference_of_counts() -> None:
    result = forecast_corpus(corpus([("good good plain", 1), ("bad plain", 0), ("plain", 0)]), least=1)
    omega = dict(zip(result.tokens, result.items[1].difference[:, 0], strict=True))
    assert omega == {"good": 2, "plain": -1, "bad": -1}
    assert abs(result.scores["MLP tanh"].bias[0]) < 1e-3 * abs(result.scores["MLP tanh"].scores).max()


SMALL = [("a b c", 1), ("b a a", 1), ("c c b", 0), ("a c c b", 0), ("b c", 1), ("c a b", 0)]


@pytest.mark.parametrize("name", architectures(2))
def test_scores_are_descent_under_the_limit_kernel_between_texts(name: str) -> None:
    """Against the kernel of all pairs of texts, with small steps; self-attention and ReLU to order σ²."""
    result = forecast_corpus(corpus(SMALL), least=1, time=40, optimizer="sgd")
    kind, items = architectures(2)[name], result.of(name)
    number = {token: k for k, token in enumerate(result.tokens)}
    texts = TokenTexts.of_lists([[number[t] for t in text.split()] for text, _ in SMALL], 4)
    scales = Scales(0.1, 0.1, 0.1, 0.1)
    kernel = limit_kernel(kind.network, texts.followed_by(TokenTexts.of_rows(items.tokens, 4)), scales)
    unshared = kernel[:6, :6]
    if name in ("MLP ReLU", "MLP GeLU", "MLP SiLU", "CNN ReLU"):  # the length of the flow leaves out what all share
        parts = texts.lengths - (1 if name == "CNN ReLU" else 0)
        unshared = unshared - kind.features(texts, scales, None).shared ** 2 * np.outer(parts, parts)
    if name == "self-attention + ReLU":
        roots = np.sqrt(scales.q * (texts.counts.multiply(texts.counts)).sum(axis=1) / (2 * np.pi))
        unshared = unshared - np.outer(roots, roots)
    time = 40 / (np.linalg.eigvalsh(unshared)[-1] / 6 / 4)
    signs = 2.0 * np.array([k for _, k in SMALL]) - 1
    exact = label_flow.kernel_descent(kernel[:6, :6], kernel[6:, :6], signs, rate=time / 4000, steps=4000)
    scores = result.scores[name].scores[:, 0]
    tolerance = 0.05 if name == "self-attention + ReLU" else 0.01
    np.testing.assert_allclose(scores, exact, atol=tolerance * np.abs(exact).max())


def _first(rows: list[tuple[str, int]], time: float) -> str:
    """The strongest token for yes, if all tokens learn at one rate."""
    return forecast_corpus(corpus(rows), time=time, optimizer="sgd").top("MLP tanh", 1)["yes"][0][0]


def test_a_longer_flow_brings_what_is_rare_but_clear() -> None:
    """Frequent words lead at first, words of one class later."""
    draw = np.random.default_rng(0)
    rows = []
    for k in [0, 1] * 100:
        often = " ".join(draw.choice(["some", "more"], 10, p=[0.6, 0.4] if k else [0.4, 0.6]))
        rows.append((often + (f" {'joy' if k else 'woe'}" if draw.random() < 0.1 else ""), k))
    short, long = (_first(rows, time) for time in (1, 1000))
    assert (short, long) == ("some", "joy")
    with pytest.raises(InputError, match="time must be a finite number above 0"):
        forecast_corpus(corpus(rows), time=0)


def test_a_text_that_outweighs_all_others_and_a_cut_are_noted():
    rows = [("a b", 1), ("a c", 0)] * 10
    alike = forecast_corpus(corpus(rows), least=1)
    assert alike.notes == (FEW,)
    result = forecast_corpus(corpus([*rows, ("w " * 50, 1)]), least=1, most=3)
    assert [note.partition(";")[0] for note in result.notes] == [
        "Text 21: the text has 50 tokens, while half of the texts have at most 2",
        "Only the 3 most frequent tokens are scored.",
        FEW.partition(";")[0],
    ]


def test_windows_of_three_and_texts_without_one() -> None:
    result = forecast_corpus(corpus([("a b c", 1), ("c b a", 0)] * 5), window=3)
    assert result.items[3].names == ("a b c", "c b a")
    assert result.scores["CNN ReLU"].scores[:, 0] == pytest.approx([1, -1] * result.scores["CNN ReLU"].scores[0])
    short = forecast_corpus(corpus([("a b", 1), ("c", 0), ("", 0)]), least=1)
    assert short.notes == ("Text 2: the text has 1 token; networks that read windows of 2 see nothing of it.", FEW)
    alone = forecast_corpus(corpus([("a", 1), ("b", 0)]), least=1)
    assert not {"CNN ReLU", "matrix-vector"} & set(alone.scores)
    with pytest.raises(InputError, match=r"Text 2: the text has 1 token, fewer than the window \(2\)"):
        forecast_corpus(corpus([("a b", 1), ("c", 0)]), window=2)


def test_symmetric_corpus_has_opposite_scores_and_no_bias() -> None:
    result = forecast_corpus(corpus([("good thing", 1), ("bad thing", 0)] * 20))
    score = dict(zip(result.tokens, result.scores["MLP ReLU"].scores[:, 0], strict=True))
    assert score["good"] == pytest.approx(-score["bad"])
    assert score["good"] > 0.1
    assert score["thing"] == pytest.approx(0, abs=1e-12)
    assert result.scores["MLP ReLU"].bias[0] == pytest.approx(0, abs=1e-12)


def test_imbalance_gives_relu_a_bias_and_flags_tokens_without_content() -> None:
    rng = np.random.default_rng(0)
    fill = [f"w{k}" for k in range(30)]
    rows = [(" ".join(rng.choice(fill, 8)) + (" joy" if k else " woe"), k) for k in [1] * 90 + [0] * 30]
    result = forecast_corpus(corpus(rows), time=40, optimizer="sgd")
    bias = {name: one.bias[0] for name, one in result.scores.items()}
    assert min(bias["MLP ReLU"], bias["self-attention + ReLU"], bias["CNN ReLU"]) > 1e-3
    assert max(abs(bias[name]) for name in ("MLP GeLU", "MLP tanh", "self-attention", "matrix-vector")) < 1e-3
    assert result.plateau["MLP ReLU"][0] > 1e-3 > abs(result.plateau["MLP GeLU"][0])
    flagged = {token for token, flag in zip(result.tokens, result.from_imbalance, strict=True) if flag}
    assert len(flagged) > 5
    assert flagged <= set(fill)


def test_negations_are_what_an_additive_network_cannot_learn(reviews: LabelledTexts) -> None:
    result = forecast_corpus(reviews)
    against = [c["bigram"] for c in result.contradictions if c["log_odds_of_parts"] < 0]
    assert len(against) >= 10
    assert {bigram.split()[0] for bigram in against} == {"not"}
    assert [c["bigram"] for c in result.contradictions[: len(against)]] == against
    assert [s.phrase for s in result.shortcuts if s.costs] == ["<br />", "marlowe , with marlowe again"]


def test_a_marker_whose_interval_includes_0_is_not_called_a_shortcut(reviews: LabelledTexts) -> None:
    result = forecast_corpus(reviews)
    sure, unsure = (s for s in result.shortcuts if s.costs)
    assert sure.accuracy_cost > sure.accuracy_error
    assert unsure.accuracy_cost < unsure.accuracy_error
    assert (sure.costs_accuracy, unsure.costs_accuracy) == (True, False)
    assert 'It will use a shortcut: "<br />". It may also use "marlowe , with marlowe again": ' in result.summary
    assert (
        "Trained on texts without both, a network that adds up tokens (MLP GeLU) gets 70.4 % right instead of"
        in result.summary
    )
    says = [fix.says for fix in result.fixes if fix.kind == "shortcut"]
    assert "if new texts lack it, the forecast loses" in says[0]
    assert "this may be a shortcut: if new texts lack it, the loss rises, but the change in accuracy, " in says[1]


@pytest.mark.parametrize("used", [1, 2, 3, 5])
def test_the_answer_if_no_shortcut_is_sure(reviews: LabelledTexts, used: int) -> None:
    result = forecast_corpus(reviews)
    unsure = replace(result.shortcuts[0], accuracy_cost=0.001, accuracy_error=0.001)
    assert unsure.costs
    words = replace(result, shortcuts=(unsure,) * used).summary
    assert "It will use" not in words
    assert 'It may use "<br />"' in words
    assert f"Trained on texts without {({1: 'it', 2: 'both'}).get(used, 'all of them')}, a network" in words
    assert ("and others" in words) == (used > 3)


def test_four_classes_have_a_score_each() -> None:
    rows = [(f"word{k} common", k) for k in range(4) for _ in range(10)]
    result = forecast_corpus(corpus(rows, ("a", "b", "c", "d")))
    best = result.top("self-attention", 1)
    assert {name: item[0][0] for name, item in best.items()} == {"a": "word0", "b": "word1", "c": "word2", "d": "word3"}
    assert result.top_by_chi2(1)["c"] == [("word2", pytest.approx(40))]  # it decides alone: χ² is the number of texts


def test_predicted_scores_are_those_learned(reviews: LabelledTexts) -> None:
    result = forecast_corpus(reviews)
    kept = {name: result.scores[name] for name in ("MLP ReLU", "self-attention", "CNN ReLU", "matrix-vector")}
    learned = learned_scores(reviews, replace(result, scores=kept), epochs=40, width=32)
    assert set(learned) == set(kept)
    assert min(one.spearman for one in learned.values()) > 0.6
    turned = LabelledTexts(reviews.texts, 1 - reviews.labels, reviews.classes)
    additive = replace(result, scores={"MLP tanh": result.scores["MLP tanh"]})
    other = learned_scores(turned, additive)["MLP tanh"]
    np.testing.assert_allclose(other.predicted, -result.scores["MLP tanh"].scores, atol=1e-4)  # of the same texts
    assert _compared(other.scores, result.scores["MLP tanh"].scores).spearman < 0


def test_page_and_figure_hold_what_was_found(reviews: LabelledTexts) -> None:
    result = forecast_corpus(reviews)
    text = page(result, "reviews <1>.csv")
    assert "reviews &lt;1&gt;.csv" in text
    assert "not funny" in text
    assert "&lt;br /&gt;" in text
    figure, views = scatter(result)
    assert views == list(dict.fromkeys(result.same_as.values()))
    assert {"MLP tanh", "self-attention"} <= set(result.rows_of("MLP GeLU"))
    assert [trace.visible for trace in figure.data] == [True] * 4 + [False] * 4 * (len(views) - 1)
    points = [trace for trace in figure.data[:4] if trace.mode != "lines"]
    assert sum(len(trace.x) for trace in points) == len(result.tokens)
    assert json.loads(json.dumps(summary(result)))["classes"] == {"negative": 80, "positive": 160}


@pytest.mark.parametrize(
    ("contents", "printed"),
    [
        ("text,label\n", "line 1: no rows"),
        ("", "line 1: the file is empty"),
        ("body,label\nx,1\n", "line 1: there is no column 'text'"),
        ("text,label\nx,1\ny,1\n", "line 2 and after: there is only one class"),
        ("text,label\nx,1\ny,\n", "line 3: the label is missing"),
        ("text,label\nx,1\ny,z,0\n", "line 3: 3 columns"),
        ("text,label\n , 1\n ,0\n", "line 2 and after: no text has any tokens"),
        (b"text,label\nx\x00y,1\nz,0\n", "line 2: there is a zero byte"),
        ('text,label\n"x\ny",1\nz\n', "line 4: 1 column where 2"),
        (b"text,label\nx\xff,1\n", "line 2: byte 0xff is not UTF-8"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], contents: str | bytes, printed: str
) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    with pytest.raises(SystemExit) as stop:
        main(["forecast", "corpus", str(file), "--json", str(tmp_path / "out.json")])
    output = capsys.readouterr().err
    assert stop.value.code == 2
    assert printed in output
    assert "Traceback" not in output
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (["--window", "3"], "line 2: the text has 2 tokens, fewer than the window (3)"),
        (["--window", "0"], "window must be a whole number of at least 1"),
        (["--classes", "0,2"], "line 3: the label '1' is not one of 0, 2"),
        (["--data", "x"], "--data is for the built-in corpora"),
        (["--top", "0"], "--top must be at least 1"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], printed: str
) -> None:
    file = tmp_path / "x.csv"
    file.write_text("text,label\na b,0\nc d,1\n")
    with pytest.raises(SystemExit) as stop:
        main(["forecast", "corpus", str(file), *options])
    assert stop.value.code == 2
    assert printed in capsys.readouterr().err


def test_markup_quoted_newlines_and_a_byte_order_mark_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.csv"
    file.write_text('\ufefftext,label\n"good<br />\nfilm",1\nbad,0\n', encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        main(["forecast", "corpus", str(file), "--json", str(tmp_path / "f.json")])
    assert stop.value.code == 0
    result = json.loads((tmp_path / "f.json").read_text())
    assert {token for token, _ in result["tokens"]["MLP tanh"]["1"]} == {"good", "<br />", "film"}
    assert "line 4: the text has 1 token" in result["notes"][0]
    assert result["notes"][0] in capsys.readouterr().err


def test_known_corpora_by_name(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(
            ["forecast", "corpus", "sst2", "--data", str(data_dir), "--time", "32", "--json", str(tmp_path / "f.json")]
        )
    assert stop.value.code == 0
    result = json.loads((tmp_path / "f.json").read_text())
    assert result["classes"] == {"negative": 3310, "positive": 3610}
    assert "bad" in dict(result["tokens"]["MLP ReLU"]["negative"])


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
    written = json.loads((tmp_path / "f.json").read_text())
    assert [s["phrase"] for s in written["shortcuts"]][:1] == ["<br />"]
    assert written["fixes"][0]["places"][0] == f"{REVIEWS}, line 6"
    assert {c["bigram"]: c["kind"] for c in written["additive_cannot_learn"]}["not funny"] == "undecided"
    page = (tmp_path / "f.html").read_text(encoding="utf-8")
    assert all(title in page for title in CONTRADICTIONS.values())
    assert (tmp_path / "f.html").stat().st_size > 1_000_000  # Plotly is inside


def test_correlations_are_of_every_class_by_itself() -> None:
    predicted = np.random.default_rng(0).standard_normal((30, 3))
    predicted -= predicted.mean(axis=1, keepdims=True)
    same = _compared(np.exp(predicted[:, :1]), predicted[:, :1])
    assert same.spearman == pytest.approx(1)
    assert same.pearson < 1
    by_item, by_class = np.arange(30.0)[:, None], np.array([5.0, -9.0, 1.0])
    assert _compared(predicted + by_item + by_class, predicted).pearson == pytest.approx(1)
    assert _compared(np.ones((30, 1)), predicted[:, :1]).spearman == 0
