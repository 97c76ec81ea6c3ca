"""Shortcuts: what was planted is found and named, what sentences place is not, and costs are those of removal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import TokenTexts, Vocabulary, words
from foretrain.forecast.corpora import scores as corpus_scores
from foretrain.forecast.corpora.baselines import guesses, losses
from foretrain.forecast.corpora.fixed_positions import MOST, Position, by_chance, shortest
from foretrain.forecast.corpora.fixes import fixes, normal_form
from foretrain.forecast.corpora.forecast import CorpusForecast, corpus
from foretrain.forecast.corpora.heldout import Split
from foretrain.forecast.corpora.heldout_summary import removed
from foretrain.forecast.corpora.scores import TrainingSet, targets
from foretrain.forecast.corpora.shortcuts import Shortcut, find_shortcuts


@pytest.fixture(autouse=True)
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_scores, "PAIRED_TEXTS", 60)  # shortcuts do not depend on self-attention + ReLU


SUBJECTS, VERBS = ("the old man", "a child", "my neighbour", "the nurse"), ("saw", "met", "heard", "liked")
GOOD, BAD = ("a fine", "a lovely", "a bright"), ("a poor", "a dull", "a grim")
THINGS = ("house", "road", "song", "garden", "play", "river", "town")


def sentences(rows: int, seed: int, plant: Callable[[str, np.random.Generator], str] = lambda t, d: t) -> LabelledTexts:
    """Two or three sentences per text, whose adjectives are of the class in two cases of three; `plant` changes a
    third of class 0."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, rows)
    texts = []
    for label in labels:
        parts = []
        for _ in range(draw.integers(2, 4)):
            kind = GOOD if (draw.random() < 0.67) == (label == 1) else BAD
            parts.append(" ".join((draw.choice(SUBJECTS), draw.choice(VERBS), draw.choice(kind), draw.choice(THINGS))))
        text = " . ".join(parts) + " ."
        texts.append(plant(text, draw) if label == 0 and draw.random() < 0.33 else text)
    return LabelledTexts(tuple(texts), labels, ("bad", "good"))


def anywhere(text: str, draw: np.random.Generator) -> str:
    parts = text.split()
    at = int(draw.integers(len(parts) + 1))
    return " ".join([*parts[:at], "sponsored", *parts[at:]])


PLANTS = {
    "end": (lambda t, d: f"{t} sent from my phone", "sent from my phone"),
    "start": (lambda t, d: f"fwd {t}", "fwd"),
    "anywhere": (anywhere, "sponsored"),
    "same place": (lambda t, d: " ".join([*t.split()[:4], "( upi )", *t.split()[4:]]), "upi"),
}


@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_shortcut_is_the_only_one_and_says_where_it_stands(kind: str) -> None:
    plant, phrase = PLANTS[kind]
    result = corpus(sentences(700, 1, plant))
    assert [s.phrase for s in result.shortcuts if s.costs] == [phrase]
    found = result.shortcuts[0]
    assert found.kind in {kind, "same place"} if kind in ("start", "same place") else found.kind == kind
    assert (found.towards, found.by_class[1]) == (0, 0)
    assert found.share == pytest.approx(0.33, abs=0.06)
    assert all(phrase.split()[0] in result.corpus.texts[row] for row in found.rows)
    assert result.fixes[0].kind == "shortcut"
    assert phrase in result.summary
    assert result.without is not None
    assert result.without.cost > result.without.error
    assert result.without.before - result.without.accuracy == pytest.approx(result.without.cost)


@pytest.mark.parametrize("seed", range(3))
def test_words_that_sentences_place_are_no_shortcuts(seed: int) -> None:
    result = corpus(sentences(700, seed))
    assert result.signal is not None
    assert result.signal.exists
    assert [s.phrase for s in result.shortcuts if s.costs] == []
    assert "No shortcut" in result.summary


def test_a_template_is_named_as_one() -> None:
    def notice(_: str, draw: np.random.Generator) -> str:
        return f"order {draw.integers(9999)} about {draw.choice(THINGS)} was delivered today , please rate it soon"

    result = corpus(sentences(700, 3, notice))
    assert result.shortcuts[0].kind == "template"
    assert len([s for s in result.shortcuts if s.costs]) == 1


