"""Will the forecast hold? A criterion that costs nothing: how far the very first step moves the outputs.

A network is close to its linearisation only while it stays near its start. The limit comes from trials on one model, a
small sentence encoder; it has not been validated on others yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretrain.forecast.finetuning.dynamics import FinetuneSetting
    from foretrain.forecast.finetuning.prepared import Prepared

LARGEST_FIRST_STEP = 0.9  # root mean square change of the test logits


@dataclass(frozen=True)
class Trust:
    """Whether to believe a forecast, and why."""

    holds: bool
    first_step: float
    reason: str


def trust_in(prepared: Prepared, setting: FinetuneSetting) -> Trust:
    """The verdict for a setting."""
    first = prepared.first_step(setting)
    holds = first <= LARGEST_FIRST_STEP
    compared = "within" if holds else "above"
    reason = (
        f"the first step moves the logits by {first:.2f}, {compared} the limit of {LARGEST_FIRST_STEP:g} up to which "
        "forecasts held in trials on one small encoder."
    )
    return Trust(holds, first, reason)
