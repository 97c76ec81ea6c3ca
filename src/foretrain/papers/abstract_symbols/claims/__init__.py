"""Every claim of this paper, in the order of the paper: each module here has a list CLAIMS."""

from foretrain.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
