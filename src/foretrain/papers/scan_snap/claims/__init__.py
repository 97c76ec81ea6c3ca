"""The claims of Scan and Snap: each module here has a list CLAIMS."""

# In the order of the paper. They are loaded when one of their claims or experiments is asked for.
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
