"""Every claim of this paper: each module here has a list CLAIMS."""

from foretrain.papers.feature_extraction.claims import kernels, training

CLAIMS = (*kernels.CLAIMS, *training.CLAIMS)
