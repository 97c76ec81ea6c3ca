"""--set name=value: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.cli.values import read_settings, read_value
from foretrain.core.errors import InputError

DEFAULTS: dict[str, Any] = {
    "eta_z": (0.5, 1.0),
    "queries": (1, 3),
    "mixed": (1, 2.5),
    "names": ("a", "b"),
    "steps": 100,
    "rate": 0.1,
    "seeds": 10,
    "centred": True,
    "label": "plain",
    "extra": None,
    "listed": [1, 2],
    "span": range(3),
}


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("eta_z=.5,1", (0.5, 1.0)),
        ("eta_z=[0.5, 1]", (0.5, 1.0)),
        ("eta_z=(.5, 1,)", (0.5, 1.0)),
        ("eta_z=2", (2.0,)),
        ("queries=1,10", (1, 10)),
        ("mixed=1,2", (1.0, 2.0)),
        ("names=x,y z", ("x", "y z")),
        ('names=["x"]', ("x",)),
        ("steps=1e3", 1000),
        ("steps=-1", -1),
        ("rate=3", 3.0),
        ("seeds=3", 3),
        ("seeds=2,5", (2, 5)),
        ("centred=false", False),
        ("centred=True", True),
        ("label=1.5", "1.5"),
        ("label='quoted, text'", "quoted, text"),
        ("label=a=b", "a=b"),
        ("extra=none", None),
        ("extra=2.5", 2.5),
        ("extra=1e3", 1000),
        ("extra=1,2", (1, 2)),
        ("listed=7", (7,)),
        ("span=4,5", (4, 5)),
    ],
)
def test_reads(assignment: str, value: Any) -> None:
    read = read_settings([assignment], DEFAULTS)[assignment.split("=")[0]]
    assert read == value
    assert type(read) is type(value)
    if isinstance(value, tuple):
        assert [type(part) for part in read] == [type(part) for part in value]


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("steps", "--set takes name=value; got 'steps'"),
        ("stesp=3", "There is no setting 'stesp'; the nearest names are steps"),
        ("steps=2.5", "steps takes a whole number; got 2.5."),
        ("steps=10**9", "steps takes a whole number, such as 1000 or 1e3; got '10**9'."),
        ("extra=10**9", "extra takes a value, such as 1000 or 1e3, not a calculation; got '10**9'."),
        ("names=x,", "names has a comma too many in 'x,'; write names=x."),
        ("eta_z=.5,,1", "eta_z has a comma too many in '.5,,1'; write eta_z=.5,1."),
        ("seeds=,", "seeds has a comma too many in ','; give values between commas."),
        ("steps=1,2", "steps takes a whole number; got (1, 2)."),
        ("steps=true", "steps takes a whole number; got True."),
        ("steps=1e400", "steps takes a whole number; got inf."),
        ("rate=nan", "rate takes a finite number"),
        ("rate=Infinity", "rate takes a finite number"),
        ("rate=", "rate takes a finite number, such as 0.5 or 1e-3; got ''."),
        ("rate=__import__('os')", "rate takes a finite number"),
        ("eta_z=.5,fast", "eta_z takes a finite number, such as 0.5 or 1e-3; got 'fast'."),
        ("queries=1,2.5", "queries takes a whole number; got 2.5."),
        ("names=[[1]]", "names takes text; got [1]."),
        ("centred=1", "centred takes true or false; got 1."),
        ("seeds=1,x", "seeds takes a whole number, such as 1000 or 1e3; got 'x'."),
    ],
)
def test_refuses(assignment: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        read_settings([assignment], DEFAULTS)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_refuses_twice_and_what_cannot_be_said() -> None:
    with pytest.raises(InputError, match=r"^--set gives steps twice, as '1' and as '2'; choose one\.$"):
        read_settings(["steps=1", "steps=2"], DEFAULTS)
    with pytest.raises(InputError, match=r"names twice, .*; give all values at once: --set names=a,b\.$"):
        read_settings(["names=a", "names=b"], DEFAULTS)
    with pytest.raises(InputError, match="its default is a dict"):
        read_settings(["table=1"], {"table": {}})
    with pytest.raises(InputError, match="nothing to set"):
        read_settings(["a=1"], {})


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_numbers_survive_writing_and_reading(numbers: list[float]) -> None:
    assert read_value("eta_z", ",".join(map(repr, numbers)), (1.0,)) == tuple(numbers)


@given(st.text(max_size=30), st.sampled_from(sorted(DEFAULTS)))
def test_any_text_is_read_or_refused(text: str, name: str) -> None:
    try:
        value = read_value(name, text, DEFAULTS[name])
    except InputError:
        return
    assert DEFAULTS[name] is None or isinstance(value, tuple | int | float | str | bool)
