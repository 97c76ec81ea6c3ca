"""Fig 17 to 21: which template tasks are harder.

At tier fast the networks are tiny and have a·I and b·I; what cannot be seen so has an expected verdict from tier full
on only. Random templates differ more among themselves than from one length or number of wildcards to the next: with 5
seeds Fig 18 and 19 could not be told from chance, so there are 12 at tier full, and Fig 19, where the small plain
network shows too little (pilot seeds: .07 ± .07), has a·I and b·I.
"""

from __future__ import annotations

from typing import Any

from foretrain.claim import Claim
from foretrain.papers.abstract_symbols.claims.sides import better_than
from foretrain.papers.abstract_symbols.experiments import difficulty as figures
from foretrain.papers.abstract_symbols.experiments.trained import VANILLA, WITH_AB


def _harder(
    make: Any,
    argument: str,
    number: int,
    says: str,
    easy: Any,
    hard: Any,
    *,
    fast: dict[str, Any],
    full: dict[str, Any] | None = None,
    **claim: Any,
) -> Claim:
    return better_than(
        make,
        argument,
        id=f"abstract_symbols/fig{number}",
        source=f"Fig {number}",
        says=says,
        sides=(easy, (hard,)),
        settings={
            "fast": {"setting": "tiny", "architecture": WITH_AB, **fast},
            "full": {"setting": "small", "architecture": VANILLA, "seeds": 5, "n": (512, 1024), **(full or {})},
            "paper": {"setting": "base", "architecture": VANILLA, "seeds": 5, "n": figures.SAMPLES[2:]},
        },
        **claim,
    )


fig17 = _harder(
    figures.fig17,
    "tasks",
    17,
    "Tasks differ in difficulty: a majority of two symbols is learned from fewer samples than one of four.",
    "majority_2",
    "majority_4",
    fast={"seeds": 4, "n": (96,)},
)
fig18 = _harder(
    figures.fig18,
    "lengths",
    18,
    "Two random templates over two wildcards are harder to tell apart the longer they are.",
    3,
    9,
    fast={"seeds": 3, "n": (32,), "setting": "glance"},
    full={"seeds": 12, "n": (512,)},
    expect_from="full",
)
fig19 = _harder(
    figures.fig19,
    "wildcards",
    19,
    "Two random templates of length 5 are harder the more wildcards there are.",
    2,
    4,
    fast={"seeds": 3, "n": (32,), "setting": "glance"},
    full={"seeds": 12, "n": (128,), "architecture": WITH_AB},
    expect_from="full",
)
fig20 = _harder(
    figures.fig20,
    "tokens",
    20,
    "Two random templates of length 5 become easy as soon as regular tokens occur in them.",
    2,
    0,
    fast={"seeds": 8, "n": (64,)},
)
fig21 = _harder(
    figures.fig21,
    "templates",
    21,
    "More random templates of length 5 are harder than two.",
    2,
    16,
    fast={"seeds": 4, "n": (64,)},
    erratum=(
        "The printed caption of Fig 21 repeats that of Fig 20 word for word; appendix B.2 says that the four figures "
        "vary length, wildcards, tokens and the number of templates, so the number, from 2 to 16, is varied here."
    ),
)

CLAIMS = [fig17, fig18, fig19, fig20, fig21]
