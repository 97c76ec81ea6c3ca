"""The experiments of JoMA, one function per figure or table: each module in MODULES has a list EXPERIMENTS."""

# In the order of the paper. They are loaded when one of their claims or experiments is asked for.
MODULES = (
    "theory",
    "layer",
    "rank",
    "order",
    "table1",
)
