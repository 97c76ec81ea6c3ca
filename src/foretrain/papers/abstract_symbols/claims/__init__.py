"""The claims of Abstract symbols: each module in MODULES has a list CLAIMS."""

# In the order of the paper. They are loaded when one of their claims or experiments is asked for.
MODULES = (
    "tasks",
    "kernel",
    "nonsingular",
    "generalisation",
    "growing_ridge",
    "idealised",
    "blocks",
    "stages",
    "analytic",
    "mlp",
    "copying",
    "architectures",
    "published",
    "data_need",
    "hyperparameters",
    "difficulty",
    "forecast",
)
