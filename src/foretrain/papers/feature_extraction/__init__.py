"""Feature extraction: what text classifiers rely on, seen through their tangent kernels."""

from foretrain.papers import Paper, Symbol

PAPER = Paper(
    name="feature_extraction",
    short="Feature extraction",
    title="Unraveling Feature Extraction Mechanisms in Neural Networks",
    citation="Xiaobing Sun, Jiaxi Li, Wei Lu. EMNLP 2023. The mathematics here was derived anew from its summary.",
    symbols=(
        Symbol("n_i(e)", "counts", "[text, vocab]", "how often token e occurs in text i"),
        Symbol("T_i", "length", "[text]", "length of text i"),
        Symbol("y_i", "labels", "[text]", "label of text i, +1 or −1"),
        Symbol("ω(e)", "cooccurrence", "[vocab]", "Σ_i y_i n_i(e): how much oftener e occurs with +1 than with −1"),
        Symbol("s(e)", "label score", "[vocab]", "the network's output on token e alone"),
        Symbol("Θ", "kernel", "", "tangent kernel; ρ its part between equal tokens, β its part between all"),
        Symbol("ρ", "own", "", "how much a token moves its own score"),
        Symbol("β", "shared", "", "how much every token moves every score: the bias"),
        Symbol("σ_e, σ_w, σ_v, σ_m", "Scales", "", "standard deviations of the initial weights"),
        Symbol("d", "width", "", "width of the network"),
    ),
)
