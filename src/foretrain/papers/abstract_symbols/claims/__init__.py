"""The claims of Abstract symbols: each module in MODULES has a list CLAIMS."""

# In the order of the paper. They are loaded when one of their claims or experiments is asked for.
MODULES = (
    "tasks",
    "task_slips",
    "kernel",
    "derivatives",
    "nonsingular",
    "conditioning",
    "generalisation",
    "diversity",
    "growing_ridge",
    "idealised",
    "events",
    "blocks",
    "stages",
    "analytic",
    "series_types",
    "mlp",
    "copying",
    "skip",
    "architectures",
    "published",
    "data_need",
    "hyperparameters",
    "difficulty",
    "forecast",
)
