"""Parameters of experiments: what `--set` reads, what it refuses, and what a page can be built from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.cli.values import read_settings
from foretrain.core.errors import InputError
from foretrain.ledger.parameters import Count, NotNegative, Positive, Seeds, about, is_described, parameters_of


def study(
    eta_z: Annotated[Sequence[Positive], about("Rates.", unit="1/step")] = (0.5, 1.0),
    queries: Annotated[Sequence[Count], about("Numbers of queries.")] = (1, 3),
    names: Annotated[Sequence[str], about("Names.")] = ("a", "b"),
    kinds: Annotated[Sequence[Literal["plain", "both"]], about("Kinds.")] = ("plain",),
    kind: Annotated[Literal["plain", "both"], about("A kind.")] = "plain",
    steps: Annotated[Count, about("How many.", unit="steps")] = 100,
    rate: Annotated[NotNegative, about("A rate.")] = 0.1,
    level: Annotated[float, about("Any number.")] = 0.0,
    pair: Annotated[tuple[float, float], about("Two numbers.")] = (1.0, 2.0),
    seeds: Seeds = 10,
    centred: Annotated[bool, about("Whether it is centred.")] = True,
    label: Annotated[str, about("What to call it.")] = "plain",
    extra: Annotated[Count | None, about("More, or none.")] = None,
    bare: int = 3,
) -> None: ...


PARAMETERS = parameters_of(study)


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("eta_z=.5,1", (0.5, 1.0)),
        ("eta_z=[0.5, 1]", (0.5, 1.0)),
        ("eta_z=(.5, 1,)", (0.5, 1.0)),
        ("eta_z=2", (2.0,)),
        ("eta_z=", ()),
        ("queries=1,1e1", (1, 10)),
        ("names=x,y z", ("x", "y z")),
        ('names=["x"]', ("x",)),
        ("kinds=both,plain", ("both", "plain")),
        ("kind=both", "both"),
        ("steps=1e3", 1000),
        ("rate=3", 3.0),
        ("level=-1e-3", -0.001),
        ("pair=1,2", (1.0, 2.0)),
        ("seeds=3", 3),
        ("seeds=2,5", (2, 5)),
        ("centred=false", False),
        ("centred=True", True),
        ("label=1.5", "1.5"),
        ("label=a=b", "a=b"),
        ("label='quoted, text'", "quoted, text"),
        ("extra=none", None),
        ("extra=1e3", 1000),
    ],
)
def test_reads(assignment: str, value: Any) -> None:
    read = read_settings([assignment], PARAMETERS)[assignment.split("=")[0]]
    assert read == value
    assert type(read) is type(value)
    if isinstance(value, tuple):
        assert [type(part) for part in read] == [type(part) for part in value]


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("steps", "--set takes name=value; got 'steps'"),
        ("stesp=3", "There is no setting 'stesp'; the nearest names are steps"),
        ("steps=2.5", "steps takes a whole number of at least 1; got '2.5'."),
        ("steps=0", "steps takes a whole number of at least 1; got '0'."),
        ("steps=10**9", "steps takes a whole number of at least 1; got '10**9'."),
        (f"steps={'9' * 400}", "steps takes a whole number of at least 1; got '9999"),
        ("steps=100000000000", "got '100000000000'; a whole number can be 1,000,000,000 at most."),
        ("steps=1,2", "steps takes a whole number of at least 1; got '1,2'."),
        ("steps=1e400", "steps takes a whole number"),
        ("steps=1e4001", "steps takes a whole number"),
        ("seeds=1if", "seeds takes a whole number of at least 1 or whole numbers of at least 0 with commas between"),
        ("names=x,", "names has an empty value in 'x,'; write names=x."),
        ("eta_z=.5,,1", "eta_z has an empty value in '.5,,1'; write eta_z=.5,1."),
        ("rate=nan", "rate takes a number of at least 0"),
        ("rate=Infinity", "rate takes a number of at least 0"),
        ("rate=", "rate takes a number of at least 0; got ''."),
        ("rate=-1", "rate takes a number of at least 0; got '-1'."),
        ("level=__import__('os')", "level takes a number; got"),
        ("eta_z=.5,fast", "eta_z takes numbers above 0 with commas between them; got '.5,fast'."),
        ("kind=other", "kind takes one of plain, both; got 'other'."),
        ("kinds=plain,other", "kinds takes any of plain, both with commas between them; got"),
        ("centred=maybe", "centred takes true or false; got 'maybe'."),
        ("pair=1", "pair takes 2 values with commas between them; got '1'."),
    ],
)
def test_refuses(assignment: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        read_settings([assignment], PARAMETERS)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_refuses_a_name_twice_and_an_experiment_without_parameters() -> None:
    with pytest.raises(InputError, match=r"^--set gives steps twice, as '1' and as '2'; choose one\.$"):
        read_settings(["steps=1", "steps=2"], PARAMETERS)
    with pytest.raises(InputError, match=r"names twice, .*; give all values at once: --set names=a,b\.$"):
        read_settings(["names=a", "names=b"], PARAMETERS)
    with pytest.raises(InputError, match="nothing to set"):
        read_settings(["a=1"], {})


def test_the_description_is_there_for_who_builds_a_page() -> None:
    schema = PARAMETERS["steps"].schema()
    assert schema == {
        "type": "integer", "minimum": 1, "maximum": 10**9, "description": "How many.", "unit": "steps"
    }  # fmt: skip
    assert PARAMETERS["steps"].unit == "steps"
    assert PARAMETERS["eta_z"].says == "Rates."
    assert PARAMETERS["kind"].schema()["enum"] == ["plain", "both"]
    assert is_described(PARAMETERS["steps"])
    assert not is_described(PARAMETERS["bare"])


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=5))
def test_numbers_survive_writing_and_reading(numbers: list[float]) -> None:
    assert PARAMETERS["eta_z"].read(",".join(map(repr, numbers))) == tuple(numbers)


@given(st.text(max_size=30), st.sampled_from(sorted(PARAMETERS)))
def test_any_text_is_read_or_refused(text: str, name: str) -> None:
    try:
        value = PARAMETERS[name].read(text)
    except InputError:
        return
    assert value is None or isinstance(value, tuple | int | float | str | bool)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eta_z", (1, 0.5)),
        ("eta_z", [2.0]),
        ("eta_z", np.array([0.5, 1.0])),
        ("queries", range(1, 4)),
        ("seeds", 3),
        ("seeds", (2, 5)),
        ("pair", (1, 2)),
        ("rate", 3),
        ("label", Path("a.toml")),
        ("extra", None),
        ("names", ("x",)),
    ],
)
def test_a_valid_value_from_python_is_taken_as_it_is(name: str, value: Any) -> None:
    assert PARAMETERS[name].take(value) is value


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("eta_z", 1.0, [1.0]),
        ("queries", np.int64(8), [8]),
        ("queries", ["8", 2], (8, 2)),
        ("queries", (8.0,), (8,)),
        ("names", "xy", ["xy"]),
        ("names", (0.1,), ("0.1",)),
        ("kinds", "plain", ["plain"]),
        ("steps", True, 1),
        ("steps", 1e3, 1000),
    ],
)
def test_a_value_from_python_is_taken_for_what_it_means(name: str, value: Any, taken: Any) -> None:
    read = PARAMETERS[name].take(value)
    assert read == taken
    assert repr(read) == repr(taken)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("kinds", "odd", "kinds takes any of plain, both with commas between them; got 'odd'."),
        ("queries", (0,), "queries takes whole numbers of at least 1 with commas between them; got (0,)."),
        ("eta_z", np.zeros((2, 1)), "eta_z takes numbers above 0 with commas between them; got array([[0.], [0.]])."),
        ("steps", (1, 2), "steps takes a whole number of at least 1; got (1, 2)."),
        ("rate", float("nan"), "rate takes a number of at least 0; got nan."),
    ],
)
def test_a_wrong_value_from_python_is_one_sentence(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        PARAMETERS[name].take(value)
    assert str(refused.value) == sentence
