"""The statistics that trained networks are compared with, on made-up losses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Control
from foretrain.ledger.judge import judge
from foretrain.papers.abstract_symbols.claims.sides import as_good_as, difference, no_difference

T_ONE_SIDED, T_TWO_SIDED = 6.9646, 4.3027  # Student's t of 2 degrees of freedom: .99 and .975


def _losses(table):
    """An experiment over (n, seed) whose losses are looked up: table[value][seed − 1], more by 1 and 3 at two n."""

    def make(values, seeds, **_):
        (value,) = values
        rows = [[table[value][seed - 1] + more for seed in seeds] for more in (1.0, 3.0)]
        return trajectory({"test_loss": (("n", "seed"), rows)}, {"n": [8, 16], "seed": list(seeds)})

    return make


def test_a_gain_counts_every_seed_once():
    make = _losses({"good": [0.0, 0.0, 0.0, 5.0, 5.0, 5.0], "bad": [1.0, 2.0, 3.0]})
    measured = difference(make, "values")("good", ("bad",), seeds=3)
    assert measured.gain.item() == pytest.approx(2.0)
    assert measured.gain_low.item() == pytest.approx(2 - T_ONE_SIDED / np.sqrt(3), rel=1e-4)
    assert measured.test_loss.values == pytest.approx(np.array([[2.0, 2, 2], [3.0, 4, 5]]))
    still = difference(make, "values")("good", ("bad",), seeds=3, still=True)
    assert still.gain.item() == pytest.approx(5.0)  # against its own later seeds


def test_one_seed_has_no_interval():
    make = _losses({"good": [0.0], "bad": [1.0]})
    with pytest.raises(InputError, match="seeds must be a whole number of at least 2"):
        difference(make, "values")("good", ("bad",), seeds=1)
    with pytest.raises(InputError, match="seeds must be a whole number of at least 2"):
        no_difference(make, "values")(("good", "bad"), seeds=1)


def test_a_run_that_diverged_counts_as_worse_than_any():
    make = _losses({"good": [0.0, 0.0], "bad": [np.nan, np.nan]})
    assert difference(make, "values")("good", ("bad",), seeds=2).gain.item() == pytest.approx(10 - 2)


def test_what_could_go_unnoticed_is_the_far_end_of_the_interval():
    make = _losses({1: [0.0, 0.0, 0.0], 2: [0.1, 0.2, 0.3]})
    measured = no_difference(make, "values")((1, 2), seeds=3)
    assert measured.unnoticed.item() == pytest.approx(0.2 + T_TWO_SIDED * 0.1 / np.sqrt(3), rel=1e-4)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(-1, 1), min_size=3, max_size=6), st.floats(0.05, 2))
def test_order_and_scale_of_sides(gains, scale):
    """Exchanged sides leave both numbers as they are; losses times a number leave the chance."""
    gains = np.array(gains) + 0.01 * np.arange(len(gains))  # never all the same
    table = {1: np.zeros(len(gains)), 2: gains, 3: scale * gains}
    one, other, scaled = (
        no_difference(_losses(table), "values")(values, seeds=len(gains)) for values in ((1, 2), (2, 1), (1, 3))
    )
    assert other.chance.item() == pytest.approx(one.chance.item(), rel=1e-9)
    assert other.unnoticed.item() == pytest.approx(one.unnoticed.item(), rel=1e-9)
    assert scaled.chance.item() == pytest.approx(one.chance.item(), rel=1e-6)
    assert scaled.unnoticed.item() == pytest.approx(scale * one.unnoticed.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("second", "status"),
    [
        ([0.01, -0.02, 0.015, -0.01], "holds"),
        ([0.7, -0.8, 0.9, -0.6], "fails"),  # no difference is seen, but a large one could go unnoticed
        ([0.05, 0.051, 0.052, 0.049], "fails"),  # small, but there
    ],
)
def test_no_difference_holds_only_with_seeds_enough(second, status):
    claim = as_good_as(
        _losses({"one": [0.0] * 4, "other": second, "far": [5.0, 5.1, 5.2, 5.3]}),
        "values",
        id="abstract_symbols/made_up",
        source="here",
        says="The two are alike.",
        settings={"fast": {"values": ("one", "other"), "seeds": 4}},
        control=Control("far apart", {"values": ("one", "far")}),
    )
    verdict = judge(claim, "fast")
    assert (verdict.status, verdict.control_status) == (status, "fails")