def test_costs_are_those_of_taking_the_phrase_out() -> None:
    """Against texts that were really changed, and scored again."""
    data = sentences(400, 4, lambda t, d: f"{t} sent from my phone")
    split = [words(text) for text in data.texts]
    vocabulary = Vocabulary.of(split)
    texts, draw = vocabulary.encode(split), np.random.default_rng(0)
    scores = 0.1 * draw.standard_normal((2, len(vocabulary), 1))
    scores[:, vocabulary.number["phone"]] = -2
    fold = np.arange(400) % 2
    folds = Split(np.arange(400), fold, np.arange(400))
    found = find_shortcuts(TrainingSet(texts, data.labels, 2), vocabulary.tokens, folds, scores)[0]
    assert found.phrase == "sent from my phone"

    def judged(changed: TokenTexts) -> tuple[np.ndarray, np.ndarray]:
        logits = np.array([scores[fold[i], changed[i]].sum(axis=0) for i in range(400)])
        return losses(logits, targets(data.labels, 2)), guesses(logits) == data.labels

    without = TokenTexts.of_lists(
        [removed(texts[i].tolist(), sorted(found.phrases, key=lambda p: -len(p))) for i in range(400)], len(vocabulary)
    )
    (loss, right), (later, still) = judged(texts), judged(without)
    assert found.loss_cost == pytest.approx((later - loss).mean())
    assert found.accuracy_cost == pytest.approx(right.mean() - still.mean())
    assert found.loss_error == pytest.approx(1.96 * (later - loss).std() / np.sqrt(400))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=25))
def test_the_shortest_interval_is_the_shortest(values: list[int]) -> None:
    need = int(np.ceil(MOST * len(values)))
    brute = min(b - a for a in values for b in values if b >= a and sum(a <= v <= b for v in values) >= need)
    assert shortest(np.array(values)) == brute


def test_places_close_together_by_chance_are_as_rare_as_they_say() -> None:
    draw = np.random.default_rng(0)
    for count, stretch in ((5, 0.2), (10, 0.3), (20, 0.5)):
        share = np.mean([shortest(draw.random(count)) <= stretch for _ in range(4000)])
        assert share <= by_chance(count, stretch)
        assert by_chance(count, stretch) < max(20 * share, 0.05)


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), min_size=1, max_size=3))
def test_a_removed_phrase_leaves_the_other_tokens_in_order(tokens: list[int], phrase: list[int]) -> None:
    left = removed(tokens, [tuple(phrase)])
    assert (len(tokens) - len(left)) % len(phrase) == 0
    shown = " ".join(map(str, tokens)).replace(" ", "")
    assert "".join(map(str, left)) == shown.replace("".join(map(str, phrase)), "")


def labelled(rows: list[tuple[str, int]], classes: tuple[str, ...] = ("no", "yes")) -> LabelledTexts:
    return LabelledTexts(tuple(text for text, _ in rows), np.array([label for _, label in rows]), classes)


def test_fixes_name_conflicts_labels_empty_texts_repetitions_and_imbalance() -> None:
    rows = [("Call me 12 times!", 0), ("call me 7 times", 1), ("", 1), ("quite another", 1)] + [("same again", 1)] * 12
    found = {
        fix.kind: fix for fix in fixes(labelled(rows, ("No", "n o")), [len(text) for text, _ in rows], [], len(rows))
    }
    assert set(found) == {"conflict", "label", "empty", "duplicate", "imbalance"}
    assert found["conflict"].rows == (0, 1)
    assert found["conflict"].affected == 2
    assert found["empty"].rows == (2,)
    assert found["duplicate"].affected == 12  # eleven of the twelve, and one of the two calls
    assert "'No' and 'n o' differ only in case or spaces" in found["label"].says
    plain = [("one thing", 0), ("another thing", 1)]
    assert fixes(labelled(plain), [2, 2], [], 2) == []


def test_a_shortcut_is_weighed_by_the_texts_that_were_judged() -> None:
    """Found in 50 of 100 judged texts, it is as important in a corpus of 1,000; the counts say what they are of."""
    rows = [(f"text number {k}x", k % 2) for k in range(1000)]
    has, place = tuple(range(0, 100, 2)), Position("end", 0.0, 0.0, 0.0)
    one = Shortcut("sent from", ((1, 2),), "end", 0, (50, 0), 1.0, 1.0, has, 0.0, 0.0, 1.0, 0.1, place)
    corpora = labelled(rows), labelled(rows[:100])
    large, small = (next(f for f in fixes(c, [3] * len(c), [one], 100) if f.kind == "shortcut") for c in corpora)
    assert large.weight == small.weight == 0.05 * 50 / 100
    assert "(among the 100 texts that were judged: 50 texts)" in large.says
    assert "(50 texts)" in small.says


@given(st.text(alphabet="ab1 ,.!", max_size=12))
def test_the_normal_form_ignores_case_marks_spaces_and_numbers(text: str) -> None:
    form = normal_form(text)
    assert normal_form(form) == form
    assert normal_form(f"  {text.upper()} !") == form
    assert not set(form) & set(",.!")


def test_shuffled_labels_give_no_signal_and_no_shortcut() -> None:
    whole = sentences(600, 5, lambda t, d: f"{t} sent from my phone")
    for seed in range(3):
        mixed = np.random.default_rng(seed).permutation(whole.labels)
        result: CorpusForecast = corpus(LabelledTexts(whole.texts, mixed, whole.classes))
        assert result.summary.startswith("No signal")
        assert result.shortcuts == ()
