"""Abstract symbols: title, citation, letters, and the story in short."""

from foretrain.papers import Paper, Story, Symbol

PAPER = Paper(
    name="abstract_symbols",
    short="Abstract symbols",
    position=3,
    title="When can transformers reason with abstract symbols?",
    citation="Enric Boix-Adserà, Omid Saremi, Emmanuel Abbe, Samy Bengio, Etai Littwin, Joshua Susskind. 2023.",
    story=Story(
        says="A network is trained on strings over some symbols and asked about strings over others. MLPs fail. "
        "Transformers succeed given enough data, because their kernel tells templates apart. Two trained numbers per "
        "head, a·I in the attention logits and b·I in the output, make the data needed much smaller.",
        holds="The kernel is the limit of random transformers, its template matrix is nonsingular on every task we "
        "tried, and regression with it generalises to unseen symbols. Trained MLPs cannot. b·I makes attention copy "
        "unseen symbols, and a·I lowers the data needed up to twelve times.",
        wrong="The proof of the main theorem: its ridge grows with n, which shrinks the estimator for ever, and with "
        "that corrected the printed chain gives ρ^(−1/4) instead of √(1/ρ). The theorem is seen, but not proved.",
        training="The error of regression falls as 1/ρ, faster than the theorem says. The loss on an unseen token does "
        "not stand still, it rises. In the one-layer network of the analysis a·I hardly changes what the kernel "
        "sees; that takes two layers. A forecast from the kernel ranks tasks a little better than templates × length.",
        picture="abstract_symbols/fig22",
    ),
    symbols=(
        Symbol("𝒳, 𝒲", "tokens, wildcards", "", "alphabets of regular tokens and of placeholders"),
        Symbol("z", "template", "[position]", "a string over tokens and wildcards"),
        Symbol("s, sub(z, s)", "substitution", "[sample, wildcard]", "injective map of wildcards to tokens"),
        Symbol("k", "length", "", "positions of a string"),
        Symbol("r", "templates", "", "number of templates of a task"),
        Symbol("μ_tmplt", "weights", "[template]", "how often each template is drawn"),
        Symbol("f*", "labels, targets", "[template]", "label of each template"),
        Symbol("σ", "noise", "", "standard deviation of label noise"),
        Symbol("ρ", "diversity", "", "1 over the chance of the likeliest token"),
        Symbol("ℛ", "vocabulary", "", "regular tokens that occur in templates"),
        Symbol("n", "samples", "", "number of training samples"),
        Symbol("ℐ_j", "template == j", "[sample]", "samples that come from template j"),
        Symbol("β, γ", "beta, gamma", "", "inverse temperature of the softmax; size of positions"),
        Symbol("φ, b1, b2", "activation, Cosine(b1, b2)", "", "activation of the MLP layer"),
        Symbol("K_attn", "attention_kernel", "[x, y]", "kernel of infinitely many attention heads"),
        Symbol("K_trans", "transformer_kernel", "[x, y]", "kernel of attention and an MLP layer"),
        Symbol("K̂", "gram", "[sample, sample]", "kernel matrix of the training samples"),
        Symbol("N", "template_matrix", "[template, template]", "kernel between strings without a common token"),
        Symbol("λ", "ridge", "", "ridge of kernel regression (weight decay)"),
        Symbol("f̂, f̂_ideal", "ridge_predictions, ideal_predictions", "", "kernel regression; with N for K̂"),
        Symbol("τ", "threshold", "", "least number of samples of a template over ‖N⁻¹‖"),
        Symbol("a·I, b·I", "identity scaling", "[head]", "multiples of I added to W_K·W_Qᵀ and to W_V·W_Oᵀ"),
    ),
)
