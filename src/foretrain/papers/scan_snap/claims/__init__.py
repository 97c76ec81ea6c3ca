"""Every claim of Scan and Snap, in the order of the paper."""

from foretrain.papers.scan_snap.claims import classes, decoder, gradients, stages, theorem1, weak_correlation

CLAIMS = (
    *gradients.CLAIMS,
    *decoder.CLAIMS,
    *stages.CLAIMS,
    *classes.CLAIMS,
    *weak_correlation.CLAIMS,
    *theorem1.CLAIMS,
)
