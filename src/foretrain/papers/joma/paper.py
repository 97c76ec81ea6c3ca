"""JoMA: title, citation, letters, and the story in short."""

from foretrain.papers import Paper, Story, Symbol

PAPER = Paper(
    name="joma",
    short="JoMA",
    position=2,
    title="JoMA: Demystifying Multilayer Transformers via JOint Dynamics of MLP and Attention",
    citation="Yuandong Tian, Yiping Wang, Zhenyu Zhang, Beidi Chen, Simon Du. 2023.",
    story=Story(
        says="While an MLP and the attention below it train together, a combination of their weights does not change. "
        "So attention follows from the MLP. It should first become sparse (salient tokens grow fastest) and then dense "
        "again (the others catch up), and in data with a latent hierarchy tokens with a close ancestor come first.",
        holds="The invariants for linear and exp attention are exact. For softmax attention the estimate has the right "
        "direction. Salient tokens are learned first, in the equations and in training, and one node can answer to "
        "several patterns.",
        wrong="Theorem 2 is off by √2, Lemmas 1 and 2 take the wrong argument, Theorem 4 asks for too little, Theorem "
        "5 has P where 2P − 1 belongs, and the multi-layer theorem needs angles that sum to less than 90°.",
        training="Attention becomes dense again only if the loss has targets that can be reached, with a linear "
        "activation as well as with ReLU. Under the fixed gradient that the paper assumes it collapses to one token. "
        "Gaussian inputs have none of the critical points of Theorem 3.",
        picture="joma/sparse_then_dense",
    ),
    symbols=(
        Symbol("M_C", "contexts", "", "number of context tokens"),
        Symbol("K", "nodes", "", "number of hidden nodes of the MLP's lower layer"),
        Symbol("x", "frequencies", "[sample, context]", "how often each context token occurs in a sample"),
        Symbol("q, m", "query", "[sample]", "query token"),
        Symbol("z_m", "z", "[query, context]", "attention logits of a query"),
        Symbol("b", "attention", "[sample, context]", "attention scores σ(z)∘x/A"),
        Symbol("b̄_m", "mean_attention", "[context]", "mean of b over samples with query m"),
        Symbol("w_k", "W", "[node, dimension]", "lower weights of the MLP"),
        Symbol("v_k", "v", "[node, context]", "lower weights seen by the tokens, U_Cᵀw_k"),
        Symbol("φ, ψ", "derivative", "", "activation, and its derivative ψ = φ′; (c₋, c₊) if φ is homogeneous"),
        Symbol("g_{h_k}", "signal", "[sample, node]", "gradient that comes back to a hidden node"),
        Symbol("Δ_m", "delta", "[context]", "E[g·h′·x], what drives v"),
        Symbol("ξ", "bias", "", "implicit bias, the part of w along the query's embedding"),
        Symbol("p_n", "RadialDensity.marginal", "", "density of one coordinate of an isotropic distribution"),
        Symbol("r, ρ", "r", "", "signed distance of a mean to the hyperplane (v, ξ)"),
        Symbol("θ1, θ2", "theta1, theta2", "", "E[ψ] and the part of E[xψ] along v, as functions of r"),
        Symbol("F, G", "stationary_function, critical_function", "", "F = θ2 + rθ1 and G(y) = F(θ1⁻¹(y))"),
        Symbol("a_j", "weights", "[component]", "E[g|j]·P[j] of a mixture component"),
        Symbol("μ", "mu, targets", "[context]", "critical point of v: what it converges to"),
        Symbol("β1, β2", "linear_coefficients", "", "coefficients of the linear dynamics near μ"),
        Symbol("δ_j", "delta", "", "share 1 − v_j/μ_j of the way that is left (Theorem 4)"),
        Symbol("λ, Λ", "lambda, Lambda", "", "deviation of the ratio of speeds from its limit"),
        Symbol("ρ_{β|α}", "rho", "[node]", "how strongly a node of the latent tree follows its parent, −1 to 1"),
        Symbol("L, H", "depth, ancestor_depth", "", "layers of the tree; layer of the common latent ancestor"),
        Symbol("ρ0", "2·p_zero − 1", "", "lean of the root's children, from P[y = 0]"),
        Symbol("C, N_s, N_ch", "classes, latents, children", "", "classes, latents per layer, members per latent"),
        Symbol("z_α, z_β", "alpha, beta", "", "latents of the multi-layer analysis"),
        Symbol("f_k, g_{j→k}", "values, gradients", "", "value of a graph node; gradient sent from j to k"),
    ),
)
