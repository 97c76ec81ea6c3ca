"""Every claim of JoMA, in the order of the paper."""

from foretrain.claim import Claim
from foretrain.papers.joma.claims import (
    cdag,
    convergence,
    critical,
    hierarchy,
    invariants,
    isotropic,
    order,
    table1,
    training,
    winner,
)

CLAIMS: tuple[Claim, ...] = (
    *invariants.CLAIMS,
    *training.CLAIMS,
    *winner.CLAIMS,
    *isotropic.CLAIMS,
    *critical.CLAIMS,
    *convergence.CLAIMS,
    *hierarchy.CLAIMS,
    *order.CLAIMS,
    *table1.CLAIMS,
    *cdag.CLAIMS,
)
