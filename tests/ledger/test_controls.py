"""Controls that measure a run against itself are no controls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control
from foretrain.ledger.comparators import bounded, every, positive
from foretrain.ledger.judge import judge
from foretrain.ledger.tolerances import Tolerance

LOSSES = {"small": np.array([1.25, 0.75]), "large": np.array([0.5, 0.375]), "worse": np.array([1.5, 0.875])}


def gain(start: str, end: str) -> xr.Dataset:
    return trajectory({"gain": ("run", LOSSES[start] - LOSSES[end])})


def counted(start: str, end: str) -> xr.Dataset:
    return trajectory({"gain": ("run", np.array([float(len(start) == len(end)) * 3, 2.0]) * (end != "worse"))})


def claim(observe: object, **changes: str) -> Claim:
    return Claim(
        id="made/up",
        source="here",
        says="The large one has the lower loss.",
        observe=observe,  # type: ignore[arg-type]
        compare=positive("gain"),
        settings={"fast": {"start": "small", "end": "large"}},
        control=Control("another model", changes),
    )


def test_a_run_against_itself_flips_nothing() -> None:
    verdict = judge(claim(gain, end="small"))
    assert (verdict.status, verdict.control_status, verdict.as_expected) == ("holds", "inconclusive", False)
    assert "exactly 0 at every point" in verdict.control_reason
    assert "against itself" in verdict.control_reason


@pytest.mark.parametrize("observe", [gain, counted])
def test_another_run_flips_it_and_so_does_a_count_of_0(observe: object) -> None:
    verdict = judge(claim(observe, end="worse"))
    assert (verdict.status, verdict.control_status, verdict.as_expected) == ("holds", "fails", True)


def test_one_of_two_quantities_may_be_0_if_it_has_bounds_but_no_difference_may() -> None:
    curves = {"falls": np.array([2.5, 1.25]), "returns": np.array([2.5, 0.5, 1.75])}

    def rise(end: str) -> xr.Dataset:
        curve = curves[end]
        return trajectory({"rise": ("run", [curve[-1] - curve.min()]), "fall": ("run", [curve[0] - curve.min()])})

    parts = {
        "bounds": bounded("rise", low=Tolerance(0.5, "a rise")),
        "difference": positive("rise"),
    }
    for name, compare in parts.items():
        both = every(compare, bounded("fall", low=Tolerance(0.5, "a fall")))
        made = replace(
            claim(rise, end="falls"), observe=rise, compare=both, settings={"fast": {"end": "returns"}}
        )  # fmt: skip
        verdict = judge(made)
        assert verdict.status == "holds"
        assert verdict.control_status == {"bounds": "fails", "difference": "inconclusive"}[name]
