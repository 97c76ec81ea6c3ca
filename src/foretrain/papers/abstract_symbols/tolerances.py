"""How close is close: the tolerances that only the claims of Abstract symbols use, each with its reason."""

from foretrain.ledger.tolerances import Tolerance

CHANCE_OF_FEW = Tolerance(
    0.01, "p of a one-sided t-test over a few seeds: by chance, one network in a hundred is called better than itself"
)
NETWORK_KERNEL = Tolerance(
    3.0, "relative distance of a transformer's random features from their kernel, times sqrt(width)"
)
TAYLOR_ORDER = Tolerance(
    0.3, "order of a remainder measured at β from .1 to .2, where the next order still adds a few percent"
)
LIMIT_VELOCITY = Tolerance(0.1, "velocity of a loss at embedding widths 1024 to 4096, mean of a few seeds")
COUPLED = Tolerance(1e-6, "two runs that are equal on paper: rounding errors grow over a hundred steps of training")
PUBLISHED_SPREAD = Tolerance(
    0.15, "the same setting of trained transformers is printed as .347 in one figure and .654 in another"
)
SAMPLED_KERNEL = Tolerance(2e-3, "K_attn by 16 thousand Sobol points, whose own error is up to 1e-3")
TRUNCATED = Tolerance(1e-6, "a power series cut off at order 8, whose terms fall by more than a factor of 5 each")
MANY_SAMPLES = Tolerance(0.02, "what 1500 samples of up to 576 strings still leave: (λ + ‖K‖)·‖N⁻¹‖/n is up to .02")
SURE_OF_THREE = Tolerance(4.303, "ours: standard errors of a mean over three seeds that a t test asks for at 95 %")
