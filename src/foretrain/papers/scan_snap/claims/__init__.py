"""Every claim of Scan and Snap, in the order of the paper."""

from foretrain.papers.scan_snap.claims import decoder

CLAIMS = (*decoder.CLAIMS,)
