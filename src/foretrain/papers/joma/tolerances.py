"""Tolerances that only the claims of JoMA use, each with its reason."""

import numpy as np

from foretrain.ledger.tolerances import Tolerance

HALF = Tolerance(0.5, "our reading of 'most' components: at least half of them")
QUADRATURE = Tolerance(1e-10, "two quadratures of one integral, each near 1e-12")
FAR_TAIL = Tolerance(1e-6, "a limit read at 1e4 scales, where F of a t distribution with ν = 3 is still 1e4^−2 = 1e-8")
FIRST_ORDER = Tolerance(1e-4, "a law of first order in the movement of b̄, which stays near 2e-5 in this flow")
HALF_SIZE = Tolerance(0.5, "a slope below one half: the estimate is more than twice too large")
BETWEEN_RECORDS = Tolerance(1e-4, "a time interpolated linearly between two records 5e-3 apart")
CORRELATED = Tolerance(0.9, "the least centred cosine we call correlated; the lowest published one of ẑ and z is .937")
ORDERED = Tolerance(
    0.8, "the least rank correlation we call an order; three things in random order exceed it one time in six"
)
SATURATED = Tolerance(
    0.05, "our reading of 'saturates' in a figure: it moves late by less than this share of the fastest component"
)
RATIO_LEAST = Tolerance(0.5, "as printed below eq. 59")
RATIO_MOST = Tolerance(2.0, "as printed below eq. 59")
CONDITION = Tolerance(0.25, "what eq. 58 asks for")
EXCESS_MOST = Tolerance(float(np.sqrt(np.pi / 2) + 1), "as printed below eq. 88")
ONE_GROWS = Tolerance(1, "our reading of 'some' components")
FALLS = Tolerance(0.5, "our reading of 'sparse': the entropy falls by more than half a nat, of 2.3 at most")
RISES = Tolerance(0.02, "our reading of 'dense again': a rise of the entropy that a figure shows, in nats")
ANGLES = Tolerance(2e-8, "an angle from its cosine, which near 1 keeps half of the digits: √eps = 1.5e-8")
FIRES = Tolerance(0.8, "our reading of 'fires' for a node that should say 1")
SILENT = Tolerance(0.2, "our reading of 'silent' for a node that should say 0")
APART = Tolerance(0.1, "our reading of 'no longer the same': a tenth apart")
DOUBLES = Tolerance(0.1, "growth in proportion to time doubles a size; the start adds some per cent")
ALIVE = Tolerance(1e-3, "a weight of size 1 to 10 that moves late by less than this does not move")
RANK_DROP = Tolerance(0.5, "our reading of 'drops': the rank falls to less than half of its start")
RANK_BOUNCE = Tolerance(1.1, "our reading of 'bounces': the rank rises by more than a tenth from its lowest point")
SEVERAL = Tolerance(
    0.05,
    "our reading of 'the same neuron can be activated by': one neuron in twenty; before training it is one in a "
    "thousand",
)
GPT_DROP = Tolerance(0.9, "of the rank at the start: our reading of 'drop' over checkpoints")
GPT_BOUNCE = Tolerance(1.05, "times the lowest rank: our reading of 'bounce' over checkpoints")
DIP = Tolerance(0.5, "a fifth of the entropy at the start: our reading of 'becomes sparse'")
REBOUND = Tolerance(0.05, "several times the noise of a mean over five evaluations and two seeds")
NEAR_PUBLISHED = Tolerance(0.3, "nats; the published runs have 33 278 words, ours the 4096 most frequent")
CONSTANT = Tolerance(1e-4, "a total variation small enough that first-order terms in it do not show")
