"""Co-occurrence by class and what chance makes of it; training read beside it."""

from __future__ import annotations

import numpy as np
import pytest

from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.additive import batches_by_token
from foretrain.kernels.tangent import Scales
from foretrain.models.text_networks import network
from foretrain.papers.feature_extraction.claims.classes import _by_chance, class_cooccurrence
from foretrain.papers.feature_extraction.experiments.label_scores import (
    LabelledCorpus,
    read_corpus,
    token_scores,
    trained_scores,
)
from foretrain.papers.feature_extraction.experiments.lazy import SmallCorpus, descended_scores


def small() -> LabelledCorpus:
    texts = TokenTexts.of_lists([[0, 0, 1], [1, 2], [2, 2], [0]], 4)
    return LabelledCorpus(texts, np.array([0, 1, 2, 0]), texts, np.array([0, 1, 2, 0]), np.array([3]))


def test_class_cooccurrence_is_a_count_less_an_equal_share() -> None:
    by_class = np.array([[3, 0, 0], [1, 1, 0], [0, 1, 2], [0, 0, 0]])
    np.testing.assert_allclose(class_cooccurrence(small()), by_class - by_class.sum(1, keepdims=True) / 3)


def test_two_classes_give_half_the_difference() -> None:
    corpus = read_corpus("made_up", texts=50)
    np.testing.assert_allclose(2 * class_cooccurrence(corpus)[:, 1], corpus.cooccurrence())


def test_chance_grows_with_the_number_of_shuffles_and_stays_far_below_one() -> None:
    few, many = (_by_chance(("made_up_4",), 600, n)["by_chance"].values for n in (5, 40))
    assert np.all(many >= few)
    assert np.all(many < 0.6)


def test_kept_texts_and_changed_labels() -> None:
    kept = small().keep(np.array([2, 0]))
    assert [kept.train[i].tolist() for i in range(2)] == [[2, 2], [0, 0, 1]]
    assert kept.labels.tolist() == [2, 0]
    assert small().with_labels(np.array([1, 1, 0, 0])).cooccurrence().tolist() == [2 - 1, 2, 1 - 2, 0]


@pytest.mark.parametrize("name", ["MLP ReLU", "CNN ReLU"])
def test_trained_scores_are_read_after_every_epoch_with_the_movement_of_the_kernel(name: str) -> None:
    corpus = read_corpus("made_up", texts=60)
    run = trained_scores(corpus, name, 3, epochs=2, width=8)
    net = network(name, corpus.vocab, 8, scales=Scales(0.1, 0.1, 0.1, 0.1), padded=True)
    start = net.start_one((f"feature_extraction/{name}", 3, "start"))
    np.testing.assert_array_equal(run.score.sel(epoch=0), token_scores(net, start)[:, 0])
    moved = run.movement.values
    assert moved[0] == 0
    assert 0 < moved[1] < moved[2]


def test_runs_side_by_side_are_runs_one_by_one() -> None:
    corpus = SmallCorpus.made_up(12, 6, 4, 0.7)
    net = network("SA + ReLU", 6, 16, scales=Scales())
    both = descended_scores(
        net,
        net.start([("test", s) for s in (1, 2)]),
        corpus,
        corpus.asked("SA + ReLU"),
        rate=0.1,
        steps=3,
    )
    for row, seed in zip(both, (1, 2), strict=True):
        alone = net.start([("test", seed)])
        np.testing.assert_allclose(
            descended_scores(net, alone, corpus, corpus.asked("SA + ReLU"), rate=0.1, steps=3)[0],
            row,
            rtol=1e-4,
            atol=1e-6,
        )
    assert not np.allclose(both[0], both[1])


def test_batches_by_token_are_those_of_a_plain_loop() -> None:
    draw = np.random.default_rng(1)
    texts = TokenTexts.of_lists([draw.integers(0, 5, draw.integers(0, 6)).tolist() for _ in range(11)], 5)
    order = draw.permutation(11)
    seen = []
    for rows, tokens, counts in batches_by_token(texts, order, 4):
        assert tokens.tolist() == sorted({k for i in rows for k in texts[i].tolist()})
        for i, line in zip(rows, counts, strict=True):
            assert line.tolist() == [texts[i].tolist().count(k) for k in tokens]
        seen += rows.tolist()
    assert seen == order.tolist()
