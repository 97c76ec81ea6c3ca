"""The experiments of Feature extraction, one function per figure: each module in MODULES has a list EXPERIMENTS."""

# In the order of the paper. They are loaded when one of their claims or experiments is asked for.
MODULES = ("label_scores", "lazy", "bias", "movement", "depth")
