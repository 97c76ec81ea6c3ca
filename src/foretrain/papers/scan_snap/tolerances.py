"""How close is close: the tolerances that only the claims of Scan and Snap use, each with its reason."""

from foretrain.ledger.tolerances import Tolerance

IDENTITY_ON_FLOW = Tolerance(1e-9, "an identity read off an ODE solution computed at rtol 1e-12")
CLOSED_FORM = Tolerance(1e-10, "closed form against an ODE solved at rtol 1e-13")
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
