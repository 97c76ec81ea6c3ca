"""The number of a result leads to its claim, its theory or experiment, and a test: one suite over every paper."""

from __future__ import annotations

from foretrain import papers
from foretrain.ledger.citations import citations, results_in
from foretrain.ledger.search import Reference

PROVED = ("theorem", "lemma", "corollary", "proposition")
# Results that only tests cite, and why.
NO_FUNCTION = {
    ("abstract_symbols", ("lemma", "3.7")): "a sum of kernels differs from another: the claim tries every permutation",
    ("abstract_symbols", ("lemma", "I.7")): "two distributions are equal: the claim couples pairs of trained networks",
}


def _cited() -> dict[tuple[str, Reference], set[str]]:
    """Every numbered result in the source of a claim, with the places that cite it."""
    results = {(claim.paper, result) for claim in papers.claims().values() for result in results_in(claim.source)}
    return {
        (paper, result): {citation.place for citation in citations(papers.folder_of(paper), {result})}
        for paper, result in sorted(results)
    }


CITED = _cited()


def test_there_are_results_to_find() -> None:
    expected = {("scan_snap", ("theorem", "3")), ("joma", ("table", "1")), ("abstract_symbols", ("lemma", "G.8"))}
    assert expected <= set(CITED)
    assert len(CITED) > 80


def test_a_result_is_cited_by_a_test() -> None:
    assert [result for result, places in CITED.items() if "tests" not in places] == []


def test_what_is_proved_is_cited_by_theory_or_in_training() -> None:
    """A result that has no function is listed with the reason, and only as long as it has none."""
    proved = {result: places for result, places in CITED.items() if result[1][0] in PROVED}
    assert {result for result, places in proved.items() if not places - {"tests"}} == set(NO_FUNCTION)
