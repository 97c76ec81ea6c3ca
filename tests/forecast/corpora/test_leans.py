"""Lists of what looks wrong: exactly what was planted comes out, and nothing where labels are shuffled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.negation import Negation
from foretrain.data.tokens import TokenTexts
from foretrain.forecast.corpora import leans
from foretrain.forecast.corpora import scores as corpus_scores
from foretrain.forecast.corpora.forecast import CorpusForecast
from foretrain.forecast.corpora.forecast import corpus as forecast_corpus
from foretrain.forecast.corpora.leans import Lean


def texts(draw: np.random.Generator, positive: int, negative: int, plant=lambda draw, k: "") -> LabelledTexts:
    """Eight of forty fillers, function words and a content word, the same in both classes but for the last; `plant`
    adds words to a text of class k."""
    fill = [*(f"w{k}" for k in range(30)), "the", "and", "of", "Bergman", "7", "!", "is", "to", "he", "was"]
    labels = np.array([1] * positive + [0] * negative)
    rows = [f"a {' '.join(draw.choice(fill, 8))} {'joy' if k else 'woe'} {plant(draw, k)}" for k in labels]
    return LabelledTexts(tuple(rows), labels, ("bad", "good"))


@pytest.fixture(autouse=True)
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_scores, "PAIRED_TEXTS", 100)  # the lists here do not hang on the scores after attention


def imbalanced(result: CorpusForecast) -> set[str]:
    return {token for token, flag in zip(result.tokens, result.from_imbalance, strict=True) if flag}


def test_a_planted_token_is_neither_from_imbalance_nor_a_contradiction() -> None:
    def signature(draw: np.random.Generator, k: int) -> str:
        return "<br />" if k == 0 and draw.random() < 0.6 else ""

    result = forecast_corpus(texts(np.random.default_rng(0), 300, 300, signature))
    assert not imbalanced(result)
    assert not result.contradictions


def test_planted_negations_are_the_only_contradictions() -> None:
    def clause(draw: np.random.Generator, k: int) -> str:
        n = draw.integers(4)
        negated = draw.random() < 0.2
        return ("not " if negated else "very ") + (f"fine{n}" if k != negated else f"poor{n}")

    result = forecast_corpus(texts(np.random.default_rng(1), 800, 800, clause), time=16)
    assert {c["bigram"] for c in result.contradictions} == {f"not {a}{n}" for a in ("fine", "poor") for n in range(4)}
    assert all(c["log_odds"] > 0 > c["log_odds_of_parts"] for c in result.contradictions)
    assert {c["kind"] for c in result.contradictions} == {"wrong"}


def contradicting(texts: TokenTexts, labels: np.ndarray) -> dict[tuple[int, int], dict[str, Any]]:
    """Bigrams in five texts or more that contradict their parts."""
    class_of = np.eye(2)[labels]
    grams, counts = texts.ngrams(2)
    tokens, pairs = ((held > 0).astype(float).T @ class_of for held in (texts.counts, counts))
    kept = pairs.sum(axis=1) >= 5
    sizes = class_of.sum(axis=0)
    names = [f"{first} {second}" for first, second in grams[kept]]
    result = leans.contradictions(names, grams[kept], Lean(tokens, sizes), Lean(pairs[kept], sizes), ("no", "yes"))
    return {(int(c["bigram"].split()[0]), int(c["bigram"].split()[1])): c for c in result}


DECIDING = {(modifier, adjective) for modifier in (0, 1) for adjective in range(2, 22)}  # NOT and VERY before any


def test_adding_up_is_undecided_where_no_token_says_anything() -> None:
    """Every modifier with every adjective in ten texts each: all tokens lean by exactly 0."""
    draw = np.random.default_rng(3)
    rows = np.array([[*pair, *draw.integers(22, 42, 6)] for pair in sorted(DECIDING) for _ in range(10)])
    labels = ((rows[:, 1] < 12) != (rows[:, 0] == 0)).astype(np.int64)
    result = contradicting(TokenTexts.of_rows(rows, 42), labels)
    assert set(result) == DECIDING
    assert all((c["kind"], c["log_odds_of_parts"]) == ("undecided", 0) for c in result.values())


@pytest.mark.parametrize("seed", range(3))
def test_chance_in_the_parts_of_a_negation_is_no_contradiction(seed: int) -> None:
    draw = np.random.default_rng(seed)
    texts, labels = Negation().sample(2000, draw)
    result = contradicting(texts, labels)
    assert set(result) >= DECIDING
    assert len(result) <= len(DECIDING) + 3  # fillers: one in twenty
    assert {result[pair]["kind"] for pair in DECIDING} == {"undecided"}
    assert not any(contradicting(texts, draw.permutation(labels)) for _ in range(3))


def test_bigrams_with_function_words_or_marks_are_never_listed() -> None:
    """ "of the" decides a class while neither word does, and so does "odd case"; only the latter is worth a line."""
    grams = np.array([[0, 1], [2, 3]])
    even = Lean(np.full((4, 2), 200.0), np.full(2, 400.0))
    pairs = Lean(np.array([[80.0, 5.0], [80.0, 5.0]]), np.full(2, 400.0))
    result = leans.contradictions(["of the", "odd case"], grams, even, pairs, ("no", "yes"))
    assert [c["bigram"] for c in result] == ["odd case"]


def test_what_all_texts_share_scores_by_the_larger_class_alone() -> None:
    rows = ["plain thing joy"] * 90 + ["plain thing woe"] * 30
    corpus = LabelledTexts(tuple(rows), np.array([1] * 90 + [0] * 30), ("bad", "good"))
    assert imbalanced(forecast_corpus(corpus)) == {"plain", "thing"}
    even = replace(corpus, texts=corpus.texts[60:], labels=corpus.labels[60:])
    assert not imbalanced(forecast_corpus(even))


def test_a_class_of_many_is_large_against_its_equal_share() -> None:
    """Of 20 classes one has twice as many texts: a share of 10 % instead of 5 %."""
    sizes = np.array([80.0, *[40.0] * 19])
    assert leans.from_imbalance(Lean(sizes[None], sizes)).all()
    near = np.array([42.0, *[40.0] * 19])
    assert not leans.from_imbalance(Lean(near[None], near)).any()


def test_imbalance_is_one_of_texts_not_of_their_lengths() -> None:
    """In ten positive texts of a hundred tokens and ten negative ones of ten, no class has more texts."""
    rows = [" ".join(["plain"] * 100)] * 10 + [" ".join(["plain"] * 10)] * 10
    corpus = LabelledTexts(tuple(rows), np.array([1] * 10 + [0] * 10), ("bad", "good"))
    assert not imbalanced(forecast_corpus(corpus))


def test_shuffled_labels_leave_the_lists_empty() -> None:
    draw = np.random.default_rng(2)
    whole = texts(draw, 300, 300, lambda draw, k: "<br />" if k == 0 and draw.random() < 0.6 else "not joy")
    for _ in range(3):
        result = forecast_corpus(replace(whole, labels=draw.permutation(whole.labels)))
        assert (result.shortcuts, result.contradictions, imbalanced(result)) == ((), (), set())
        assert result.summary.startswith("No signal")


def test_a_score_of_nothing_is_not_strong() -> None:
    scores = np.array([[1.0], [-0.2], [0.05], [1e-15], [0.0]])
    assert leans.strong([scores]).tolist() == [True, True, False, False, False]
    assert not leans.strong([np.zeros((3, 1))]).any()


@given(st.integers(5, 400), st.integers(5, 400), st.data())
def test_chance_is_that_of_drawing_texts_or_larger(first: int, second: int, data: st.DataObject) -> None:
    """Against the exact hypergeometric tails: never much below them, and close while few texts hold the token."""
    held = np.array([[data.draw(st.integers(0, first)), data.draw(st.integers(0, second))]], dtype=float)
    lean = Lean(held, np.array([first, second], dtype=float))
    as_many, as_few = (chance[0, 1] for chance in lean.chance)
    exact = hypergeom(first + second, second, held.sum())
    for chance, tail in ((as_many, exact.sf(held[0, 1] - 1)), (as_few, exact.cdf(held[0, 1]))):
        if tail < 0.05:
            assert chance >= 0.9 * tail
            if 10 * held.sum() < first + second:
                assert chance <= max(50 * tail, 0.1)
    assert max(as_many, as_few) >= 0.5


def test_a_score_for_the_smaller_class_is_not_from_imbalance():
    share = np.array([0.6, 0.4])
    scores = np.array([[1.0], [-1.0], [-0.01]])  # for the second class, for the first, too low
    assert leans.toward_larger([scores], share).tolist() == [False, True, False]
    three = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    assert leans.toward_larger([three], np.array([0.5, 0.3, 0.2])).tolist() == [True, False, False]
