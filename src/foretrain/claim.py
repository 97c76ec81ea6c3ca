"""A claim: what a paper says, as something a program can check and that can come out false.

`predict(setting)` and `observe(setting)` give two trajectories; `compare` says how far apart they are.
A control changes the setting so that the verdict must turn over: a claim whose control does not turn it
over says nothing.
"""

from __future__ import annotations

import inspect
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import xarray as xr

from foretrain.errors import MissingData, require_known
from foretrain.trajectory import trajectory

Status = Literal["holds", "fails", "inconclusive"]
Tier = Literal["fast", "full", "paper"]
TIERS: tuple[Tier, ...] = ("fast", "full", "paper")


@dataclass(frozen=True)
class Outcome:
    """What a comparator says: the error in its own measure, what would be allowed, and a sentence."""

    status: Status
    error: float
    tolerance: float
    reason: str


Comparator = Callable[[xr.Dataset, xr.Dataset], Outcome]


@dataclass(frozen=True)
class Assumption:
    """A condition of the theorem that can be evaluated in a setting.

    `check` takes names of the setting and returns (met, what was measured). A condition that the claim
    cannot do without (`needed`) makes the verdict inconclusive when it is not met; others are reported.
    """

    says: str
    check: Callable[..., tuple[bool, str]]
    needed: bool = True


@dataclass(frozen=True)
class Control:
    """The change of setting under which the verdict must turn over, and why."""

    says: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """What a paper says, how it is measured and compared, in which settings, and the control that turns it over."""

    id: str
    source: str  # where the paper says it: "Lemma 6, eq. 45"
    says: str  # the statement, in one or two sentences
    predict: Callable[..., xr.Dataset]
    observe: Callable[..., xr.Dataset]
    compare: Comparator
    settings: Mapping[str, Mapping[str, Any]]  # by tier; a missing tier takes the one before it
    control: Control
    expect: Status | None = "holds"  # None: a measurement with no expected verdict
    expect_from: Tier = "fast"  # the first tier that is large enough to show it; below, a measurement
    assumes: tuple[Assumption, ...] = ()
    erratum: str | None = None  # what is printed, what is right, with numbers
    figure: Callable[[xr.Dataset, xr.Dataset], Any] | None = None  # default: drawn from the two datasets

    def __post_init__(self) -> None:
        require_known("tier", self.expect_from, TIERS)

    @property
    def paper(self) -> str:
        return self.id.split("/", 1)[0]

    def setting(self, tier: str) -> dict[str, Any]:
        require_known("tier", tier, TIERS)
        for name in reversed(TIERS[: TIERS.index(tier) + 1]):
            if name in self.settings:
                return dict(self.settings[name])
        return {}

    def expected_at(self, tier: str) -> Status | None:
        """The verdict that is expected at a tier; None: a measurement."""
        require_known("tier", tier, TIERS)
        return self.expect if TIERS.index(tier) >= TIERS.index(self.expect_from) else None

    def code(self) -> tuple[str, int]:
        """File and line of the measurement."""
        function = inspect.unwrap(self.observe)
        while hasattr(function, "func"):  # functools.partial
            function = function.func
        return inspect.getsourcefile(function) or "?", inspect.getsourcelines(function)[1]


@dataclass(frozen=True)
class AssumptionCheck:
    says: str
    met: bool
    measured: str
    needed: bool


@dataclass(frozen=True)
class Verdict:
    """How a claim came out: its status and error, those of its control, and the two trajectories compared."""

    claim: str
    status: Status
    expected: Status | None
    error: float
    tolerance: float
    reason: str
    seconds: float
    control_status: Status | None = None
    control_reason: str = ""
    assumptions: tuple[AssumptionCheck, ...] = ()
    stopped: bool = False  # predict, observe or compare raised: never as expected, not even without expectation
    skipped: bool = False  # stopped since its data is not on this machine; `reason` says how to give it
    notes: tuple[str, ...] = ()  # warnings given on the way
    prediction: xr.Dataset | None = field(default=None, repr=False, compare=False)
    observation: xr.Dataset | None = field(default=None, repr=False, compare=False)

    @property
    def as_expected(self) -> bool:
        """The verdict is the expected one, and the control turned it over."""
        if self.expected is None:
            return not self.stopped
        return self.status == self.expected and self.control_status == turned(self.expected)

    @property
    def shown(self) -> str:
        """The status for a reader, who must not take a claim that was not judged for one that is undecided."""
        return "skipped" if self.skipped else self.status

    def summary(self) -> dict[str, Any]:
        """What `foretrain check --json` writes for this claim."""
        return {
            "id": self.claim,
            "status": self.status,
            "expected": self.expected,
            "error": self.error,
            "tolerance": self.tolerance,
            "reason": self.reason,
            "seconds": self.seconds,
            "control_status": self.control_status,
            "skipped": self.skipped,
        }


