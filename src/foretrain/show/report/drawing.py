"""Draws all figures of a report, small enough for one page."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from foretrain.ledger.claim import Claim
from foretrain.ledger.verdict import Verdict
from foretrain.show.report.card import Figures
from foretrain.show.report.claim_figures import claim_figures
from foretrain.show.report.compact import POINTS, compact

BUDGET = 9_000_000  # bytes for all figures; with 5 MB for Plotly itself, the page stays below 15 MB


def draw_all(judged: Sequence[tuple[Claim, Verdict]]) -> dict[str, Figures]:
    """The figures of every claim, with fewer points each if they would be too large together."""
    for points in (POINTS, POINTS // 3, POINTS // 10):
        drawn = {claim.id: draw(claim, verdict, points) for claim, verdict in judged}
        if sum(len(figure) for claim_drawn in drawn.values() for figure in claim_drawn.figures) <= BUDGET:
            break
    return drawn


def draw(claim: Claim, verdict: Verdict, points: int = POINTS) -> Figures:
    if verdict.prediction is None or verdict.observation is None:
        return Figures(problem="There is no figure, because no trajectories were saved with this verdict.")
    try:
        if claim.figure is not None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Judged from")  # the verdict has it as a note
                figure = claim.figure(verdict.prediction, verdict.observation)
            return Figures([compact(figure, points)], wide=True)
        figures = claim_figures(verdict.prediction, verdict.observation, claim.compare, claim.quantities)
        return Figures([compact(figure, points) for figure in figures])
    except Exception as error:  # one failing figure must not prevent the report
        return Figures(problem=f"The figure could not be drawn ({type(error).__name__}: {error}).")
