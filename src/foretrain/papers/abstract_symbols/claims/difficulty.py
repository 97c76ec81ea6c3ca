"""Fig 17 to 21: which template tasks are harder.

At tier fast the networks are tiny and have a·I and b·I. What they are too small to show has an expected verdict only
from tier full on. Random templates differ more among themselves than from one length or number of wildcards to the
next. Without a·I and b·I, the small networks of tier full show neither Fig 18 (with 12 seeds, the 95 % interval of the
gain starts at -.03) nor Fig 19 (5 seeds; .07 ± .07 with 12 others), so for these two they have both.
"""

from __future__ import annotations

from typing import Any

from foretrain.ledger.claim import Claim
from foretrain.papers.abstract_symbols.claims.sides import along, better_than
from foretrain.papers.abstract_symbols.experiments import difficulty as figures
from foretrain.papers.abstract_symbols.simulations.trained import VANILLA, WITH_AB

PLAIN = {"setting": "small", "architecture": VANILLA, "seeds": 5, "n": (512, 1024)}
SCALED = {"setting": "small", "architecture": WITH_AB, "seeds": 24, "n": (128,)}


def _harder(
    figure: str, argument: str, says: str, easy: Any, hard: Any, *, fast: dict[str, Any], **claim: Any
) -> Claim:
    base = {"setting": "base", "architecture": VANILLA, "n": figures.SAMPLES[2:]}
    return better_than(
        **along(figures.EXPERIMENTS, figure, argument),
        says=says,
        settings={
            "fast": {"setting": "tiny", "architecture": WITH_AB, "better": easy, "worse": (hard,), **fast},
            "full": {**PLAIN, "better": easy, "worse": (hard,), **claim.pop("full", {})},
            "paper": {**base, "seeds": 10, "better": easy, "worse": (hard,), **claim.pop("paper", {})},
        },
        **claim,
    )


fig17 = _harder(
    "abstract_symbols/fig17",
    "task",
    "Tasks differ in difficulty: a majority of two symbols is learned from fewer samples than one of four.",
    "majority_2",
    "majority_4",
    fast={"seeds": 4, "n": (96,)},
)
fig18 = _harder(
    "abstract_symbols/fig18",
    "length",
    "Two random templates over two wildcards are harder to tell apart the longer they are. (At tier full: lengths 3 "
    "and 9, networks with a·I and b·I.)",
    3,
    9,
    fast={"seeds": 3, "n": (32,), "setting": "glance"},
    full=SCALED,
    paper={"seeds": 24, "worse": (5, 7, 9)},
    expect_from="full",
)
fig19 = _harder(
    "abstract_symbols/fig19",
    "wildcards",
    "Two random templates of length 5 are harder the more wildcards there are. (At tier full: 2 and 4 wildcards, "
    "networks with a·I and b·I.)",
    2,
    4,
    fast={"seeds": 3, "n": (32,), "setting": "glance"},
    full=SCALED,
    paper={"seeds": 24, "worse": (3, 4, 5)},
    expect_from="full",
)
fig20 = _harder(
    "abstract_symbols/fig20",
    "tokens",
    "Two random templates of length 5 are easier with two regular tokens in them than with none.",
    2,
    0,
    fast={"seeds": 8, "n": (64,)},
)
fig21 = _harder(
    "abstract_symbols/fig21",
    "templates",
    "Sixteen random templates of length 5 are harder than two.",
    2,
    16,
    fast={"seeds": 4, "n": (64,)},
    full={"seeds": 10},
    finding=(
        "The printed caption of Fig 21 repeats that of Fig 20 word for word. Appendix B.2 says that the four figures "
        "vary length, wildcards, tokens and the number of templates, so we vary the number, from 2 to 16."
    ),
)

CLAIMS = [fig17, fig18, fig19, fig20, fig21]
