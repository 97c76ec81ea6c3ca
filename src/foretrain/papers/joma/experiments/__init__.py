"""The experiments of JoMA, one function per figure or table: each module in MODULES has a list EXPERIMENTS."""

# In the order of the paper. A module is loaded when one of its experiments is asked for.
MODULES = ("theory", "layer", "rank", "student", "order", "table1", "wikitext", "checkpoint_series", "superposition")
