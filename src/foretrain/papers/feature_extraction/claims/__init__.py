"""Every claim of this paper: each module here has a list CLAIMS."""

from foretrain.claim import Claim

CLAIMS: tuple[Claim, ...] = ()
