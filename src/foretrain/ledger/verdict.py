"""A verdict: how a claim came out, and whether that is what we expected."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from foretrain.ledger.claim import Expected, Status


@dataclass(frozen=True)
class AssumptionCheck:
    """An assumption of a claim, evaluated in its setting."""

    says: str
    met: bool
    measured: str
    needed: bool


@dataclass(frozen=True)
class Verdict:
    """How a claim came out: its status and margin, how its control came out, and the two trajectories compared."""

    claim: str
    status: Status
    expected: Expected | None
    margin: float  # how many times inside what is allowed: 1 is the edge, below 1 is outside
    reason: str
    seconds: float
    control_status: Status | None = None
    control_reason: str = ""
    assumptions: tuple[AssumptionCheck, ...] = ()
    notes: tuple[str, ...] = ()  # warnings given on the way
    prediction: xr.Dataset | None = field(default=None, repr=False, compare=False)
    observation: xr.Dataset | None = field(default=None, repr=False, compare=False)

    @property
    def judged(self) -> bool:
        """Whether prediction and measurement were compared at all."""
        return self.status not in ("skipped", "stopped")

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the expected one and the control flipped it."""
        if self.expected is None:
            return self.judged
        return self.status == self.expected and self.control_status == flipped(self.expected)

    def _repr_html_(self) -> str:
        from foretrain.ledger.display import verdict_html

        return verdict_html(self)

    def summary(self) -> dict[str, Any]:
        """What `foretrain check --json` writes for this claim."""
        names = ("status", "expected", "margin", "reason", "seconds", "control_status")
        return {"id": self.claim, **{name: getattr(self, name) for name in names}}


def flipped(status: Status) -> Status:
    """What a control must come out as if the claim comes out as `status`."""
    opposite: dict[Status, Status] = {"holds": "fails", "fails": "holds"}
    return opposite.get(status, "inconclusive")


def tally(verdicts: Collection[Verdict]) -> str:
    """How many verdicts are as expected, how many were skipped, and how many have no expectation."""
    bound = [verdict for verdict in verdicts if verdict.expected is not None or not verdict.judged]
    open_ended = len(verdicts) - len(bound)
    measured = f", {open_ended} without an expected verdict at this tier" if open_ended else ""
    missed = sum(verdict.status == "skipped" for verdict in verdicts)
    skipped = f", {missed} skipped because their data is missing" if missed else ""
    return f"{sum(verdict.as_expected for verdict in bound)} of {len(bound)} verdicts as expected{skipped}{measured}"
