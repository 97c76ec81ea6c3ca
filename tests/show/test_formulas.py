"""Formulas: LaTeX becomes MathML and nothing else."""

from __future__ import annotations

import pytest

from foretrain import papers
from foretrain.show.formulas import typeset


def test_a_formula_becomes_mathml() -> None:
    page = typeset(r"B = \frac14 \ln\left(1 + \frac{4\Gamma}{C_0}\right)")
    assert page.startswith("<math")
    assert "<mfrac>" in page


@pytest.mark.parametrize(
    "latex", [r"\frac{1}{", r"\text{<img src=x onerror=alert(1)>}", r"\text{<b>}", r"\href{javascript:alert(1)}{x}"]
)
def test_what_is_not_pure_mathml_stays_text(latex: str) -> None:
    page = str(typeset(latex))
    assert page.startswith("<code>") or ("<img" not in page and "javascript" not in page)
    assert "<img" not in page
    assert "<b>" not in page


def test_every_formula_of_the_ledger_can_be_typeset() -> None:
    formulas = [
        (claim.id, latex) for claim in papers.claims().values() if claim.erratum for latex in claim.erratum.formulas
    ]
    assert [id for id, latex in formulas if not str(typeset(latex)).startswith("<math")] == []
