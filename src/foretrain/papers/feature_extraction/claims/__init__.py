"""Every claim of this paper: each module here has a list CLAIMS."""

from foretrain.papers.feature_extraction.claims import kernels, negation, one_step, training

CLAIMS = (*kernels.CLAIMS, *one_step.CLAIMS, *training.CLAIMS, *negation.CLAIMS)
