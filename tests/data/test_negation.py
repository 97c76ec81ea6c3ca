"""The negation task against its definition, read text by text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.data.negation import Negation

NOT, VERY = 0, 1


def meaning(task: Negation, text: list[int]) -> tuple[int, int, int]:
    """(modifier, adjective number, label) of a text; exactly one modifier, and its adjective right behind it."""
    (place,) = [k for k, token in enumerate(text) if token in (NOT, VERY)]
    adjective = text[place + 1] - 2
    assert 0 <= adjective < 2 * task.adjectives
    fillers = text[:place] + text[place + 2 :]
    assert all(2 + 2 * task.adjectives <= token < task.vocab for token in fillers)
    positive = adjective < task.adjectives
    return text[place], adjective, int(positive != (text[place] == NOT))


@given(st.integers(0, 1000), st.integers(2, 9), st.integers(0, 3))
def test_texts_mean_their_label(seed: int, length: int, held_out: int) -> None:
    task = Negation(adjectives=4, fillers=3, length=length, held_out=held_out)
    texts, labels = task.sample(50, np.random.default_rng(seed))
    kept_from_not = set(task.held_out_adjectives.tolist())
    for i, label in enumerate(labels):
        modifier, adjective, printed = meaning(task, texts[i].tolist())
        assert printed == label
        assert modifier == VERY or adjective not in kept_from_not
    if held_out:
        test, test_labels = task.sample(30, np.random.default_rng(seed), only_held_out=True)
        for i, label in enumerate(test_labels):
            modifier, adjective, printed = meaning(task, test[i].tolist())
            assert (modifier, printed) == (NOT, label)
            assert adjective in kept_from_not


def test_no_token_leans_to_a_label() -> None:
    """ω of every token is 0 up to chance: within 4.5 standard errors, 42 tokens."""
    task = Negation()
    texts, labels = task.sample(20_000, np.random.default_rng(0))
    count = np.bincount(texts.flat, minlength=task.vocab)
    omega = (2 * labels - 1) @ texts.counts
    assert np.all(np.abs(omega) <= 4.5 * np.sqrt(count * 2))
    assert np.all(count > 0)
    assert np.bincount(texts.flat)[:2].sum() == 20_000


def test_refusals() -> None:
    with pytest.raises(InputError, match="held_out must be at least 0 and below 10"):
        Negation(held_out=10)
    with pytest.raises(InputError, match="length must be at least 2"):
        Negation(length=1)
    with pytest.raises(InputError, match="No adjectives are held out"):
        Negation().sample(3, np.random.default_rng(0), only_held_out=True)
