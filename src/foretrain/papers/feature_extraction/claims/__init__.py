"""The claims of Feature extraction: each module in MODULES has a list CLAIMS."""

# In the order of the paper. They are loaded when one of their claims or experiments is asked for.
MODULES = ("kernels", "one_step", "lazy", "training", "classes", "negation", "next_token", "depth")
