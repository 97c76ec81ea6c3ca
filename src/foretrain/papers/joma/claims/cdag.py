"""Multi-layer analysis: the back-propagated gradient of a node and the latents (Theorem 1 of that section)."""

from __future__ import annotations

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Assumption, Claim, Control, erratum_pair
from foretrain.ledger.comparators import bounded
from foretrain.ledger.tolerances import ALGEBRA
from foretrain.papers.joma import theory
from foretrain.papers.joma.experiments.cdag import EDGE, graph_correlations, premise_met


def _correlations(graphs: int, samples: int, rho: float, unrelated: bool = False) -> xr.Dataset:
    return graph_correlations(graphs=graphs, samples=samples, rho=rho, unrelated=unrelated).isel(step=0, drop=True)


def _at_edges(correlations: xr.Dataset, values: xr.DataArray) -> tuple[str, np.ndarray]:
    """The values at edges that exist and whose nodes are not silent: a signal of 0 has no correlation."""
    exists = correlations["C4"].notnull().transpose(*EDGE).values
    return "triple", values.transpose(*EDGE).values[exists]


def _as_printed(graphs: int, samples: int, rho: float, threshold: float) -> xr.Dataset:
    """C4 > 0 if the three conditions are met, and no statement otherwise."""
    correlations = _correlations(graphs, samples, rho)
    low = xr.where(premise_met(correlations, threshold), 0.0, -1.0)
    return trajectory({"C4_low": _at_edges(correlations, low)})


def _by_angles(graphs: int, samples: int, rho: float) -> xr.Dataset:
    """The least C4 that C1, C2 and C3 allow, for the best α."""
    correlations = _correlations(graphs, samples, rho)
    c1, c2, c3 = correlations["C1"], correlations["C2"], abs(correlations["C3"]).clip(0, 1)
    bound = xr.apply_ufunc(theory.gradient_correlation_bound, c1, c2, c3, keep_attrs=False)
    return trajectory({"C4_low": _at_edges(correlations, bound.max("alpha"))})


def _measured(graphs: int, samples: int, rho: float, unrelated: bool = False) -> xr.Dataset:
    correlations = _correlations(graphs, samples, rho, unrelated)
    return trajectory({"C4": _at_edges(correlations, correlations["C4"])})


def _premise_occurs(graphs: int, samples: int, rho: float, threshold: float) -> tuple[bool, str]:
    correlations = _correlations(graphs, samples, rho)
    met = premise_met(correlations, threshold)
    count = int(met.sum())
    negative = int((met & (correlations["C4"] < 0)).sum())
    return (
        count > 0,
        f"C1, C2 and |C3| exceed {threshold} in {count} triples (j, k, β), and C4 is negative in {negative}",
    )


cdag = erratum_pair(
    printed=_as_printed,
    corrected=_by_angles,
    id="joma/cdag",
    prints="If σ′_jg_j correlates with z_α, f_k with z_β and z_α with z_β (C1, C2, C3 > 0), the gradient that "
    "node k receives from j correlates with z_β: C4 > 0.",
    source="Multi-layer analysis, Theorem 1",
    says="If σ′_jg_j correlates with z_α, f_k with z_β and z_α with z_β, the gradient that node k receives from j "
    "correlates with z_β: with A, B, C the angles of the three correlations, C4 ≥ cos(A + C)·cos(A + B + C) > 0 as "
    "long as A + B + C < 90°.",
    observe=_measured,
    compare=bounded("C4", low="C4_low", slack=ALGEBRA),
    settings={
        "fast": {"graphs": 40, "samples": 256, "rho": 0.8, "threshold": 0.1},
        "full": {"graphs": 200, "samples": 1024, "rho": 0.8, "threshold": 0.1},
    },
    control=Control("z_β has nothing to do with z_α or f_k: it comes from other samples", {"unrelated": True}),
    assumes=(Assumption("the three conditions are met somewhere", _premise_occurs),),
    erratum="Positive C1, C2 and C3 do not make C4 positive; the proof reads it off a drawing. Of the triples with all "
    "three above .1 in untrained random graphs 18 % have a negative C4, of those above .5 2 % (40 graphs, 256 samples; "
    "15 and 1 % with 200 graphs and 1024 samples); after 100 steps of training it is 41 and 38 % (40 graphs). "
    "What holds is C4 ≥ cos(A + C)·cos(A + B + C) up to A + B + C = 90°, and a plane reaches it: "
    "equal correlations must exceed cos 30° = .866.",
)

CLAIMS: list[Claim] = [*cdag]
