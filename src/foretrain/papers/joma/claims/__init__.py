"""The claims of JoMA: each module here has a list CLAIMS."""

# In the order of the paper. They are loaded when one of their claims or experiments is asked for.
MODULES = (
    "invariants",
    "training",
    "winner",
    "isotropic",
    "critical",
    "convergence",
    "hierarchy",
    "order",
    "table1",
    "cdag",
)
