from __future__ import annotations

import functools

import pytest
import xarray as xr

from foretrain.core.errors import InputError
from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Assumption, Claim, Control, Erratum, other_half
from foretrain.ledger.comparators import bounded, close
from foretrain.ledger.judge import judge
from foretrain.ledger.tolerances import EXACT, Tolerance


def predict(size: float) -> xr.Dataset:
    return xr.Dataset({"v": size**2})


def observe(size: float, broken: bool = False) -> xr.Dataset:
    return xr.Dataset({"v": size * size + broken})


def made(**changes: object) -> Claim:
    parts = {
        "id": "made/up",
        "source": "here",
        "says": "A square is a product.",
        "predict": predict,
        "observe": observe,
        "compare": close("v", EXACT),
        "settings": {"fast": {"size": 3.0}, "paper": {"size": 5.0}},
        "control": Control("one is added", {"broken": True}),
    }
    return Claim(**{**parts, **changes})


def test_a_claim_holds_and_its_control_fails() -> None:
    verdict = judge(made())
    assert (verdict.status, verdict.control_status, verdict.as_expected) == ("holds", "fails", True)
    assert verdict.summary().keys() == {
        "id", "status", "expected", "margin", "reason", "seconds", "control_status"
    }  # fmt: skip


def test_a_control_that_changes_nothing_is_not_as_expected() -> None:
    assert not judge(made(control=Control("nothing", {}))).as_expected


def test_tiers_fall_back_to_the_one_before() -> None:
    assert made().setting("full") == {"size": 3.0}
    assert made().setting("paper") == {"size": 5.0}
    with pytest.raises(InputError, match="no tier 'quick'"):
        made().setting("quick")


def test_an_assumption_that_is_needed_and_not_met_leaves_no_verdict() -> None:
    small = Assumption("size below 2", lambda size: (size < 2, f"size = {size}"))
    verdict = judge(made(assumes=(small,)))
    assert verdict.status == "inconclusive"
    assert "size = 3.0" in verdict.reason
    told = judge(made(assumes=(Assumption(small.says, small.check, needed=False),)))
    assert told.status == "holds"
    assert not told.assumptions[0].met


def test_a_crash_is_a_stop_with_its_place_and_never_as_expected() -> None:
    def crash(size: float) -> xr.Dataset:
        raise ZeroDivisionError("no such luck")

    verdict = judge(made(observe=crash))
    assert verdict.status == "stopped"
    assert "test_claim.py" in verdict.reason
    assert "no such luck" in verdict.reason
    assert not verdict.as_expected


MISPRINT = Erratum("5 for 4", (r"5", r"4"), "Nothing follows.", changes={"shift": 1.0}, prints="It is 5.")


def test_an_erratum_is_two_claims_and_both_can_flip() -> None:
    def shifted(size: float, shift: float = 0.0) -> xr.Dataset:
        return xr.Dataset({"v": size**2 + shift})

    printed, corrected = made(predict=shifted, erratum=MISPRINT, whose="the paper's statement").halves()
    assert (printed.id, corrected.id) == ("made/up", "made/up_corrected")
    assert (printed.corrects, corrected.corrects) == (None, "made/up")
    assert (printed.says, corrected.says) == ("It is 5.", made().says)
    both = {claim.id: claim for claim in (printed, corrected)}
    assert (other_half(printed, both), other_half(corrected, both)) == (corrected.id, printed.id)
    first, second = judge(printed), judge(corrected)
    assert (first.status, first.control_status, first.as_expected) == ("fails", "holds", True)
    assert (second.status, second.control_status, second.as_expected) == ("holds", "fails", True)
    assert corrected.halves() == (corrected,)
    whole = made()
    assert whole.halves() == (whole,)


def test_an_erratum_changes_what_has_a_default() -> None:
    claim = made(erratum=MISPRINT, whose="the paper's statement")
    with pytest.raises(ValueError, match="made/up: shift, which its erratum changes, needs a default"):
        claim.halves()


def test_a_claim_about_a_bound_predicts_nothing() -> None:
    verdict = judge(made(predict=None, compare=bounded("v", low=Tolerance(1.0, "made up"))))
    assert verdict.prediction is not None
    assert not verdict.prediction.data_vars


def test_the_code_of_a_claim_is_found_through_partial() -> None:
    file, line = made(observe=functools.partial(observe, broken=False)).code()
    assert file.endswith("test_claim.py")
    assert line > 1


def test_what_is_measured_is_measured_once_for_both_halves_and_the_printed_control():
    calls = []

    def observe(size: int) -> xr.Dataset:
        calls.append(size)
        return trajectory({"y": float(size)})

    def predict(value: float = 4.0) -> xr.Dataset:
        return trajectory({"y": value})

    claim = Claim(
        id="toy/once",
        source="none",
        says="y is what it is",
        predict=predict,
        observe=observe,
        compare=close("y", EXACT),
        settings={"fast": {"size": 4}},
        control=Control("another size", {"size": 6}),
        erratum=Erratum("5 for 4", ("5", "4"), "Nothing follows.", changes={"value": 5.0}),
    )
    printed, corrected = claim.halves()
    assert judge(printed).as_expected
    assert calls == [4]
    assert judge(corrected).as_expected
    assert calls == [4, 6]
    first, second = judge(printed).observation, judge(corrected).observation
    assert first is not second


def test_a_verdict_is_expected_from_its_tier_on() -> None:
    claim = made(expect_from="full")
    assert [claim.expected_at(tier) for tier in ("fast", "full", "paper")] == [None, "holds", "holds"]
    assert made(expect=None, expect_from="full").expected_at("paper") is None
    with pytest.raises(InputError, match="no tier 'quick'"):
        claim.expected_at("quick")
    object.__setattr__(claim, "expect_from", "soon")  # the type checker of the tests would stop __init__
    with pytest.raises(InputError, match="no tier 'soon'"):
        claim.__post_init__()


def test_below_its_tier_a_claim_that_turns_out_otherwise_is_a_measurement() -> None:
    def wrong(size: float) -> xr.Dataset:
        return xr.Dataset({"v": size})

    claim = made(expect_from="full", predict=wrong)
    fast, full = judge(claim, "fast"), judge(claim, "full")
    assert (fast.status, fast.expected, fast.as_expected) == ("fails", None, True)
    assert (full.status, full.expected, full.as_expected) == ("fails", "holds", False)
    right = judge(made(expect_from="full"), "full")
    assert (right.expected, right.as_expected) == ("holds", True)


def test_equal_arguments_of_other_types_are_measured_apart() -> None:
    def observe(sizes: tuple[object, ...]) -> xr.Dataset:
        return xr.Dataset({"v": 2.0 if sizes[0] is True else 1.0})

    def predict(sizes: tuple[object, ...]) -> xr.Dataset:
        return xr.Dataset({"v": 1.0})

    settings, control = {"fast": {"sizes": (1,)}}, Control("a truth value", {"sizes": (True,)})
    claim = made(predict=predict, observe=observe, settings=settings, control=control)
    assert judge(claim).as_expected


def test_a_measurement_that_is_changed_does_not_change_the_next_one() -> None:
    claim = made()
    first = judge(claim).observation
    assert first is not None
    first["v"][...] = 99.0
    assert judge(claim).status == "holds"
