"""Fig 17 to 21: which template tasks are harder. At tier fast the networks are tiny and have a·I and b·I."""

from __future__ import annotations

from typing import Any

from foretrain.claim import Claim, Control
from foretrain.papers.abstract_symbols.claims.sides import better_than
from foretrain.papers.abstract_symbols.experiments import difficulty as figures
from foretrain.papers.abstract_symbols.experiments.trained import VANILLA, WITH_AB


def _harder(make: Any, argument: str, number: int, says: str, easy: Any, hard: Any, n: int, **claim: Any) -> Claim:
    return better_than(
        make,
        argument,
        id=f"abstract_symbols/fig{number}",
        source=f"Fig {number}",
        says=says,
        sides=(easy, (hard,)),
        settings={
            "fast": {"setting": "tiny", "architecture": WITH_AB, "seeds": 4, "n": (n,)},
            "full": {"setting": "small", "architecture": VANILLA, "seeds": 5, "n": (128, 256)},
            "paper": {"setting": "base", "architecture": VANILLA, "seeds": 5, "n": figures.SAMPLES[2:]},
        },
        control=Control("the harder tasks in the place of the easier", {"better": hard, "worse": (easy,)}),
        **claim,
    )


fig17 = _harder(
    figures.fig17,
    "tasks",
    17,
    "Tasks differ in difficulty: a majority of two symbols is learned from fewer samples than one of four.",
    "majority_2",
    "majority_4",
    96,
)
fig18 = _harder(
    figures.fig18,
    "lengths",
    18,
    "Two random templates over two wildcards are harder to tell apart the longer they are.",
    3,
    9,
    64,
)
fig19 = _harder(
    figures.fig19,
    "wildcards",
    19,
    "Two random templates of length 5 are harder the more wildcards there are.",
    2,
    4,
    128,
)
fig20 = _harder(
    figures.fig20,
    "tokens",
    20,
    "Two random templates of length 5 become easy as soon as regular tokens occur in them.",
    2,
    0,
    48,
)
fig21 = _harder(
    figures.fig21,
    "templates",
    21,
    "More random templates of length 5 are harder than two.",
    2,
    16,
    48,
    erratum=(
        "The printed caption of Fig 21 repeats that of Fig 20 word for word; appendix B.2 says that the four figures "
        "vary length, wildcards, tokens and the number of templates, so the number, from 2 to 16, is varied here."
    ),
)

CLAIMS = [fig17, fig18, fig19, fig20, fig21]
