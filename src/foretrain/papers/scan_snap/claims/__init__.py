"""The claims of Scan and Snap: each module here has a list CLAIMS."""

# In the order of the paper. A module is loaded when one of its claims is asked for.
MODULES = (
    "gradients",
    "decoder",
    "stages",
    "classes",
    "weak_correlation",
    "theorem1",
    "attention",
    "growth",
    "transition",
    "late_times",
    "curves",
    "extensions",
    "training",
)
