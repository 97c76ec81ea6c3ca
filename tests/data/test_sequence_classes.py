from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foretrain import InputError
from foretrain.data import SequenceClasses
from foretrain.data import sequence_classes as module


def random_task(seed: int, *, classes: int = 4, vocab: int = 12, length: int = 20) -> SequenceClasses:
    """Any pattern of shared tokens: P(l|n) with about half its entries 0."""
    draw = np.random.default_rng(seed)
    table = draw.random((classes, vocab)) * (draw.random((classes, vocab)) < 0.5)
    table[np.arange(classes), draw.integers(vocab, size=classes)] += 0.5
    return SequenceClasses(
        table / table.sum(axis=1, keepdims=True),
        draw.integers(vocab, size=classes),
        draw.permutation(vocab)[:classes],
        length=length,
    )


def test_syn_small_is_the_setting_of_figure_4():
    task = SequenceClasses.syn_small()
    assert (task.classes, task.vocab, task.length) == (2, 34, 128)
    assert task.common_tokens.tolist() == list(range(10))
    assert [d.tolist() for d in task.distinct_tokens] == [list(range(10, 20)), list(range(20, 30))]
    assert task.query.tolist() == [30, 31]
    assert task.label.tolist() == [32, 33]
    assert task.probabilities[0, 19] == pytest.approx(task.probabilities[0, 0])
    assert task.probabilities[0, 10] == pytest.approx(task.probabilities[0, 19] / 10)


@pytest.mark.parametrize("queries", [1, 3, 10])
def test_syn_medium_has_two_classes_per_query(queries):
    task = SequenceClasses.syn_medium(queries)
    assert task.vocab == 10 + 20 * queries + queries + 2 * queries
    assert np.bincount(task.query - task.query.min()).tolist() == [2] * queries


@given(seed=st.integers(0, 10**6))
def test_support_holds_each_class_once_common_tokens_first(seed):
    task = random_task(seed)
    common = len(task.common_tokens)
    for n, row in enumerate(task.support[:, : task.vocab]):  # one slot more where every token is common
        assert len(set(row.tolist())) == len(row)
        assert row[:common].tolist() == task.common_tokens.tolist()
        own = task.distinct_tokens[n]
        assert row[common : common + len(own)].tolist() == own.tolist()
        assert task.probabilities[n, row].sum() == pytest.approx(1)


@given(seed=st.integers(0, 10**6), cells=st.sampled_from([4, 64, 4096]))
def test_cells_carry_exactly_the_probabilities(seed, cells):
    """What whole cells give a slot, and what cut cells add to it, is its probability: no draw is approximate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CELLS", cells)
        task = random_task(seed)
        table, edges = task._slot_of_cell, task._edges
    slots = task.support.shape[1]
    low = np.arange(cells) / cells
    for n in range(task.classes):
        whole = np.bincount(table[n], minlength=slots + 1)[:slots] / cells
        cut = low[table[n] == slots]
        left = np.concatenate([[0.0], edges[n, :-1]])
        inside = np.minimum(edges[n], cut[:, None] + 1 / cells) - np.maximum(left, cut[:, None])
        share = whole + np.maximum(inside, 0).sum(axis=0)
        assert share == pytest.approx(task._support_probabilities[n], abs=1e-12)


@pytest.mark.parametrize("length", [8, 40, 2000])  # token by token, and as a multinomial
def test_counts_follow_the_multinomial(length):
    task = random_task(3, length=length)
    batch = task.sample(20_000, 7)
    assert (batch.counts.sum(axis=1) == length - 1).all()
    assert not batch.counts[~task.occurs[batch.classes]].any()
    for n in range(task.classes):
        own = batch.counts[batch.classes == n][:, task.occurs[n]]
        p = task.probabilities[n, task.occurs[n]]
        chi = ((own.sum(axis=0) - own.sum() * p) ** 2 / (own.sum() * p)).sum()
        assert stats.chi2.sf(chi, len(p) - 1) > 1e-4
        spread = own.var(axis=0, ddof=1) / ((length - 1) * p * (1 - p))
        assert spread == pytest.approx(1, abs=6 * np.sqrt(2 / len(own)) + 6 / np.sqrt(len(own) * length * p.min()))


def test_classes_follow_their_weights():
    task = SequenceClasses(np.eye(3, 4), (3, 3, 3), class_weights=(0.5, 0.0, 0.5))
    share = np.bincount(task.sample(4000, 1).classes, minlength=3) / 4000
    assert share[1] == 0
    assert abs(share[0] - 0.5) < 4 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize("length", [8, 2000])
def test_sequences_are_their_counts(length):
    task = random_task(5, length=length)
    batch = task.sample(30, 2, sequences=True)
    assert batch.sequences.shape == (30, length - 1)
    counted = [np.bincount(s, minlength=task.vocab) for s in batch.sequences]
    assert np.array_equal(counted, batch.counts)
    assert np.array_equal(batch.queries, task.query[batch.classes])
    assert np.array_equal(batch.labels, task.label[batch.classes])


def test_the_generator_decides_everything():
    task = random_task(1)
    assert np.array_equal(task.sample(50, 4).counts, task.sample(50, 4).counts)
    assert not np.array_equal(task.sample(50, 4).counts, task.sample(50, 5).counts)


GOOD = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("table", "query", "more", "words"),
    [
        ([[0.5, 0.6]], (0,), {}, "must sum to 1; it sums to 1.1"),
        ([[1.5, -0.5]], (0,), {}, "must not be negative; its smallest entry is -0.5"),
        ([[np.nan, 1.0]], (0,), {}, "finite"),
        ([[1.0]], (0,), {}, "vocab must be at least 2; got 1"),
        (np.array([1.0, 0.0]), (0,), {}, "two axes"),
        (GOOD, (0, 3), {}, "query must lie between 0 and 2; got 3"),
        (GOOD, (0, -1), {}, "query must lie between 0 and 2; got -1"),
        (GOOD, np.array([0.5, 1]), {}, "whole numbers"),
        (GOOD, (0,), {}, "one token per class"),
        (GOOD, (0, 1), {"label": (2, 2)}, "label token of its own"),
        (GOOD, (0, 1), {"length": 1}, "length .* must be a whole number of at least 2"),
        (GOOD, (0, 1), {"class_weights": (0.5, 0.4)}, "class_weights .* must sum to 1"),
        (GOOD, (0, 1), {"class_weights": (1.0,)}, "2 entries"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(table, query, more, words):
    with pytest.raises(InputError, match=words):
        SequenceClasses(table, query, **more)


def test_a_batch_needs_a_sample():
    with pytest.raises(InputError, match="n must be a whole number of at least 1; got 0"):
        random_task(1).sample(0, 1)
    with pytest.raises(InputError, match="queries must be a whole number of at least 1; got 0"):
        SequenceClasses.syn_medium(0)
