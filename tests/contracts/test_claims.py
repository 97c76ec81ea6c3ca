"""One suite over every claim of every paper: it comes out as expected, and it could have come out otherwise."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.everywhere import problems
from foretrain import papers
from foretrain.core.trajectory import save
from foretrain.ledger.claim import Claim, other_half
from foretrain.ledger.judge import judge
from foretrain.ledger.tiers import TIERS
from foretrain.ledger.verdict import flipped
from foretrain.ledger.verdict_store import CLAIM_ID
from foretrain.runs.run_folder import load
from foretrain.show.report.claim_figures import claim_figures
from foretrain.show.report.compact import compact

CLAIMS = papers.claims()

# Ten claims that train or integrate for 5 to 25 seconds each take a third of the time of all 313. `make check` judges
# them too, and `make test-full` here.
LONG = {
    "abstract_symbols/data_need", "abstract_symbols/fig8", "abstract_symbols/fig20", "abstract_symbols/fig21",
    "abstract_symbols/kernel", "abstract_symbols/theorem3_4", "feature_extraction/ntk_stability",
    "joma/hierarchy_order_transformer", "joma/sparse_then_dense", "scan_snap/fig6",
}  # fmt: skip
every_claim_by_length = pytest.mark.parametrize(
    "claim", [pytest.param(claim, id=id, marks=[pytest.mark.full] * (id in LONG)) for id, claim in CLAIMS.items()]
)


@every_claim_by_length
@pytest.mark.filterwarnings("ignore:Judged from:UserWarning")  # a kept result says how old it is
def test_verdict_control_trajectories_and_figure(claim: Claim, tmp_path: Path, as_users_run_it: None) -> None:
    """One test, because judging is what takes the time: a third less without the type checker of the tests."""
    verdict = judge(claim, "fast")
    assert verdict.judged, verdict.reason
    expected = claim.expected_at("fast")
    assert verdict.expected == expected
    if expected is not None:
        assert verdict.status == expected, verdict.reason
        assert verdict.control_status == flipped(expected), f"the control does not flip it: {verdict.control_reason}"
    elif set(claim.settings) == {"fast"}:  # a measurement that has one size; larger ones may be needed elsewhere
        assert verdict.control_status != verdict.status, f"the control flips nothing: {verdict.control_reason}"
    assert "against itself" not in verdict.control_reason
    assert verdict.reason
    for words in (verdict.reason, verdict.control_reason):
        assert not re.search(r"[a-z]{2,}_[a-z]{2,}", words.replace("ag_news", "")), f"a name from the code: {words}"
    assert not np.isnan(verdict.margin) or verdict.status == "inconclusive"

    assert verdict.prediction is not None
    assert verdict.observation is not None
    for name, dataset in (("prediction", verdict.prediction), ("observation", verdict.observation)):
        back = load(save(dataset, tmp_path / f"{name}.nc"))
        for variable in dataset.variables:
            np.testing.assert_array_equal(back[variable].values, dataset[variable].values)

    if claim.figure is not None:
        figures = [claim.figure(verdict.prediction, verdict.observation)]
    else:
        figures = claim_figures(verdict.prediction, verdict.observation, claim.compare, claim.quantities)
    assert figures, "there is nothing to draw"
    assert all(len(compact(figure)) < 500_000 for figure in figures)


def says_what_it_is(claim: Claim) -> None:
    assert CLAIM_ID.fullmatch(claim.id), claim.id
    assert claim.paper in papers.papers()
    assert claim.source.strip()
    assert len(claim.says.split()) >= 3
    assert claim.control.says.strip()
    assert "fast" in claim.settings
    assert set(claim.settings) <= set(TIERS)
    file, line = claim.code()
    assert Path(file).is_file()
    assert line >= 1


def says_whose_it_is_and_an_erratum_what_it_changes(claim: Claim) -> None:
    assert claim.whose is not None
    if claim.erratum and claim.corrects is None:
        assert claim.whose != "our own expectation"
        assert all(claim.erratum.formulas), "give the printed and the corrected formula"
        assert claim.erratum.consequence, "say what it changes for a reader"


def every_setting_and_every_change_of_the_control_is_used(claim: Claim) -> None:
    """A name nobody takes is a wrong name, or a control that changes nothing."""
    if any(_takes_anything(function) for function in _functions(claim)):
        return  # it hands the setting on, to a function that refuses a wrong name
    measured = set().union(*map(_names_taken, _functions(claim)))
    taken = measured.union(*(_names_taken(assumption.check) for assumption in claim.assumes))
    for tier in TIERS:
        assert set(claim.setting(tier)) <= taken, tier
    assert set(claim.control.changes) <= measured
    assert claim.control.changes, "the control changes nothing"


def larger_tiers_set_the_same_names(claim: Claim) -> None:
    """The tier changes sizes, never what is compared."""
    for tier in TIERS[1:]:
        assert set(claim.setting("fast")) <= set(claim.setting(tier)) | _names_with_defaults(claim), tier


def what_it_compares_has_words(claim: Claim) -> None:
    compared = {drawn.measured for drawn in claim.compare.draws}
    assert {name for name in compared if name not in claim.quantities} == set(), "name it in the paper's quantities.py"


def an_erratum_has_both_halves(claim: Claim) -> None:
    pair = other_half(claim, CLAIMS)
    if claim.corrects is not None:
        assert claim.id == f"{claim.corrects}_corrected"
        printed = CLAIMS[claim.corrects]
        assert printed.expect == "fails"
        assert claim.expect == "holds"
        assert printed.erratum
        assert re.search(r"\d", printed.erratum.says), "an erratum names its numbers"
    else:
        assert not claim.id.endswith("_corrected"), "say in `corrects` what it corrects"
        assert pair is None or claim.expect == "fails"
    if claim.paper == "scan_snap" and claim.expect == "fails" and claim.whose != "our own expectation":
        assert pair is not None, "what should stand in its place?"


@pytest.mark.parametrize(
    "check",
    [
        says_what_it_is,
        says_whose_it_is_and_an_erratum_what_it_changes,
        every_setting_and_every_change_of_the_control_is_used,
        larger_tiers_set_the_same_names,
        an_erratum_has_both_halves,
        what_it_compares_has_words,
    ],
    ids=lambda check: check.__name__,
)
def test_every_claim(check: Callable[[Claim], None]) -> None:
    assert problems(CLAIMS, check) == {}


def test_long_claims_are_claims() -> None:
    assert set(CLAIMS) >= LONG


def test_one_claim_is_found_by_its_id_without_loading_every_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = set(papers._modules("claims", ()))
    for claim in CLAIMS.values():
        loaded = set(papers._modules("claims", (claim.id,)))
        assert (claim.paper, claim.module) in loaded, claim.id
        assert {paper for paper, _ in loaded} == {claim.paper}
        assert papers.claim(claim.id) == claim
        assert loaded < everything


def _functions(claim: Claim) -> list[Callable[..., Any]]:
    return [function for function in (claim.predict, claim.observe) if function is not None]


def _takes_anything(function: Callable[..., Any]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())


def _names_taken(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def _names_with_defaults(claim: Claim) -> set[str]:
    return {
        p.name
        for function in _functions(claim)
        for p in inspect.signature(function).parameters.values()
        if p.default is not p.empty
    }
