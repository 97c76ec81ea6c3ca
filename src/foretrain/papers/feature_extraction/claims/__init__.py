"""Every claim of this paper: each module here has a list CLAIMS."""

from foretrain.papers.feature_extraction.claims import (
    classes,
    depth,
    kernels,
    lazy,
    negation,
    next_token,
    one_step,
    training,
)

CLAIMS = (
    *kernels.CLAIMS,
    *one_step.CLAIMS,
    *lazy.CLAIMS,
    *training.CLAIMS,
    *classes.CLAIMS,
    *negation.CLAIMS,
    *next_token.CLAIMS,
    *depth.CLAIMS,
)
