"""How close is close, for claims about deep linear networks."""

from foretrain.ledger.tolerances import Tolerance

STEPS = Tolerance(0.02, "gradient steps of .005 against a flow: each curve comes about half a step early per time unit")
RANDOM_START = Tolerance(0.15, "of ln u_0: steps of .002 against a flow make .06, and modes that meet .03 per seed")
DRIFT = Tolerance(2e-3, "what a flow conserves, steps of .005 change by about rate times the distance travelled")
FIRST_ORDER = Tolerance(0.1, "power of 1/N_l over a factor of 64, where the next order is 1/N_l²")
INVERSE = Tolerance(0.1, "the time is ln(s/u_0)/s, and the logarithm adds its own inverse, .06, to the power")
ALMOST_NO_TIME = Tolerance(3.0, "times as many steps: our reading of a time that hardly depends on depth")
