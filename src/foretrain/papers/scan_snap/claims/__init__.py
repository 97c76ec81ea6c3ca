"""Every claim of Scan and Snap, in the order of the paper."""

from foretrain.papers.scan_snap.claims import (
    attention,
    classes,
    curves,
    decoder,
    extensions,
    gradients,
    growth,
    late_times,
    stages,
    theorem1,
    training,
    transition,
    weak_correlation,
)

CLAIMS = (
    *gradients.CLAIMS,
    *decoder.CLAIMS,
    *stages.CLAIMS,
    *classes.CLAIMS,
    *weak_correlation.CLAIMS,
    *theorem1.CLAIMS,
    *attention.CLAIMS,
    *growth.CLAIMS,
    *transition.CLAIMS,
    *late_times.CLAIMS,
    *curves.CLAIMS,
    *extensions.CLAIMS,
    *training.CLAIMS,
)
