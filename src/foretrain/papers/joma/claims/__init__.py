"""The claims of JoMA: each module here has a list CLAIMS."""

# In the order of the paper. A module is loaded when one of its claims is asked for.
MODULES = (
    "invariants",
    "training",
    "rank",
    "winner",
    "isotropic",
    "critical",
    "convergence",
    "hierarchy",
    "order",
    "table1",
    "cdag",
)
