"""The experiments of Abstract symbols, one function per figure: each module in MODULES has a list EXPERIMENTS."""

# In the order of the paper. They are loaded when one of their claims or experiments is asked for.
MODULES = (
    "tasks",
    "kernel",
    "last_layer",
    "unseen",
    "skip",
    "architectures",
    "hyperparameters",
    "difficulty",
    "data_need",
    "language",
)
