"""How close is close: every tolerance used by a claim, in one table, with its reason."""

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
IDENTITY_ON_FLOW = Tolerance(1e-9, "an identity read off an ODE solution computed at rtol 1e-12")
CLOSED_FORM = Tolerance(1e-10, "closed form against an ODE solved at rtol 1e-13")
FLOW = Tolerance(1e-8, "closed form against an ODE or quadrature whose own error is near 1e-10")
SLOPE = Tolerance(0.1, "least-squares slope in log-log over two to three decades with sampling noise")
THREE_ERRORS = Tolerance(3.0, "difference of means in combined standard errors: p = .0027 if there is none")
CHANCE = Tolerance(1e-3, "p of a one-sided test: one sound bound in a thousand is called broken by chance")
CHANCE_OF_FEW = Tolerance(
    0.01, "p of a one-sided t-test over a few seeds: one network in a hundred is called better than itself by chance"
)
ORDER_ONE = Tolerance(2.0, "what Θ(1) leaves open: a factor between 1/2 and 2")
HALF = Tolerance(0.5, "our reading of 'another subset': of two, less than half is shared")
ONE_STEP = Tolerance(1.0, "a constant the lemma does not give: read as one step")
GAP_LEFT = Tolerance(0.02, "h* − h in η_Y/M at the end: it falls as ln s/(2Ms), .0001 at 10⁵ steps for η_Y up to 5")
SEARCHED = Tolerance(1e-6, "a number near 10³ to 10⁵ from eigenvalues known to 1e-12")
SNAP = Tolerance(0.003, "t0 rounds (M−1)/M, share 2/M; a root read by linear interpolation on steps of 10")
LAG = Tolerance(0.03, "a rate per ln s over the two last decades: what the next order, ln s/s, still adds")
LATE_FORM = Tolerance(
    0.005, "a limit form from 1000 times the transition on: it leaves out (1 − 1/M)² and ln(t)/t, some 0.2 %"
)
STEPS_AS_FLOW = Tolerance(
    0.02, "the continuous h for the stepped h*: they differ by a third of a step near the transition"
)
QUADRATURE = Tolerance(1e-10, "two quadratures of one integral, each near 1e-12")
WIDTH_SLOPE = Tolerance(
    0.15, "slope over a factor 4 to 16 in width from a few seeds; the fluctuations fall as width^-1/2"
)
WIDE_NETWORK = Tolerance(
    2.56, "relative Frobenius distance of a network from its limit, times sqrt(width): .08 at 1024"
)
MEAN_KERNEL = Tolerance(
    0.01, "share of a kernel's variance that the mean of 20 to 80 networks leaves: each is off by 8 to 20 %"
)
PRINTED_DIGITS = Tolerance(5e-5, "a reference number published with four decimals")
THREE_DIGITS = Tolerance(5e-4, "a reference number given with three decimals")
FIRST_STEP = Tolerance(0.10, "regression over tokens of one step at width 512 to 1024, mean of three seeds")
KERNEL_RATIO = Tolerance(
    0.1, "relative: ratio of two parts of an empirical kernel, whose entries fluctuate by width^-1/2"
)
KERNEL_RATIO_AT_MOST = Tolerance(0.03, "absolute: what KERNEL_RATIO may be where β/ρ is large, .47 at most")
NO_BIAS = Tolerance(0.004, "β/ρ of an activation of mean 0: a tenth of the smallest of the others, SiLU's .040")
IMBALANCE = Tolerance(0.2, "|Σω|/Σ|ω| from which on a shift by βΣω/2 is no small part of what scores move")
SMALL_BIAS = Tolerance(
    0.3, "the square of a mean activation of 4e-5 whose standard error over 2 million units is 3.5e-6"
)
LAZY = Tolerance(0.05, "share of variance a kernel leaves unexplained at width 256 to 1024, mean of a few seeds")
MOVEMENT_POWER = Tolerance(
    0.2,
    "power of width from movements that vary by 40 to 70 % between seeds: ± .07 (32 seeds, factor 8; 20, factor 16)",
)
NETWORK_KERNEL = Tolerance(
    3.0, "relative distance of a transformer's random features from their kernel, times sqrt(width)"
)
TAYLOR_ORDER = Tolerance(
    0.3, "order of a remainder read at β from .1 to .2, where the next order still adds some percent"
)
LIMIT_VELOCITY = Tolerance(0.1, "velocity of a loss at embedding width 1024 to 4096, mean of a few seeds")
COUPLED = Tolerance(1e-6, "two runs that are equal on paper: roundings grow over some hundred steps of training")
PUBLISHED_SPREAD = Tolerance(
    0.15, "one setting of trained template transformers is printed between .347 and .654 in different figures"
)
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
