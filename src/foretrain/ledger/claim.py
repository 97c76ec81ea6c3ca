"""A claim: what a paper says, as something a program can check and that can come out false.

`predict(setting)` and `observe(setting)` give two trajectories, and `compare` says how far apart they are. A control
changes the setting so that the verdict must flip: a claim whose control does not flip it says nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
CORRECTED = "_corrected"  # what the id of the corrected half of a misprint ends with
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
class Erratum:
    """A misprint. Its claim states what is right; `changes` to the setting put what is printed in its place.

    The claim then stands for two, see `Claim.halves`. Without `changes` it is itself the printed one, which fails, and
    what is right is another claim that `corrects` it, if anything is.
    """

    says: str  # what is printed and what is right, with numbers
    formulas: tuple[str, str]  # the printed and the corrected one, in LaTeX
    consequence: str  # what the error changes for a reader of the paper, in a sentence
    changes: Mapping[str, Any] = field(default_factory=dict)  # of arguments that have a default, which is what is right
    prints: str = ""  # the printed statement, if its wording differs, too
    headline: bool = False  # among the first in the table of errata


@dataclass(frozen=True)
class Claim:
    """What a paper says, how it is measured and compared, in which settings, and the control that flips it."""

    id: str
    source: str  # where the paper says it: "Lemma 6, eq. 45"
    says: str  # the statement, in one or two sentences
    observe: Callable[..., xr.Dataset]
    compare: Comparator
    settings: Settings  # by tier; a missing tier takes the next smaller one
    control: Control
    predict: Callable[..., xr.Dataset] | None = None  # None: what is compared is a bound, an order or a sign
    expect: Expected | None = "holds"  # None: a measurement with no expected verdict
    expect_from: Tier = "fast"  # the first tier large enough to show it; at smaller ones it is a measurement
    assumes: tuple[Assumption, ...] = ()
    whose: Whose | None = None  # None: not sorted yet
    erratum: Erratum | None = None  # never for an expectation of our own
    corrects: str | None = None  # the id of the printed claim that this one replaces
    finding: str | None = None  # what we found that is not an error of the paper: a limit, a reading, a surprise
    figure: Callable[[xr.Dataset, xr.Dataset], Any] | None = None  # default: drawn from the two datasets
    module: str = ""  # where it is written; filled in when its paper is loaded, as are its quantities
    quantities: Quantities = field(default=BASE, repr=False)  # what its variables and axes are called

    def __post_init__(self) -> None:
        require_known("tier", self.expect_from, TIERS)
        if self.whose == "our own expectation" and (self.erratum or self.corrects):
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

    def halves(self) -> tuple[Claim, ...]:
        """The claims that are judged: itself, or for a misprint `ID` as printed and `ID_corrected`.

        The control of the printed half is the corrected formula, which shows that its comparator can say "holds".
        """
        if self.erratum is None or not self.erratum.changes or self.corrects:
            return (self,)
        changes = self.erratum.changes
        undone = {name: self._default(name) for name in changes}
        printed = replace(
            self,
            says=self.erratum.prints or self.says,
            settings={tier: {**setting, **changes} for tier, setting in self.settings.items()},
            expect="fails",
            control=Control("the corrected formula in place of the printed one", undone),
        )
        return printed, replace(self, id=f"{self.id}{CORRECTED}", corrects=self.id)

    def _default(self, argument: str) -> Any:
        """The default of an argument of the prediction or of the measurement."""
        for function in filter(None, (self.predict, self.observe)):
            parameter = inspect.signature(function).parameters.get(argument)
            if parameter is not None and parameter.default is not parameter.empty:
                return parameter.default
        raise ValueError(f"{self.id}: {argument}, which its erratum changes, needs a default: the corrected formula.")

    def prediction(self, setting: Mapping[str, Any]) -> xr.Dataset:
        """What is predicted in a setting; nothing, if the claim is about a bound, an order or a sign."""
        return trajectory({}) if self.predict is None else call_with(self.predict, setting)

    def _repr_html_(self) -> str:
        from foretrain.ledger.display import claim_html

        return claim_html(self)

    def code(self) -> tuple[str, int]:
        """File and line of the measurement."""
        function = unwrapped(self.observe)
        return inspect.getsourcefile(function) or "?", inspect.getsourcelines(function)[1]


def other_half(claim: Claim, claims: Mapping[str, Claim]) -> str | None:
    """The other half of an erratum: the id of a printed claim's correction, or of the claim that this one corrects."""
    if claim.corrects is not None:
        return claim.corrects
    return next((other.id for other in claims.values() if other.corrects == claim.id), None)
