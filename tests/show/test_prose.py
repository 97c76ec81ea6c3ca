"""Symbols in sentences: indices and powers are set, names from the code are left alone, and nothing is unescaped."""

from __future__ import annotations

import re

import pytest

from foretrain import papers
from foretrain.show.prose import prose


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("η_Y/η_Z ≥ 100", "η<sub>Y</sub>/η<sub>Z</sub> ≥ 100"),
        ("e^{Mh} + (M−1)Mh", "e<sup>Mh</sup> + (M−1)Mh"),
        ("λe^{μ_k²/2}/ln(1/δ_k)", "λe<sup>μ<sub>k</sub>²/2</sup>/ln(1/δ<sub>k</sub>)"),
        ("W_KW_Qᵀ and ξ_mu_m.", "W<sub>K</sub>W<sub>Q</sub>ᵀ and ξ<sub>m</sub>u<sub>m</sub>."),
        ("f̂_ideal, h′_k, dL_train/dt", "f̂<sub>ideal</sub>, h′<sub>k</sub>, dL<sub>train</sub>/dt"),
        ("x_{T+1}, p_0", "x<sub>T+1</sub>, p<sub>0</sub>"),
        ("width^(−1/2), t^1.4 to t^2.", "width<sup>−1/2</sup>, t<sup>1.4</sup> to t<sup>2</sup>."),
        ("β_nn' < 1 & more", "β<sub>nn&#39;</sub> &lt; 1 &amp; more"),
        ("^{<b>}", "<sup>&lt;b&gt;</sup>"),
    ],
)
def test_indices_and_powers(text: str, page: str) -> None:
    assert str(prose(text)) == page


@pytest.mark.parametrize(
    "name", ["ag_news", "theorem3_4_many_samples.", "joma/hierarchy_order_transformer.)", "fig5_one_rate", "wikitext_2"]
)
def test_names_from_the_code_stay(name: str) -> None:
    assert str(prose(f"See {name} of it")) == f"See {name} of it"


def test_no_raw_index_or_power_is_left_in_the_ledger() -> None:
    """In any sentence about a claim that the report shows; names of claims and corpora may keep their underscores."""
    left = []
    for claim in papers.claims().values():
        erratum = (claim.erratum.says, claim.erratum.consequence) if claim.erratum else ()
        sentences = (claim.says, claim.source, *erratum, claim.finding, claim.control.says)
        for page in (str(prose(sentence)) for sentence in sentences if sentence):
            left += [
                (claim.id, word) for word in re.findall(r"\S*[_^]\S*", page) if not re.search(r"[a-z0-9]_\w", word)
            ]
    assert not left
