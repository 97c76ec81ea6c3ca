"""A claim: what a paper says, as something a program can check and that can come out false.

`predict(setting)` and `observe(setting)` give two trajectories, and `compare` says how far apart they are. A control
changes the setting so that the verdict must flip: a claim whose control does not flip it says nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import xarray as xr

from foretrain.core.calls import call_with
from foretrain.core.errors import require_known
from foretrain.core.provenance import unwrapped
from foretrain.core.trajectory import trajectory
from foretrain.ledger.margins import Expected as Expected
from foretrain.ledger.margins import Outcome as Outcome
from foretrain.ledger.quantities import BASE, Quantities
from foretrain.ledger.tiers import TIERS, Settings, Tier, at_tier, reaches
from foretrain.ledger.tolerances import Tolerance

# skipped: its data is not on this machine. stopped: predict, observe or compare raised an error.
Status = Literal["holds", "fails", "inconclusive", "skipped", "stopped"]
Whose = Literal["the paper's statement", "a step of the paper's proof", "our own expectation"]


@dataclass(frozen=True)
class Drawn:
    """A measured quantity and what it is compared with, for whoever draws the comparison.

    A bound is a tolerance, or the name of a predicted quantity, and so is what it is expected to equal.
    """

    measured: str
    predicted: str | None = None
    low: str | Tolerance | None = None
    high: str | Tolerance | None = None


@dataclass(frozen=True)
class Comparator:
    """Holds a prediction against a measurement, in the words of a table of quantities. `draws` is what it compares."""

    outcome: Callable[[xr.Dataset, xr.Dataset, Quantities], Outcome]
    draws: tuple[Drawn, ...]

    def __call__(self, prediction: xr.Dataset, observation: xr.Dataset, quantities: Quantities = BASE) -> Outcome:
        return self.outcome(prediction, observation, quantities)


@dataclass(frozen=True)
class Assumption:
    """A condition of the theorem that can be evaluated in a setting.

    `check` takes names of the setting and returns (met, what was measured). If a condition the claim cannot do without
    (`needed`) is not met, the verdict is inconclusive. Other conditions are only reported.
    """

    says: str
    check: Callable[..., tuple[bool, str]]
    needed: bool = True


@dataclass(frozen=True)
class Control:
    """The change of setting under which the verdict must flip, and why."""

    says: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """What a paper says, how it is measured and compared, in which settings, and the control that flips it."""

    id: str
    source: str  # where the paper says it: "Lemma 6, eq. 45"
    says: str  # the statement, in one or two sentences
    predict: Callable[..., xr.Dataset]
    observe: Callable[..., xr.Dataset]
    compare: Comparator
    settings: Settings  # by tier; a missing tier takes the next smaller one
    control: Control
    expect: Expected | None = "holds"  # None: a measurement with no expected verdict
    expect_from: Tier = "fast"  # the first tier large enough to show it; at smaller ones it is a measurement
    assumes: tuple[Assumption, ...] = ()
    whose: Whose | None = None  # None: not sorted yet
    erratum: str | None = None  # what is printed, what is right, with numbers; never for an expectation of our own
    formulas: tuple[str, str] | None = None  # the printed and the corrected formula of an erratum, in LaTeX
    consequence: str = ""  # what the error changes for a reader of the paper
    headline: bool = False  # among the first in the table of errata
    corrects: str | None = None  # the id of the printed claim that this one replaces
    finding: str | None = None  # what we found that is not an error of the paper: a limit, a reading, a surprise
    figure: Callable[[xr.Dataset, xr.Dataset], Any] | None = None  # default: drawn from the two datasets
    module: str = ""  # where it is written; filled in when its paper is loaded, as are its quantities
    quantities: Quantities = BASE  # what its variables and axes are called

    def __post_init__(self) -> None:
        require_known("tier", self.expect_from, TIERS)
        if self.whose == "our own expectation" and (self.erratum or self.corrects or self.formulas):
            raise ValueError(f"{self.id} is an expectation of our own, so the paper cannot have an erratum there.")

    @property
    def paper(self) -> str:
        """The name of its paper, such as "joma"."""
        return self.id.split("/", 1)[0]

    def setting(self, tier: str) -> dict[str, Any]:
        """The setting at a tier; a missing tier takes the next smaller one."""
        return at_tier(self.settings, tier)

    def expected_at(self, tier: str) -> Expected | None:
        """The expected verdict at a tier; None if it is only a measurement there."""
        return self.expect if reaches(tier, self.expect_from) else None

    def _repr_html_(self) -> str:
        from foretrain.ledger.display import claim_html

        return claim_html(self)

    def code(self) -> tuple[str, int]:
        """File and line of the measurement."""
        function = unwrapped(self.observe)
        return inspect.getsourcefile(function) or "?", inspect.getsourcelines(function)[1]


def no_number() -> xr.Dataset:
    """What a claim about an order or a sign predicts: no number."""
    return trajectory({})


def erratum_pair(
    *, printed: Callable[..., xr.Dataset], corrected: Callable[..., xr.Dataset], prints: str | None = None, **claim: Any
) -> list[Claim]:
    """Two claims from one: `ID` as printed, expected to fail, and `ID_corrected`, expected to hold.

    `says` is the corrected statement; `prints` is the printed one, if its wording differs too. The control of the
    printed claim uses the corrected formula instead, which shows that the comparator is able to say "holds".

    The report's table of errata shows `formulas` (printed and corrected, in LaTeX), `erratum` (what is wrong, with
    numbers) and `consequence` (what it changes for a reader, in one sentence); give all three.
    """

    def predict_printed(formula: str = "printed", **setting: Any) -> xr.Dataset:
        return call_with(printed if formula == "printed" else corrected, setting)

    as_printed = Claim(
        **{
            **claim,
            "says": prints or claim["says"],
            "predict": predict_printed,
            "expect": "fails",
            "control": Control("the corrected formula in place of the printed one", {"formula": "corrected"}),
        }
    )
    right = Claim(**{**claim, "id": f"{claim['id']}_corrected", "predict": corrected, "corrects": claim["id"]})
    return [as_printed, right]


def other_half(claim: Claim, claims: Mapping[str, Claim]) -> str | None:
    """The other half of an erratum: the id of a printed claim's correction, or of the claim that this one corrects."""
    if claim.corrects is not None:
        return claim.corrects
    return next((other.id for other in claims.values() if other.corrects == claim.id), None)
