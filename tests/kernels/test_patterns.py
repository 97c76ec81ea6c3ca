"""Equality patterns against brute force."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrain.data.template_examples import majority
from foretrain.kernels.patterns import canonical, encoded, pair_patterns, pattern_of


def renamed(x: Sequence[object], y: Sequence[object]) -> tuple[int, ...]:
    """Tokens in the order they first occur: the equality pattern itself."""
    seen: dict[object, int] = {}
    return tuple(seen.setdefault(t, len(seen)) for t in [*x, *y])


def least(x: Sequence[object], y: Sequence[object]) -> tuple[int, ...]:
    """The same up to order of positions and exchange, by trying all."""
    return min(
        renamed([a[i] for i in order], [b[i] for i in order])
        for order in itertools.permutations(range(len(x)))
        for a, b in ((x, y), (y, x))
    )


def test_forms_are_equal_exactly_where_brute_force_says_so() -> None:
    words = list(itertools.product("ABC", repeat=3))
    pairs = [(x, y) for x in words for y in words]
    forms: dict[tuple, set] = {}
    kinds: dict[tuple, set] = {}
    for x, y in pairs:
        form, kind = pattern_of(x, y), least(x, y)
        forms.setdefault(form, set()).add(kind)
        kinds.setdefault(kind, set()).add(form)
    assert all(len(found) == 1 for found in forms.values())
    assert all(len(found) == 1 for found in kinds.values())


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60)
def test_form_of_a_component_does_not_depend_on_names(pairs: list[tuple[int, int]], random) -> None:
    edges = [(a, b, 1 + i % 2) for i, (a, b) in enumerate(dict.fromkeys(pairs))]
    names = list(range(100, 106))
    random.shuffle(names)
    moved = [(names[a], names[b], m) for a, b, m in edges]
    random.shuffle(moved)
    assert canonical(edges) == canonical(moved)


def test_symmetric_graphs_take_few_trials() -> None:
    ring = [(i, (i + 1) % 12, 1) for i in range(12)]
    assert canonical(ring) == canonical([((5 * a) % 12, (5 * b) % 12, m) for a, b, m in ring])
    star = [(0, i, 1) for i in range(1, 20)]
    assert canonical(star) == canonical([(7, a, m) for _, a, m in star if a != 7] + [(7, 0, 1)])
    complete = [(i, 10 + j, 1) for i in range(4) for j in range(4)]
    assert len(canonical(complete)) == 16


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=40)
def test_labels_of_pairs_tell_patterns_apart(length: int, alphabet: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    x, y = (draw.integers(0, alphabet, size=(n, length)) for n in (5, 7))
    labels, rows, columns = pair_patterns(x, y)
    kinds = {(i, j): renamed(x[i].tolist(), y[j].tolist()) for i in range(5) for j in range(7)}
    for a, b in itertools.combinations(kinds, 2):
        assert (labels[a] == labels[b]) == (kinds[a] == kinds[b])
    for label, (i, j) in enumerate(zip(rows, columns, strict=True)):
        assert labels[i, j] == label


def test_majority_has_some_hundred_patterns_and_few_up_to_order() -> None:
    """500 500 pairs: about 637 patterns up to exchange (those that a sample happens to have), 42 of them different."""
    strings = majority(5).with_cls().sample(1000, 2).tokens
    labels, rows, columns = pair_patterns(strings, strings)
    exchanged = np.unique(np.minimum(labels, labels.T))
    assert 620 <= len(exchanged) <= 650
    forms = {pattern_of(strings[i].tolist(), strings[j].tolist()) for i, j in zip(rows, columns, strict=True)}
    assert len(forms) == 42


def test_tokens_of_any_kind_can_be_mixed() -> None:
    x, y = encoded([("a", 1, None)], [(1, "a", (2, 3))])
    assert x.tolist() == [[0, 1, 2]]
    assert y.tolist() == [[1, 0, 3]]
