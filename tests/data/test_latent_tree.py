"""Latent trees: message passing against enumeration and sampling, and the set-union hierarchy."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrain import InputError
from foretrain.data import LatentTree, SetUnionHierarchy


@st.composite
def trees(draw) -> dict[str, Any]:
    nodes, classes = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    parents = [draw(st.integers(-1, n - 1)) for n in range(nodes)]
    order = draw(st.permutations(range(nodes)))  # parents may come behind their children
    shuffled = np.full(nodes, -1)
    for node, parent in enumerate(parents):
        shuffled[order[node]] = order[parent] if parent >= 0 else -1
    rho = draw(st.lists(st.floats(-1, 1) | st.sampled_from([-1.0, 0.0, 1.0]), min_size=nodes, max_size=nodes))
    top = int((shuffled < 0).sum())
    zero = draw(st.lists(st.floats(0, 1), min_size=top * classes, max_size=top * classes))
    weights = np.array(draw(st.lists(st.floats(0.1, 1), min_size=classes, max_size=classes)))
    return {
        "parents": shuffled,
        "rho": rho,
        "p_zero": np.reshape(zero, (top, classes)),
        "class_weights": weights / weights.sum(),
    }


@given(trees())
def test_marginals_and_pairs_are_those_of_the_enumeration(parts):
    tree = LatentTree(**parts)
    states, probability = tree.enumerate_states()
    total = probability.sum(0)
    assert total.sum() == pytest.approx(1, abs=1e-12)
    assert np.abs(tree.marginals() - total @ states).max() < 1e-12
    pairs = np.einsum("s,sa,sb->ab", total, states, states)
    assert np.abs(tree.pair_probabilities(range(tree.nodes)) - pairs).max() < 1e-12


@given(trees(), st.data())
def test_posterior_is_that_of_the_enumeration(parts, data):
    tree = LatentTree(**parts)
    evidence = np.array(data.draw(st.lists(st.integers(-1, 1), min_size=tree.nodes, max_size=tree.nodes)))
    states, probability = tree.enumerate_states()
    fits = ((evidence == -1) | (states == evidence)).all(axis=1)
    weight = probability[:, fits]
    ones, classes, log_evidence = tree.posterior(evidence)
    if weight.sum() == 0:
        assert np.isnan(ones).all()
        assert log_evidence == -np.inf
    elif weight.sum() > 1e-200:
        assert np.abs(ones - weight.sum(0) @ states[fits] / weight.sum()).max() < 1e-9
        assert np.abs(classes - weight.sum(1) / weight.sum()).max() < 1e-9
        assert np.exp(log_evidence) == pytest.approx(weight.sum(), rel=1e-9)


def test_evidence_at_every_leaf_of_a_large_tree_does_not_underflow():
    tree = LatentTree.regular(10, 2, 0.8, classes=2, p_zero=[[0.9, 0.1], [0.9, 0.1]])
    evidence = np.full(tree.nodes, -1)
    evidence[tree.tokens] = 0
    ones, classes, log_evidence = tree.posterior(evidence)
    assert np.isfinite(ones).all()
    assert classes[0] > 0.95
    assert -tree.vocab < log_evidence < -100


def test_samples_have_the_exact_statistics():
    tree = LatentTree.regular(3, (2, 3, 2), [0.7, -0.4], classes=3, p_zero=[[0.9, 0.2, 0.5], [0.6, 0.3, 0.8]])
    n = 40_000
    sample = tree.sample(n, 5)
    pairs = tree.pair_probabilities(range(tree.nodes))
    measured = sample.values.T.astype(float) @ sample.values / n
    error = np.sqrt(np.maximum(pairs * (1 - pairs), 1e-9) / n)
    assert np.abs((measured - pairs) / error).max() < 4.5  # the largest of 324 correlated normals
    assert np.array_equal(sample.token_sets, sample.values[:, tree.tokens])
    again = tree.sample(n, 5)
    assert np.array_equal(again.values, sample.values)
    assert np.array_equal(again.classes, sample.classes)


def test_sequences_hold_the_tokens_that_occur():
    tree = LatentTree.regular(2, 2, 0.2, p_zero=0.8)
    sample = tree.sample(2000, 1)
    sequences = sample.sequences(40, 2)
    empty = ~sample.token_sets.any(axis=1)
    assert empty.any()
    assert (sequences[empty] == tree.vocab).all()
    seen = np.stack([(sequences == token).any(axis=1) for token in range(tree.vocab)], axis=1)
    assert not (seen & ~sample.token_sets).any()
    assert (seen == sample.token_sets).mean() > 0.99  # 40 draws from at most 4 tokens miss one with p < 4e-5


def test_regular_trees():
    tree = LatentTree.regular(3, (2, 1, 3), [0.5, -0.2])
    assert tree.parents.tolist() == [-1, -1, 0, 1, 2, 2, 2, 3, 3, 3]
    assert tree.rho[2:].tolist() == [0.5, 0.5] + [-0.2] * 6
    assert tree.tokens.tolist() == [4, 5, 6, 7, 8, 9]
    assert [tree.common_ancestor_layer(4, token) for token in tree.tokens] == [0, 1, 1, 3, 3, 3]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LatentTree([-1, 0], 1.5), "rho must lie between -1 and 1; got 1.5"),
        (lambda: LatentTree([1, 0], 0.5), "parents must form a tree; node 0 never reaches the root"),
        (lambda: LatentTree([-1, 1], 0.5), "parents must form a tree; node 1 never reaches the root"),
        (lambda: LatentTree([-1, 7], 0.5), "parents must lie between −1 .the root. and 1; got 7"),
        (lambda: LatentTree([-1, 0], [0.5, np.nan]), "rho must lie between"),
        (lambda: LatentTree(np.array([-1.5, 0.0]), 0.5), "whole numbers"),
        (lambda: LatentTree([], 0.5), "at least one"),
        (lambda: LatentTree([-1, 0, 0], [0.5, 0.5]), "one number or have the shape"),
        (lambda: LatentTree([-1], 0.5, p_zero=2.0), "p_zero must lie between 0 and 1"),
        (lambda: LatentTree([-1], 0.5, class_weights=[0.5, 0.4]), "sum to 1"),
        (lambda: LatentTree.regular(0), "depth must be a whole number of at least 1; got 0"),
        (lambda: LatentTree.regular(1.5), "depth must be a whole number of at least 1; got 1.5"),
        (lambda: LatentTree.regular(2, 1.5), "branching must be a whole number of at least 1; got 1.5"),
        (lambda: LatentTree.regular(2, [2, 0]), "branching must be a whole number of at least 1; got 0"),
        (lambda: LatentTree.regular(2, classes=0), "classes must be a whole number of at least 1; got 0"),
        (lambda: LatentTree.regular(2).pair_probabilities([6]), r"whole numbers from 0 to 5, at least one; got \[6\]"),
        (lambda: LatentTree.regular(2).cooccurrence([-1]), r"whole numbers from 0 to 5, at least one; got \[-1\]"),
        (lambda: LatentTree.regular(2).cooccurrence(np.array([0.5])), "nodes must list whole numbers"),
        (lambda: LatentTree.regular(2).cooccurrence([]), "nodes must list whole numbers"),
        (
            lambda: LatentTree.regular(2).common_ancestor_layer(0, 9),
            r"whole numbers from 0 to 5, at least one; got \[0, 9\]",
        ),
        (lambda: LatentTree.regular(3, (2, 2)), "one number per layer"),
        (lambda: LatentTree.regular(5).enumerate_states(), "too many states"),
        (lambda: LatentTree([-1], 0.5).posterior(np.array([3])), "evidence must be"),
        (lambda: LatentTree([-1], 0.5).sample(0, 1), "n must be a whole number of at least 1"),
        (lambda: SetUnionHierarchy(classes=0), "classes must be a whole number of at least 1; got 0"),
        (lambda: SetUnionHierarchy(latents=()), "latents must name the number of latents"),
        (lambda: SetUnionHierarchy(latents=(10, 2.5)), "latents must be a whole number of at least 1; got 2.5"),
        (lambda: SetUnionHierarchy(children=2.5), "children must be a whole number of at least 1; got 2.5"),
        (lambda: SetUnionHierarchy(vocab=1), "vocab must be a whole number of at least 2; got 1"),
        (lambda: SetUnionHierarchy(children=3, latents=(3, 20)), "20 different sets of 3 out of 3 do not exist"),
        (lambda: SetUnionHierarchy(children=3, length=8), "the size of the largest union"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(make, words):
    with pytest.raises(InputError, match=words) as refusal:
        make()
    assert "\n" not in str(refusal.value)


def test_a_deep_tree_takes_less_than_a_second():
    tree = LatentTree.regular(12, 2, 0.9)
    assert tree.nodes == 2**13 - 2
    started = time.process_time()
    pairs = tree.pair_probabilities(tree.tokens[:1])
    assert time.process_time() - started < 1
    assert pairs.shape == (1, tree.nodes)


@settings(max_examples=20)
@given(st.integers(2, 3), st.integers(0, 100))
def test_set_unions_are_unions(children, seed):
    task = SetUnionHierarchy(children=children, generator=seed)
    lowest, upper = task.members[0], task.members[1]
    for label in range(task.classes):
        high = set(task.members[2][label].tolist())
        low = set().union(*(upper[k].tolist() for k in high))
        tokens = set().union(*(lowest[k].tolist() for k in low))
        assert set(np.flatnonzero(task.active[1][label])) == high
        assert set(np.flatnonzero(task.active[0][label])) == low
        assert task.sequences[label].tolist() == [99] * (30 - len(tokens)) + sorted(tokens)
    for layer in task.members:
        assert len({tuple(row) for row in layer.tolist()}) == len(layer)
    batch = task.sample(50, seed)
    assert np.array_equal(batch.sequences, task.sequences[batch.classes])
