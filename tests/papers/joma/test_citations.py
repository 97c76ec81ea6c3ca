"""A numbered result of the paper leads from its claim to its theory or experiment, and to a test."""

from __future__ import annotations

from functools import cache

import pytest

from foretrain import papers
from foretrain.ledger.citations import citations, results_in
from foretrain.ledger.search import Reference

PAPER = "joma"
TESTED = {"theorem", "lemma", "corollary", "proposition", "remark", "figure"}
IN_THEORY = {"theorem", "lemma", "corollary"}
NEITHER_THEORY_NOR_EXPERIMENT: dict[Reference, str] = {}  # a result, and why no function cites it

RESULTS = sorted({result for claim in papers.claims(PAPER).values() for result in results_in(claim.source)})


@cache
def places(result: Reference) -> frozenset[str]:
    return frozenset(citation.place for citation in citations(papers.folder_of(PAPER), {result}))


@pytest.mark.parametrize("result", [r for r in RESULTS if r[0] in TESTED], ids=" ".join)
def test_a_result_of_a_claim_is_cited_by_a_test(result: Reference) -> None:
    assert "tests" in places(result), f"no test cites {' '.join(result)} in its name or docstring"


@pytest.mark.parametrize("result", [r for r in RESULTS if r[0] in IN_THEORY], ids=" ".join)
def test_a_theorem_of_a_claim_is_cited_by_theory_or_an_experiment(result: Reference) -> None:
    cited = bool(places(result) & {"theory", "experiments"})
    assert cited != (result in NEITHER_THEORY_NOR_EXPERIMENT)


def test_there_are_results_to_look_for() -> None:
    assert ("theorem", "3") in RESULTS
    assert ("figure", "9") in RESULTS
    assert places(("theorem", "99")) == frozenset()
