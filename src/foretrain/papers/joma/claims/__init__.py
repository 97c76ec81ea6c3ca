"""The claims of JoMA: each module here has a list CLAIMS."""

# In the order of the paper. A module is loaded when one of its claims is asked for.
MODULES = (
    "invariants",
    "training",
    "rank",
    "winner",
    "isotropic",
    "isotropic_limits",
    "critical",
    "critical_set",
    "convergence",
    "sparse_dense",
    "hierarchy",
    "order",
    "table1",
    "patterns",
    "embeddings",
    "cdag",
    "wikitext",
    "superposition",
)
