"""How close is close: the tolerances that several papers share, each with its reason.

A tolerance that only one paper needs lives in that paper's `tolerances.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """A bound on an error, and why it is not tighter."""

    value: float
    reason: str


NONE = Tolerance(0.0, "the statement leaves no room")
EXACT = Tolerance(1e-14, "a few roundings of float64 (eps 2.2e-16)")
ALGEBRA = Tolerance(1e-12, "float64 algebra over some hundred operations")
GRADIENT = Tolerance(1e-10, "float64 gradient against autograd: two orders of summation of ~1e4 terms")
FLOW = Tolerance(1e-8, "closed form against an ODE or quadrature whose own error is near 1e-10")
SLOPE = Tolerance(0.1, "least-squares slope in log-log over two to three decades with sampling noise")
THREE_ERRORS = Tolerance(
    3.0, "difference of means in combined standard errors: p = .0027 if there is none and seeds are many, .04 with five"
)
SURE_SIGN = Tolerance(
    0.05, "p of a sign or an order, two-sided t test of paired seeds: above it, chance would do as well. 2 standard "
    "errors with 60 seeds, 3.2 with four"
)  # fmt: skip
CHANCE = Tolerance(1e-3, "p of a one-sided test: one sound bound in a thousand is called broken by chance")
PRINTED_DIGITS = Tolerance(5e-5, "a reference number published with four decimals")
