"""The number of a result leads to its claim, its theory or experiment, and a test."""

from __future__ import annotations

import pytest

from foretrain import papers
from foretrain.ledger.citations import citations, results_in

PAPER = "abstract_symbols"
RESULTS = ("theorem", "lemma", "corollary", "proposition", "remark", "figure", "claim", "observation")
PROVED = ("theorem", "lemma", "corollary")
# Results without a function of their own in theory or experiments, and why.
NO_FUNCTION = {
    ("lemma", "3.7"): "says that a sum of kernels differs from another: the claim tries every permutation on K_attn",
    ("lemma", "I.7"): "says that two distributions are equal: the claim couples pairs of trained networks",
}


def _cited() -> dict[tuple[str, str], set[str]]:
    """Every numbered result in the source of a claim, with the places that cite it."""
    results = set().union(*(results_in(claim.source) for claim in papers.claims(PAPER).values()))
    folder = papers.folder_of(PAPER)
    return {
        result: {citation.place for citation in citations(folder, {result})}
        for result in sorted(results)
        if result[0] in RESULTS
    }


CITED = _cited()


def test_there_are_results_to_find() -> None:
    assert {("theorem", "3.4"), ("lemma", "G.7"), ("figure", "22"), ("remark", "I.6")} <= set(CITED)


@pytest.mark.parametrize("result", CITED, ids=" ".join)
def test_a_result_is_cited_by_a_test(result: tuple[str, str]) -> None:
    assert "tests" in CITED[result]


@pytest.mark.parametrize("result", [result for result in CITED if result[0] in PROVED], ids=" ".join)
def test_a_theorem_or_lemma_is_cited_by_theory_or_an_experiment(result: tuple[str, str]) -> None:
    """A result that has no function is listed with the reason, and only as long as it has none."""
    assert bool(CITED[result] & {"theory", "experiments"}) != (result in NO_FUNCTION)
