"""What an examination says in words and in a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from foretrain.doctor.checks import DeviceCheck
from foretrain.doctor.cost import Cost, Share

HEAD = ("compared", "agree", "worst difference", "allowed")


def summary(
    device: str, hardware: str, software: Mapping[str, str], checks: Sequence[DeviceCheck], cost: Cost, every: int
) -> list[str]:
    """Whether the numbers are right, then what watching a training costs."""
    failed = [check for check in checks if not check.holds]
    libraries = [f"{name} {software[name]}" for name in ("torch", "CUDA", "ROCm", "XPU") if name in software]
    where = f"this {hardware} ({', '.join(libraries)})".replace(") (", ", ")  # a CPU has its kind in brackets
    with_what = "float64" if device == "cpu" else "the CPU"
    verb = "disagrees with" if failed else "agrees with"
    count = f"{len(checks) - len(failed)} of {len(checks)} checks"
    largest = max((check.difference for check in checks if not math.isnan(check.difference)), default=math.nan)
    first = f"foretrain {verb} {with_what} on {where}: {count}, largest difference {largest:.0e}."
    if failed:
        worst = max(failed, key=lambda check: math.inf if math.isnan(check.difference) else check.difference)
        first += f" The worst is {worst.area}, {worst.what}: {reason_of(worst)}."
    return [first, _cost(cost, every)]


def rows(checks: Sequence[DeviceCheck]) -> list[tuple[str, str, str, str]]:
    """A row for each kind of layer and each area: how many agree, and the largest difference."""
    groups: dict[str, list[DeviceCheck]] = {}
    for check in checks:
        kind = check.what.partition(": ")[0] if ": " in check.what else ""
        groups.setdefault(f"{check.area}, {kind}" if kind else check.area, []).append(check)
    return [
        (
            name,
            f"{sum(check.holds for check in group)} of {len(group)}",
            _written(max(group, key=lambda check: _relative(check)).difference),
            _written(max(group, key=lambda check: _relative(check)).limit),
        )
        for name, group in groups.items()
    ]


def reason_of(check: DeviceCheck) -> str:
    """Why a check fails."""
    return check.reason or f"it is off by {check.difference:.1e}, and {check.limit:.0e} is allowed"


def _cost(cost: Cost, every: int) -> str:
    memory = "" if cost.memory_bytes is None else f", {max(0, cost.memory_bytes) / 1e6:.0f} MB more"
    watched = f"Monitor every {every} steps: {_slower(cost.watched)}{memory}."
    unmeasured = f"A step that is not measured: {_slower(cost.unmeasured)}"
    if cost.reads_unmeasured is not None:
        unmeasured += f", {cost.reads_unmeasured} host reads; one that is: {cost.reads_measured}"
    return f"{watched} {unmeasured}."


def _slower(share: Share) -> str:
    """With its standard error, or an upper bound where that is as large as the difference."""
    if share.mean < 2 * share.error:
        return f"less than {100 * max(0.0, share.mean + 2 * share.error):.1f} % slower"
    return f"{100 * share.mean:.1f} % slower (± {100 * share.error:.1f})"


def _relative(check: DeviceCheck) -> float:
    return math.inf if math.isnan(check.difference) else check.difference / check.limit


def _written(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0e}"
