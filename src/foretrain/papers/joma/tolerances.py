"""How close is close: the tolerances that only the claims of JoMA use, each with its reason."""

from foretrain.ledger.tolerances import Tolerance

HALF = Tolerance(0.5, "our reading of 'another subset': of two, less than half is shared")
QUADRATURE = Tolerance(1e-10, "two quadratures of one integral, each near 1e-12")
THREE_DIGITS = Tolerance(5e-4, "a reference number given with three decimals")
FIRST_ORDER = Tolerance(1e-4, "a law of first order in the movement of b̄, which is kept near 2e-5 there")
SAME_SIZE = Tolerance(0.1, "a slope within a tenth of 1: the size is predicted, not only the direction")
BETWEEN_RECORDS = Tolerance(1e-4, "a time read between two records 5e-3 apart by a straight line")
CORRELATED = Tolerance(0.9, "least centred cosine called correlated; the lowest published one of ẑ and z is .937")
ORDERED = Tolerance(0.8, "least rank correlation called an order; of three things in random order one in six has more")
SATURATED = Tolerance(
    0.05, "a component that moves late by less than this share of the fastest: our reading of 'saturates' in a figure"
)
ALIVE = Tolerance(1e-3, "a weight that moves late by less, of some 1 to 10 in size, stands still")
RANK_DROP = Tolerance(0.5, "our reading of 'drops': the rank falls to less than half of its start")
RANK_BOUNCE = Tolerance(1.1, "our reading of 'bounces': from its lowest point the rank comes back by more than a tenth")
CONSTANT = Tolerance(1e-4, "a total variation small enough that first-order terms in it do not show")
