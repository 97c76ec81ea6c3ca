"""Checking from Python, and how claims and verdicts look in a notebook."""

from __future__ import annotations

import pytest

from foretrain import papers
from foretrain.core.errors import InputError
from foretrain.ledger.judge import judge
from foretrain.show.checking import check


def test_check_gives_a_table_of_verdicts(made_up_papers: None) -> None:
    table = check("toy/holds", "misprint*")
    assert list(table.index) == ["toy/holds", "toy/misprint", "toy/misprint_corrected"]
    assert list(table["verdict"]) == ["holds", "fails", "holds"]
    assert table["as expected"].all()
    assert table.loc["toy/misprint", "whose"] == "the paper's statement"


def test_check_refuses_what_is_not_there(made_up_papers: None) -> None:
    with pytest.raises(InputError, match=r"Nothing matches|nearest"):
        check("nothing*")
    with pytest.raises(InputError, match="tier"):
        check("toy/holds", tier="fats")


def test_notebooks_show_claims_and_verdicts_with_words_escaped(made_up_papers: None) -> None:
    claim = papers.claim("toy/holds")
    assert "&lt;script&gt;" in claim._repr_html_()
    assert "<script>" not in claim._repr_html_()
    shown = judge(claim)._repr_html_()
    for words in ("toy/holds", "holds", "× inside", "fails:"):
        assert words in shown
