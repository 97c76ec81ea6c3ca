"""Runs a claim and its control, and says how they came out."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import xarray as xr

from foretrain.core.calls import call_with, taken_by
from foretrain.core.errors import MissingData
from foretrain.core.workers import single_threaded
from foretrain.ledger.claim import Assumption, Claim, Status
from foretrain.ledger.controls import against_itself
from foretrain.ledger.verdict import AssumptionCheck, Verdict


def judge(claim: Claim, tier: str = "fast") -> Verdict:
    """Judge a claim and its control at a tier."""
    started = time.perf_counter()
    setting = claim.setting(tier)
    claim = replace(claim, expect=claim.expected_at(tier))
    with single_threaded():
        verdict = _judge_in(claim, setting)
        if verdict.status == "skipped":
            return verdict
        control = _judge_control(claim, setting, verdict)
    return replace(
        verdict,
        seconds=time.perf_counter() - started,
        control_status=control.status,
        control_reason=control.reason,
    )


def _judge_control(claim: Claim, setting: Mapping[str, Any], verdict: Verdict) -> Verdict:
    """The verdict under the control; inconclusive if it could not come out otherwise."""
    control = _judge_in(claim, {**setting, **claim.control.changes}, guarded=False)
    if verdict.observation is None or control.observation is None:
        return control
    empty = against_itself(claim.compare, verdict.observation, control.observation, claim.quantities)
    return replace(control, status="inconclusive", reason=empty) if empty else control


def _judge_in(claim: Claim, setting: Mapping[str, Any], guarded: bool = True) -> Verdict:
    """The verdict in one setting.

    `guarded` makes it inconclusive where a needed assumption is not met. A control breaks one on purpose, so it is not
    guarded.
    """
    try:
        checks = tuple(_evaluate(assumption, setting) for assumption in (claim.assumes if guarded else ()))
        unmet = [check for check in checks if check.needed and not check.met]
        prediction, observation = claim.prediction(setting), _observe(claim.observe, setting)
        outcome = claim.compare(prediction, observation, claim.quantities)
    except MissingData as error:
        return _not_judged(claim, "skipped", str(error))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        sentence = f"stopped with {type(error).__name__} at {where.filename}:{where.lineno}: {error}"
        return _not_judged(claim, "stopped", sentence)
    status: Status = outcome.status
    reason = outcome.reason
    if unmet:
        status = "inconclusive"
        reason = f"assumption not met: {unmet[0].says} ({unmet[0].measured}); {reason}"
    return Verdict(
        claim=claim.id,
        status=status,
        expected=claim.expect,
        margin=outcome.margin,
        reason=reason,
        seconds=0.0,
        assumptions=checks,
        prediction=prediction,
        observation=observation,
    )


def _not_judged(claim: Claim, status: Status, reason: str) -> Verdict:
    return Verdict(claim.id, status, claim.expect, float("nan"), reason, 0.0)


def _evaluate(assumption: Assumption, setting: Mapping[str, Any]) -> AssumptionCheck:
    met, measured = call_with(assumption.check, setting)
    return AssumptionCheck(assumption.says, met, measured, assumption.needed)


def _observe(observe: Callable[..., xr.Dataset], setting: Mapping[str, Any]) -> xr.Dataset:
    """The measurement, made once for both halves of an erratum and for a control that only changes the prediction."""
    arguments = tuple(sorted(taken_by(observe, setting).items()))
    try:
        hash(arguments)
    except TypeError:  # a list or an array among them
        return observe(**dict(arguments))
    observation, warned = _observe_once(observe, arguments, _kinds(arguments))
    for w in warned:
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    return observation.copy(deep=True)


@lru_cache(maxsize=8)
def _observe_once(
    observe: Callable[..., xr.Dataset], arguments: tuple[tuple[str, Any], ...], _: Any
) -> tuple[xr.Dataset, list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        return observe(**dict(arguments)), warned


def _kinds(value: Any) -> Any:
    """What equality does not see: 1, 1.0 and True are equal but may measure different things; so may 0.0 and −0.0."""
    if isinstance(value, tuple):
        return tuple(map(_kinds, value))
    return type(value), repr(value) if isinstance(value, float) else ""