def tally(verdicts: Collection[Verdict]) -> str:
    """How many came out as expected, and how many have no expected verdict; one of these that stopped is a surprise."""
    bound = [verdict for verdict in verdicts if verdict.expected is not None or verdict.stopped]
    open_ended = len(verdicts) - len(bound)
    measured = f", {open_ended} without an expected verdict at this tier" if open_ended else ""
    missed = sum(verdict.skipped for verdict in verdicts)
    skipped = f", {missed} skipped for want of data" if missed else ""
    return f"{sum(verdict.as_expected for verdict in bound)} of {len(bound)} verdicts as expected{skipped}{measured}"


def turned(status: Status) -> Status:
    return {"holds": "fails", "fails": "holds"}.get(status, "inconclusive")  # type: ignore[return-value]


def judge(claim: Claim, tier: str = "fast") -> Verdict:
    """Run a claim and its control at a tier."""
    started = time.perf_counter()
    setting = claim.setting(tier)
    claim = replace(claim, expect=claim.expected_at(tier))
    verdict = _try(claim, setting)
    if verdict.skipped:
        return verdict
    control = _try(claim, {**setting, **claim.control.changes}, guarded=False)
    return replace(
        verdict,
        seconds=time.perf_counter() - started,
        control_status=control.status,
        control_reason=control.reason,
    )


def _try(claim: Claim, setting: Mapping[str, Any], guarded: bool = True) -> Verdict:
    """One judgement. `guarded`: no verdict where a needed assumption is not met (a control breaks one on purpose)."""
    try:
        checks = tuple(_check(a, setting) for a in (claim.assumes if guarded else ()))
        unmet = [c for c in checks if c.needed and not c.met]
        prediction, observation = call_with(claim.predict, setting), _observed(claim.observe, setting)
        outcome = claim.compare(prediction, observation)
    except MissingData as error:
        nan = float("nan")
        return Verdict(claim.id, "inconclusive", claim.expect, nan, nan, str(error), 0.0, stopped=True, skipped=True)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        sentence = f"stopped with {type(error).__name__} at {where.filename}:{where.lineno}: {error}"
        nan = float("nan")
        return Verdict(claim.id, "inconclusive", claim.expect, nan, nan, sentence, 0.0, stopped=True)
    status, reason = outcome.status, outcome.reason
    if unmet:
        status = "inconclusive"
        reason = f"assumption not met: {unmet[0].says} ({unmet[0].measured}); {reason}"
    return Verdict(
        claim=claim.id,
        status=status,
        expected=claim.expect,
        error=outcome.error,
        tolerance=outcome.tolerance,
        reason=reason,
        seconds=0.0,
        assumptions=checks,
        prediction=prediction,
        observation=observation,
    )


def _check(assumption: Assumption, setting: Mapping[str, Any]) -> AssumptionCheck:
    met, measured = call_with(assumption.check, setting)
    return AssumptionCheck(assumption.says, met, measured, assumption.needed)


def call_with(function: Callable[..., Any], setting: Mapping[str, Any]) -> Any:
    """Call a function with those names of the setting that it takes."""
    return function(**_taken(function, setting))


def _taken(function: Callable[..., Any], setting: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return dict(setting)
    return {p.name: setting[p.name] for p in parameters if p.name in setting}


def _observed(observe: Callable[..., xr.Dataset], setting: Mapping[str, Any]) -> xr.Dataset:
    """What is measured, once for both halves of an erratum and for a control that changes the prediction only."""
    arguments = tuple(sorted(_taken(observe, setting).items()))
    try:
        hash(arguments)
    except TypeError:  # a list or an array among them
        return observe(**dict(arguments))
    found, warned = _kept(observe, arguments, tuple(type(value) for _, value in arguments))
    for w in warned:
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    return found.copy()


@lru_cache(maxsize=2)
def _kept(
    observe: Callable[..., xr.Dataset], arguments: tuple[tuple[str, Any], ...], _: tuple[type, ...]
) -> tuple[xr.Dataset, list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        return observe(**dict(arguments)), warned


def no_number() -> xr.Dataset:
    """What a claim about an order or a sign predicts."""
    return trajectory({})


def erratum_pair(
    *, printed: Callable[..., xr.Dataset], corrected: Callable[..., xr.Dataset], prints: str | None = None, **claim: Any
) -> list[Claim]:
    """Two claims from one: `ID` as printed, expected to fail, and `ID_corrected`, expected to hold.

    `says` is the corrected statement and `prints` the printed one, where they differ in words too. The control of the
    printed claim puts the corrected formula in its place: the comparator can say holds.
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
    right = Claim(**{**claim, "id": f"{claim['id']}_corrected", "predict": corrected})
    return [as_printed, right]


def other_half(claim: str) -> str:
    """The other id of an erratum: the corrected claim of a printed one, and the other way round."""
    return claim.removesuffix("_corrected") if claim.endswith("_corrected") else f"{claim}_corrected"
