"""Paired differences: the interval covers what it should, and decides as it says."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy.stats import ttest_1samp

from foretrain.ledger.comparators import gains
from foretrain.ledger.quantities import BASE, Quantity


def judged(*values: list[float]) -> str:
    data = xr.Dataset({"gain": (("size", "seed"), np.array(values))})
    return gains("gain")(xr.Dataset(), data).status


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ([1.0, 1.1, 0.9], "holds"),
        ([1.0, -1.1, 0.9], "inconclusive"),
        ([-1.0, -1.1, -0.9], "fails"),
        ([0.0] * 3, "fails"),
    ],
)
def test_the_interval_decides(values: list[float], status: str) -> None:
    assert judged(values) == status


def test_the_least_certain_place_decides() -> None:
    assert judged([1.0, 1.1, 0.9], [1.0, -1.1, 0.9]) == "inconclusive"


def test_a_sure_failure_is_not_hidden_by_an_unsure_place() -> None:
    sure, unsure = [-0.1, -0.11, -0.09], [10.0, -50.0, 10.0]  # the unsure place has the lower end of the two
    for places in ((sure, unsure), (unsure, sure), (sure, [1.0, 1.1, 0.9])):
        assert judged(*places) == "fails"
    data = xr.Dataset({"gain": (("size", "seed"), [unsure, sure])}, {"size": [1, 2]})
    assert "is −0.1 at size = 2" in gains("gain")(xr.Dataset(), data).reason


@pytest.mark.parametrize("value", [1.0, 0.0, -1.0])
def test_one_seed_is_inconclusive(value: float) -> None:
    assert judged([value]) == "inconclusive"


def test_it_is_the_t_test() -> None:
    random = np.random.default_rng(0)
    for _ in range(40):
        values = random.normal(0.5, 1, 6)
        test = ttest_1samp(values, 0)
        surely = test.pvalue < 0.05 and values.mean() > 0
        assert (judged(list(values)) == "holds") == surely


def test_a_missing_value_never_holds() -> None:
    assert judged([1.0, float("nan"), 0.9]) != "holds"


def test_the_words_name_the_interval() -> None:
    data = xr.Dataset({"gain": ("seed", [0.1, 0.2, 0.3])})
    assert (
        "0.2 nats (95 % interval −0.04841 to 0.4484), above 0 in 3 of 3 pairs"
        in gains("gain")(xr.Dataset(), data, BASE.extended(Quantity("gain", unit="nats"))).reason
    )
