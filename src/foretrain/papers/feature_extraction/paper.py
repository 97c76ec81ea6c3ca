"""Feature extraction: title, citation, letters, and the story in short."""

from foretrain.papers import Paper, Story, Symbol

PAPER = Paper(
    name="feature_extraction",
    short="Feature extraction",
    position=4,
    title="Unraveling Feature Extraction Mechanisms in Neural Networks",
    citation="Xiaobing Sun, Jiaxi Li, Wei Lu. EMNLP 2023. The mathematics here was derived anew from its summary.",
    story=Story(
        says="A wide text classifier moves the score of a token by its tangent kernel. So every architecture first "
        "learns how often a token occurs with each label. ReLU also shifts all tokens, even those never seen; other "
        "activations and self-attention do not. Networks that multiply neighbours capture negation.",
        holds="All twelve kernels, the first step of training, and what follows from them on SST-2, IMDB and AG News: "
        "scores follow co-occurrence, ReLU shifts all tokens, and only the matrix-vector network turns 'not bad' "
        "positive.",
        wrong="Nothing that we could find. We hold only a summary of this paper, and derived the mathematics anew.",
        training="The theory assumes that the kernel does not move, but in ordinary training it grows up to 28 "
        "000-fold, and scores follow co-occurrence all the same. The shift of ReLU fades without attention and grows "
        "with it. Depth adds to it, and LayerNorm does not take it away.",
        picture="feature_extraction/relu_bias_fades",
    ),
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
