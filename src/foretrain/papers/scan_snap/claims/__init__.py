"""The claims of Scan and Snap: each module here has a list CLAIMS."""

# In the order of the paper. A module is loaded when one of its claims is asked for.
MODULES = (
    "gradients",
    "decoder",
    "stages",
    "classes",
    "weak_correlation",
    "theorem1",
    "remarks_in_training",
    "attention",
    "finite_data",
    "growth",
    "transition",
    "growth_in_training",
    "late_times",
    "curves",
    "prediction_map",
    "single_samples",
    "extensions",
    "parameterization",
    "training",
    "real_text",
    "standard_transformer",
    "wikitext",
)
