"""Ways to compare a prediction with a measurement. Each function here makes a comparator; the tier never changes it.

`name` is a variable that both datasets have, unless a comparator says otherwise; the paper's table of quantities says
what a reader calls it. `by` and `seen` say how the two values came about: "by the printed formula", "by integration".
"""

from __future__ import annotations

import math

import xarray as xr

from foretrain.ledger.claim import Comparator
from foretrain.ledger.comparators.agreement import bounded, close, close_relative, conserved
from foretrain.ledger.comparators.intervals import gains
from foretrain.ledger.comparators.orders import positive, ranked, slope, surely_positive
from foretrain.ledger.comparators.statistics import as_printed, converges, covered, explains, same_mean
from foretrain.ledger.margins import Expected, Outcome
from foretrain.ledger.quantities import Quantities

__all__ = [
    "as_printed",
    "bounded",
    "close",
    "close_relative",
    "conserved",
    "converges",
    "covered",
    "every",
    "explains",
    "gains",
    "positive",
    "ranked",
    "same_mean",
    "slope",
    "surely_positive",
]


def every(*parts: Comparator) -> Comparator:
    """All parts must hold. The margin is that of the part nearest to failing, or failing worst."""

    def compare(prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities) -> Outcome:
        outcomes = [part(prediction, observation, quantities) for part in parts]
        order: dict[Expected, int] = {"holds": 0, "inconclusive": 1, "fails": 2}
        worst = max(outcomes, key=lambda o: (order[o.status], -o.margin if math.isfinite(o.margin) else -math.inf))
        shown = dict.fromkeys(o.reason.removesuffix(".") for o in outcomes if o.status == worst.status)
        return Outcome(worst.status, worst.margin, ". ".join(shown))

    return Comparator(compare, tuple(quantity for part in parts for quantity in part.draws))
