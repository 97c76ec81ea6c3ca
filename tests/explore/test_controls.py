"""Controls: what an address says is read back, and what cannot be used is refused in a sentence."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.explore.registry import VIEWS
from foretrain.explore.sliders import Slider, defaults, from_parameter, read_state, write_state
from foretrain.explore.view import Places
from foretrain.ledger.parameters import parameters_of
from foretrain.papers.scan_snap.experiments.curves import fig3

RATE = Slider("rate", "rate", "number", 0.1, low=0.01, high=2.0, log=True)
CONTROLS = (
    RATE,
    Slider("steps", "steps", "whole", 10, low=1, high=100),
    Slider("kind", "kind", "choice", "a", options=("a", "b")),
    Slider("on", "on", "flag", False),
    Slider("bars", "bars", "bars", (1.0, 2.0), low=0, high=10, names=("one", "two")),
    Slider("words", "words", "text", ""),
)


@given(
    st.floats(0.01, 2.0),
    st.integers(1, 100),
    st.sampled_from("ab"),
    st.booleans(),
    st.tuples(st.integers(0, 10), st.integers(0, 10)),
    st.text(max_size=50),
)
def test_a_state_survives_the_address(
    rate: float, steps: int, kind: str, on: bool, bars: tuple[int, int], words: str
) -> None:
    rate = float(f"{rate:.3g}")
    state = {"rate": rate, "steps": steps, "kind": kind, "on": on, "bars": bars, "words": words}
    assert read_state(CONTROLS, write_state(CONTROLS, state)) == (state, [])


def test_the_address_of_the_first_state_is_empty() -> None:
    assert write_state(CONTROLS, defaults(CONTROLS)) == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [("rate", "3"), ("rate", "nan"), ("rate", "x"), ("steps", "1.5"), ("kind", "c"), ("on", "1"), ("bars", "1"),
     ("bars", "1,99"), ("other", "1")],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_and_the_rest_is_followed(name: str, text: str) -> None:
    state, refused = read_state(CONTROLS, {name: text, "words": "kept"})
    assert state == {**defaults(CONTROLS), "words": "kept"}
    assert len(refused) == 1
    assert name in refused[0]


def test_a_control_takes_its_words_and_bounds_from_the_experiment() -> None:
    vocab = from_parameter(parameters_of(fig3)["vocab"], label="M", high=1000)
    assert (vocab.kind, vocab.low, vocab.high, vocab.unit) == ("whole", 4, 1000, "tokens")
    assert vocab.says == "Size M of the vocabulary."
    with pytest.raises(InputError, match="vocab allows 4"):
        from_parameter(parameters_of(fig3)["vocab"], label="M", low=1, high=1000)


@pytest.mark.parametrize("path", VIEWS)
def test_every_control_starts_within_its_own_range(path: str) -> None:
    for control in VIEWS[path].controls(Places()):
        assert control.accept(control.default) == control.default
        assert not control.log or 0 < control.low < control.high < math.inf
