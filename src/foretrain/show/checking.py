"""Check claims from Python, as `foretrain check` does, with the verdicts as a table."""

from __future__ import annotations

import pandas as pd

from foretrain.core.errors import require_known
from foretrain.ledger.judge import judge
from foretrain.ledger.margins import margin_words
from foretrain.ledger.tiers import TIERS
from foretrain.show.finding import find_claims


def check(*queries: str, tier: str = "fast") -> pd.DataFrame:
    """Verdicts of the claims that match any of the queries: an id, "Theorem 4", a glob or words; without one, all.

    One row per claim: verdict, reason, margin, whether it came out as expected, and the control's verdict.
    """
    require_known("tier", tier, TIERS)
    rows = []
    for claim in find_claims(queries).values():
        verdict = judge(claim, tier)
        rows.append(
            {
                "claim": claim.id,
                "source": claim.source,
                "verdict": verdict.status,
                "reason": verdict.reason,
                "margin": margin_words(verdict.margin),
                "as expected": verdict.as_expected,
                "control": verdict.control_status,
                "whose": claim.whose,
            }
        )
    return pd.DataFrame(rows).set_index("claim")
