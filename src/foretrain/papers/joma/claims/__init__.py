"""Every claim of JoMA, in the order of the paper."""

from foretrain.claim import Claim
from foretrain.papers.joma.claims import cdag, convergence, critical, hierarchy, invariants, isotropic, winner

CLAIMS: tuple[Claim, ...] = (
    *invariants.CLAIMS,
    *winner.CLAIMS,
    *isotropic.CLAIMS,
    *critical.CLAIMS,
    *convergence.CLAIMS,
    *hierarchy.CLAIMS,
    *cdag.CLAIMS,
)
