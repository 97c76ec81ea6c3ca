"""Finding claims and experiments: by id, by the paper's own numbering, and by words."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrain.core.errors import InputError
from foretrain.ledger.search import Entry, matching, references, select

ENTRIES = [
    Entry("joma/lemma1", "Lemma 1, eq. 3 and 4", "Attention is sparse."),
    Entry("scan_snap/lemma1", "Lemma 1, eq. 23", "A gradient."),
    Entry("scan_snap/lemma10_12", "Lemma 10, eq. 58; Lemma 11, eq. 61 and 62; Lemma 12", "Three of them."),
    Entry("scan_snap/theorem1", "Theorem 1(a), eq. 91 and 92", "Identity scaling helps."),
    Entry("scan_snap/theorem2", "Theorem 2, under eq. 10", "The identity does not."),
    Entry("symbols/G", "Lemmas G.7 to G.9", "Analytic."),
    Entry("symbols/theorem4_1_rates", "Theorems 4.1 and J.2", "Rates."),
    Entry("symbols/fig22", "", "Test loss against n."),
    Entry("symbols/fig2", "Fig 2, Observation 1.2", "Print programs."),
]
IDS = [entry.id for entry in ENTRIES]


@pytest.mark.parametrize(
    ("queries", "chosen"),
    [
        ([], IDS),
        (["scan_snap"], IDS[1:5]),
        (["scan_snap/theorem*"], IDS[3:5]),
        (["scan_snap/lemma1"], [IDS[1]]),  # a whole id means itself, not all that begin with it
        (["lemma1"], IDS[:2]),
        (["theorem2", "joma"], [IDS[0], IDS[4]]),
        (["*/lemma1*"], IDS[:3]),
        (["Lemma 1"], IDS[:2]),
        (["lemma 11"], [IDS[2]]),
        (["Thm. 1"], [IDS[3]]),
        (["Theorem 1(a)"], [IDS[3]]),
        (["theorem 1 gradient", "Lemma G.8"], None),
        (["Lemma G.7"], [IDS[5]]),
        (["Lemma G.8"], [IDS[5]]),
        (["Theorem 4.1"], [IDS[6]]),
        (["Theorem J.2"], [IDS[6]]),
        (["fig22"], [IDS[7]]),
        (["Fig. 22"], [IDS[7]]),
        (["Figure 2"], [IDS[8]]),
        (["identity"], IDS[3:5]),
        (["identity scaling"], [IDS[3]]),
        (["eq. 62"], [IDS[2]]),
        (["Theorem 3"], None),
        ([""], None),
    ],
)
def test_queries(queries: list[str], chosen: list[str] | None) -> None:
    if chosen is None:
        with pytest.raises(InputError, match=r"Nothing matches|The query is empty"):
            select(queries, ENTRIES)
    else:
        assert select(queries, ENTRIES) == chosen


@given(st.text(max_size=12))
def test_any_query_selects_or_is_refused(query: str) -> None:
    try:
        chosen = select([query], ENTRIES)
    except InputError:
        chosen = IDS[:1]
    assert chosen
    assert set(chosen) <= set(IDS)


@given(st.sampled_from(ENTRIES))
def test_every_number_of_a_source_finds_it(entry: Entry) -> None:
    for kind, number in entry.references:
        assert entry in matching(f"{kind} {number}", ENTRIES)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Lemma 6, eq. 44 and 45", {("lemma", "6"), ("eq", "44"), ("eq", "45")}),
        ("Lemmas 8 and 9, eq. 90", {("lemma", "8"), ("lemma", "9"), ("eq", "90")}),
        ("Claims F.2 to F.6", {("claim", f"F.{n}") for n in range(2, 7)}),
        ("Appendix D.1; Lemmas 13 to 17", {("appendix", "D.1"), *(("lemma", str(n)) for n in range(13, 18))}),
        ("Fig 3 and section 6, points (a)", {("figure", "3"), ("section", "6")}),
        ("Theorem 1(b); Theorem 4", {("theorem", "1"), ("theorem", "4")}),
        ("Lemma C.3 (Lemma 3.5)", {("lemma", "C.3"), ("lemma", "3.5")}),
        ("Lemmas 13 to 15 on random features", {("lemma", str(n)) for n in (13, 14, 15)}),
        ("Fig 6, 11 and 12 at once", {("figure", str(n)) for n in (6, 11, 12)}),
        ("Theorem 3 and a test", {("theorem", "3")}),
        ("lemma g.7", {("lemma", "G.7")}),
        ("eq. (45)", {("eq", "45")}),
        ("equation (45)", {("eq", "45")}),
        ("no number", set()),
    ],
)
def test_references(text: str, numbers: set[tuple[str, str]]) -> None:
    assert references(text) == numbers


@pytest.mark.parametrize(
    "query", ["Theorem 1 to 999999999", "Lemmas 1-" + "9" * 5000, "[!a]*" + "a" * 100_000, "*" * 10**6]
)
def test_a_query_made_to_take_long_is_answered_at_once(query: str) -> None:
    started = time.process_time()
    assert matching(query, ENTRIES) == []
    assert time.process_time() - started < 1
