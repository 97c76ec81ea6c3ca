"""The experiments of Scan and Snap, one function per figure: each module in MODULES has a list EXPERIMENTS."""

# In the order of the paper. A module is loaded when one of its experiments is asked for.
MODULES = ("curves", "training", "training_map", "sampling_map", "real_text", "standard_transformer", "wikitext")
