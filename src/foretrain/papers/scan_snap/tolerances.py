"""Tolerances that only the claims of Scan and Snap use, each with its reason."""

from foretrain.ledger.tolerances import Tolerance

IDENTITY_ON_FLOW = Tolerance(1e-9, "an identity along an ODE solution computed at rtol 1e-12")
CLOSED_FORM = Tolerance(1e-10, "closed form against an ODE solved at rtol 1e-13")
ORDER_ONE = Tolerance(2.0, "our reading of Θ(1): a factor between 1/2 and 2")
ONE_OVER_ORDER_ONE = Tolerance(1 / ORDER_ONE.value, ORDER_ONE.reason)
EQUAL = Tolerance(1.0, "the ratio of two equal things")
HALF = Tolerance(0.5, "our reading of 'another subset' (two share less than half) and of 'suppressed' (half is gone)")
ONE_STEP = Tolerance(1.0, "our reading of a constant that the lemma does not give: one step")
GAP_BOUND = Tolerance(2.0, "Lemma 7 itself, in η_Y/M")
GAP_LEFT = Tolerance(0.02, "h* − h at the end, in η_Y/M: it falls as ln s/(2Ms), to .0001 at 10⁵ steps for η_Y up to 5")
PREDICTS = Tolerance(0.1, "what we call predicting training: z to within 10 %")
SAMPLED = Tolerance(0.15, "what we call predicting the mean of noisy training: z to within 15 %")
MEMORY_LEFT = Tolerance(0.01, "what the decoder's memory takes from growth at η_Y/η_Z = 1000: measured .001")
SNAP_READ = Tolerance(0.05, "a snap read off a curve at 60 times per decade, in training with steps of finite length")
SEARCHED = Tolerance(1e-6, "a number near 10³ to 10⁵ from eigenvalues known to 1e-12")
LAG = Tolerance(0.03, "a rate per ln s over the last two decades: the next order, ln s/s, still adds this much")
LATE_FORM = Tolerance(
    0.005, "a limit formula from 1000 times the transition on: it neglects (1 − 1/M)² and ln(t)/t, about 0.2 %"
)
STEPS_AS_FLOW = Tolerance(
    0.02, "continuous h instead of stepped h*: they differ by a third of a step near the transition"
)
CORRELATED = Tolerance(0.3, "our reading of 'says something about': rank correlations of .3 and more")
SPARSER = Tolerance(0.3, "nats, a tenth of the entropy at the start: our reading of 'becomes sparse'")
FROZEN = Tolerance(0.5, "of its fastest: our reading of 'freezes', since the theory has it slow down, never stop")
GROWS = Tolerance(1.0, "d ln z/d ln t: the edge between scanning and snapping")
