"""What variables and axes are called in sentences: one table, and nothing beside it."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.comparators import bounded, close, positive, ranked, slope
from foretrain.ledger.quantities import BASE, Quantity
from foretrain.ledger.tolerances import EXACT, Tolerance

WORDS = BASE.extended(
    Quantity("fall", "the fall of entropy", unit="nats"),
    Quantity("rate", "the learning rate", "η", role="axis"),
    Quantity("network", role="axis"),
)


def _falls(**coords: list) -> xr.Dataset:
    values = np.arange(1.0, 1 + np.prod([len(c) for c in coords.values()]))
    return trajectory({"fall": (tuple(coords), values.reshape([len(c) for c in coords.values()]))}, coords)


def test_a_quantity_that_is_not_in_the_table_is_called_by_its_name() -> None:
    assert (BASE["growth_of_h"].words, BASE["growth_of_h"].unit) == ("growth of h", "")
    assert "growth_of_h" not in BASE


def test_a_table_extends_another_and_may_replace_its_entries_but_not_repeat_its_own() -> None:
    renamed = WORDS.extended(Quantity("fall", "how far entropy falls"))
    assert renamed["fall"].words == "how far entropy falls"
    assert renamed["rate"] == WORDS["rate"]
    with pytest.raises(ValueError, match="fall stands twice"):
        BASE.extended(Quantity("fall"), Quantity("fall"))


def test_a_sentence_has_the_article_the_unit_and_the_symbol_of_the_place() -> None:
    observed = _falls(rate=[0.1, 0.2])
    low = bounded("fall", low=Tolerance(1.5, "made up"))
    assert low(trajectory({}), observed, WORDS).reason == (
        "The fall of entropy is 1 nats at η = 0.1; at least 1.5 is needed"
    )
    smallest = positive("fall")(trajectory({}), observed, WORDS).reason
    assert smallest == "The smallest fall of entropy is 1 nats at η = 0.1; it must be above 0"
    rises = ranked("fall", "rate", rising=True)(trajectory({}), observed, WORDS).reason
    assert rises == "The fall of entropy rises with the learning rate in 1 of 1 steps"
    assert (
        "goes as the power 1 of the learning rate" in slope("fall", "rate", 1.0)(trajectory({}), observed, WORDS).reason
    )


@pytest.mark.parametrize(
    ("coords", "place"),
    [
        ({"problem": [3, 4], "time": [1.0, 2.0]}, " at t = 2"),  # a number only counts the problems
        ({"problem": ["a", "b"]}, " at problem b"),
        ({"network": ["MLP", "CNN"]}, " at network CNN"),
        ({"seed": [7, 8]}, " at seed = 8"),
    ],
)
def test_a_sentence_tells_the_place_unless_it_only_counts(coords: dict[str, list], place: str) -> None:
    wrong = _falls(**coords)
    right = wrong.copy(deep=True)
    right["fall"][dict.fromkeys(coords, -1)] += 1
    reason = close("fall", EXACT, relative=False)(wrong, right, WORDS).reason
    assert f"in the measurement{place}," in reason


def test_a_power_may_be_a_predicted_quantity() -> None:
    observed = _falls(rate=[1.0, 2.0])
    assert slope("fall", "rate", "power")(trajectory({"power": 1.0}), observed).status == "holds"
    assert slope("fall", "rate", "power")(trajectory({"power": 2.0}), observed).status == "fails"
