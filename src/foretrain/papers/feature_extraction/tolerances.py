"""How close is close: the tolerances that only the claims of Feature extraction use, each with its reason."""

from foretrain.ledger.tolerances import Tolerance

WIDTH_SLOPE = Tolerance(
    0.15, "slope over a factor of 4 to 16 in width from a few seeds; the fluctuations fall as width^-1/2"
)
WIDE_NETWORK = Tolerance(
    2.56, "relative Frobenius distance of a network from its limit, times sqrt(width): .08 at 1024"
)
MEAN_KERNEL = Tolerance(
    0.01, "share of a kernel's variance that the mean of 20 to 80 networks leaves; each network is off by 8 to 20 %"
)
FIRST_STEP = Tolerance(0.10, "regression over tokens of one step at width 512 to 1024, mean of three seeds")
KERNEL_RATIO = Tolerance(
    0.1, "relative: ratio of two parts of an empirical kernel, whose entries fluctuate by width^-1/2"
)
KERNEL_RATIO_AT_MOST = Tolerance(
    0.03, "absolute: the most that KERNEL_RATIO may amount to where β/ρ is large, at most .47"
)
NO_BIAS = Tolerance(0.004, "β/ρ of an activation with mean 0: a tenth of the smallest of the others, SiLU's .040")
IMBALANCE = Tolerance(0.2, "|Σω|/Σ|ω| above which the shift βΣω/2 is a large part of how far scores move")
SMALL_BIAS = Tolerance(
    0.3, "the square of a mean activation of 4e-5 whose standard error over 2 million units is 3.5e-6"
)
LAZY = Tolerance(0.05, "share of variance a kernel leaves unexplained at width 256 to 1024, mean of a few seeds")
MOVEMENT_POWER = Tolerance(
    0.2,
    "power of width from movements that vary by 40 to 70 % between seeds: ± .07 (32 seeds, factor 8; 20, factor 16)",
)
RANKS = Tolerance(0.85, "rank correlation, seen to be reached at tier full before it was asked for; ours")
SAME_RANKS = Tolerance(0.95, "rank correlation on paper, where nothing but the formula's own order counts; ours")
SIGNS = Tolerance(0.98, "share of polar tokens with the right sign, seen before it was asked for; ours")
EXCESS = Tolerance(0.98, "share of frequent tokens with a gap beyond frequencies; set after 249 of 250 were seen")
