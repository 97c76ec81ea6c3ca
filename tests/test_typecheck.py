"""The type checker of the tests is at work: a wrong annotation anywhere in foretrain fails the test that meets it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float

import typecheck
from foretrain.core.streams import seed_list
from foretrain.data.tokens import TokenTexts

check = typecheck.enforced(typechecker=None)


@check
def product(matrix: Float[np.ndarray, "row column"], vector: Float[np.ndarray, "column"]) -> Float[np.ndarray, "row"]:
    return matrix @ vector if len(vector) > 1 else vector


@check
@dataclass(frozen=True)
class Pair:
    first: Float[np.ndarray, "place"]
    second: Float[np.ndarray, "place"]


@check
def doubled(value: float) -> float:
    return 2 * value


def test_names_of_axes_stand_for_one_length_within_a_call() -> None:
    assert product(np.ones((2, 3)), np.ones(3)).shape == (2,)
    assert product(np.ones((4, 5)), np.ones(5)).shape == (4,)
    with pytest.raises(BeartypeCallHintViolation):
        product(np.ones((2, 3)), np.ones(2))
    with pytest.raises(BeartypeCallHintViolation):  # what comes back counts too
        product(np.ones((2, 1)), np.ones(1))
    with pytest.raises(BeartypeCallHintViolation):
        Pair(np.ones(2), np.ones(3))


def test_an_int_is_a_float_and_a_word_is_not() -> None:
    assert doubled(2) == 4
    with pytest.raises(BeartypeCallHintViolation):
        doubled("2")


def test_foretrain_itself_is_checked() -> None:
    with pytest.raises(BeartypeCallHintViolation):
        seed_list("three")
    with pytest.raises(BeartypeCallHintViolation):
        TokenTexts(np.ones(3), np.arange(2), 4)  # token numbers are whole


def test_users_are_not(as_users_run_it: None) -> None:
    assert doubled("2") == "22"
    assert len(TokenTexts(np.ones(3), np.arange(2), 4)) == 1
