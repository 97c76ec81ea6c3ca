"""Tiers: how large a check or a run is. `SIZES` says what each of them takes.

Claims and experiments both keep their settings by tier and read them with `at_tier`, so both fall back the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from foretrain.core.errors import require_known

Tier = Literal["fast", "full", "paper"]
TIERS: tuple[Tier, ...] = ("fast", "full", "paper")
SIZES = "fast takes seconds per claim or experiment, full up to an hour, and paper has the paper's own sizes"
Settings = Mapping[str, Mapping[str, Any]]  # by tier


def at_tier(settings: Settings, tier: str) -> dict[str, Any]:
    """The settings of a tier; a tier that is not listed takes those of the next smaller one that is."""
    require_known("tier", tier, TIERS)
    for name in reversed(TIERS[: TIERS.index(tier) + 1]):
        if name in settings:
            return dict(settings[name])
    return {}


def reaches(tier: str, least: Tier) -> bool:
    """Whether `tier` is at least as large as `least`."""
    require_known("tier", tier, TIERS)
    return TIERS.index(tier) >= TIERS.index(least)
