"""What the variables and axes of feature extraction's claims are called."""

from foretrain.ledger.quantities import BASE, Quantity

QUANTITIES = BASE.extended(
    # Axes
    Quantity("width", role="axis"),
    Quantity("layers", "the number of layers", "layers", role="axis"),
    Quantity("context", "tokens of context", role="axis"),
    Quantity("token", "frequent token, by rank", role="index"),
    Quantity("normed", "networks", role="axis"),
    Quantity("varied", "varied", "varied:", role="axis"),
    Quantity("point", "network", role="index"),
    *(
        Quantity(name, "network", role="axis")
        for name in (
            "network", "shifted", "additive_network", "multiplying_network", "other_network", "any_network",
            "with_relu_mlp", "without", "fading", "growing",
        )
    ),
    Quantity("readout", "readout weights of", role="axis"),
    Quantity("of", symbol="the", role="axis"),
    # Kernels and the scores that they imply
    Quantity("kernel", "the tangent kernel"),
    Quantity("mean_kernel", "the mean kernel of many networks"),
    Quantity("score", "the score", unit="logits"),
    Quantity("output", "every output under squared loss"),
    Quantity("correlation", "the correlation with the prediction"),
    Quantity("mean", "the correlation of learned and predicted scores"),
    Quantity("widest", "the correlation at the largest width"),
    Quantity("movement", "the relative movement of the kernel"),
    Quantity("power", "the power of width in the kernel's movement"),
    # The first step
    Quantity("slope", "the slope over ω"),
    Quantity("intercept", "the shift of all scores"),
    Quantity("tanh_intercept", "the shift with tanh over that with ReLU"),
    Quantity("lines", "the fitted line"),
    Quantity("ratio", "β/ρ"),
    Quantity("tanh_ratio", "β/ρ with tanh"),
    Quantity("small_gelu", "β/ρ with GeLU at σ = .1"),
    Quantity("printed", "β/ρ with ReLU"),
    Quantity("closed_form", "β/ρ with ReLU in closed form"),
    Quantity("printed_small", "β/ρ with GeLU at σ = .1"),
    # Depth
    Quantity("bias", "the bias β/ρ"),
    Quantity("bigram", "the share of bigrams in the kernel"),
    Quantity("share", "the share β/(β + ρ) of the bias"),
    Quantity("smallest", "the smallest bias β/ρ over seeds"),
    # Training
    Quantity("spearman", "the rank correlation of score and ω"),
    Quantity("sign", "the share of polar tokens with the right sign"),
    Quantity("accuracy", "the test accuracy"),
    Quantity("z", "the shift of the scores", unit="standard errors"),
    Quantity("biased", "the shift with ReLU", unit="standard errors"),
    Quantity("other", "the shift without ReLU", unit="standard errors"),
    Quantity("with_relu", "the shift with ReLU", unit="standard errors"),
    Quantity("without_relu", "the shift without ReLU", unit="standard errors"),
    Quantity("shift", "the shift of tokens never seen", unit="logits"),
    Quantity("left", "the shift after six epochs over that after one"),
    Quantity("grown", "the largest shift with attention over that after one epoch"),
    # Language models
    Quantity("pearson", "the correlation with the formula"),
    Quantity("excess_pearson", "the correlation beyond frequencies"),
    Quantity("excess_slope", "the slope beyond frequencies"),
    Quantity("mean_slope", "the slope over the excess"),
    Quantity("excess_distance", "what the step does elsewhere"),
    Quantity("pair_spearman", "the rank correlation of score and N(e,k)"),
    Quantity("spearman_formula", "the rank correlation with the formula"),
    Quantity("excess_spearman", "the rank correlation of the excess"),
    Quantity("gap", "the gap between top and bottom targets", unit="logits"),
    Quantity("excess_gap", "the gap beyond frequencies", unit="logits"),
    Quantity("excess_share", "the share of tokens with a gap beyond frequencies"),
    # Negation
    Quantity("additive", "the test accuracy of an additive network"),
    Quantity("multiplying", "the test accuracy of a multiplying network"),
    Quantity("best", "the accuracy of the best network"),
    Quantity("captured", "the negation captured", unit="logits"),
    Quantity("elsewhere", "the negation captured in other networks", unit="logits"),
    Quantity("gain", "what NOT adds to a score", unit="logits"),
)  # fmt: skip
