"""Values of a grid as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.api.grid_values import read_grid, values_of
from foretrain.core.errors import InputError
from foretrain.ledger.parameters import Count, Positive, Seeds, about, parameters_of


def toy(
    rate: Annotated[Positive, about("A rate.")] = 1.0,
    rates: Annotated[Sequence[Positive], about("Rates.")] = (1.0,),
    steps: Annotated[Count, about("Steps.")] = 3,
    name: Annotated[str, about("A name.")] = "a",
    seeds: Seeds = 2,
) -> None: ...


PARAMETERS = parameters_of(toy)


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("rate", ".5,1,2", [0.5, 1.0, 2.0]),
        ("rates", ".5,1,2", [0.5, 1.0, 2.0]),
        ("rate", "0.1:1:4", [0.1, 0.4, 0.7, 1.0]),
        ("rates", "1:100:log3", [1.0, 10.0, 100.0]),
        ("rate", "10:1:log2", [10.0, 1.0]),
        ("rate", "2:3:1", [2.0]),
        ("steps", "1:4:4", [1, 2, 3, 4]),
        ("steps", "1:1000:log4", [1, 10, 100, 1000]),
        ("steps", "1:3:9", [1, 2, 3]),  # values that round to the same whole number count once
        ("name", "a,b c,é", ["a", "b c", "é"]),
        ("seeds", "3,5", [3, 5]),
    ],
)
def test_what_is_written_is_what_is_meant(name: str, text: str, values: list[object]) -> None:
    read = read_grid([f"{name}={text}"], PARAMETERS)[name]
    assert read == pytest.approx(values) if isinstance(values[0], float) else read == values


def test_the_ends_of_a_range_are_as_written() -> None:
    spread = values_of(PARAMETERS["rate"], "0.1:0.7:log7")
    assert (spread[0], spread[-1]) == (0.1, 0.7)
    np.testing.assert_allclose(np.diff(np.log(spread)), np.log(7) / 6, rtol=1e-12)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ("rate", "--grid takes name=values"),
        ("speed=1", "There is no setting 'speed'"),
        ("rate=1,x", "rate takes a number above 0"),
        ("rate=-1:1:3", "rate takes a number above 0"),
        ("rate=0:1:log3", "needs ends above 0"),
        ("rate=1:2:0", "asks for 0 values"),
        ("rate=1:2:9999999", "asks for 9999999 values"),
        ("rate=a:b:3", "is not first:last:count"),
        ("rate=1:inf:3", "needs finite ends"),
        ("steps=1.5,2", "steps takes a whole number"),
    ],
)
def test_bad_grids_are_one_sentence(given_: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        read_grid([given_], PARAMETERS)
    assert "\n" not in str(refused.value)


def test_a_name_may_be_given_once() -> None:
    with pytest.raises(InputError, match="gives rate twice"):
        read_grid(["rate=1", "rate=2"], PARAMETERS)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8))
def test_numbers_come_back_to_the_bit(values: list[float]) -> None:
    assert values_of(PARAMETERS["rate"], values) == values
    assert values_of(PARAMETERS["rates"], ",".join(map(repr, values))) == values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10:1:log3x", "got '10:1:log3x'. A range is first:last:count"),
        ("1:10:1000000000", "asks for 1000000000 values"),
        ("-1", "got '-1'"),
        ("-1e308:1e308:3", "too wide a range"),
    ],
)
def test_a_refusal_quotes_what_was_written(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        read_grid([f"rates={text}"], PARAMETERS)
    assert words in str(refused.value)
