"""Does the diagnosis name the layer that was made to explode? Limits from one half of the runs, judged on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from benchmarks.early_warnings.judging import Label
from benchmarks.early_warnings.settings import ONE_LAYER, Setting
from foretrain.monitor.alarms import Thresholds
from foretrain.monitor.diagnosis import Limits, first_mover

GRID = {"factor": (1.5, 2.0, 3.0), "spread": (3.0, 6.0), "window": (10, 20), "strongest": (False, True)}
Runs = Mapping[str, Mapping[str, Any]]


def named(run: Mapping[str, Any], thresholds: Thresholds, limits: Limits) -> str | None:
    """The layer that the diagnosis says it began in: "2"; None where none stood out, or no rise was seen."""
    diagnosis = first_mover(run["records"], thresholds, limits)
    return diagnosis.first.layer if diagnosis is not None and diagnosis.first is not None else None


def chosen_limits(
    settings: Sequence[Setting], runs: Runs, labels: Mapping[str, Label], thresholds: Thresholds
) -> Limits:
    """The limits that name the guilty layer most often on the choosing half; of those, the ones that name a layer most
    seldom where the fault is in all of them."""
    troubled = [s for s in settings if s.half == "choose" and labels[s.name].trouble is not None]
    guilty = [setting for setting in troubled if setting.kind in ONE_LAYER]
    others = [setting for setting in troubled if setting.layer is None]
    candidates = [Limits(**dict(zip(GRID, values, strict=True))) for values in product(*GRID.values())]  # type: ignore[arg-type]

    def merit(limits: Limits) -> tuple[int, int]:
        right = sum(named(runs[s.name], thresholds, limits) == str(s.layer) for s in guilty)
        return right, -sum(named(runs[s.name], thresholds, limits) is not None for s in others)

    return max(candidates, key=merit)


def diagnosed(
    settings: Sequence[Setting], runs: Runs, labels: Mapping[str, Label], thresholds: Thresholds, limits: Limits
) -> dict[str, str | None]:
    """For every run in trouble, the layer that is named."""
    return {s.name: named(runs[s.name], thresholds, limits) for s in settings if labels[s.name].trouble is not None}


def summary(runs: Sequence[Mapping[str, Any]], half: str) -> dict[str, float]:
    """How often the guilty layer was named in this half, and a layer where the fault was in all of them."""
    judged = [run for run in runs if run["half"] == half and run["trouble"] is not None]
    guilty = [run for run in judged if run["kind"] in ONE_LAYER]
    others = [run for run in judged if run["layer"] is None]
    return {
        "right": sum(run["named"] == str(run["layer"]) for run in guilty),
        "none": sum(run["named"] is None for run in guilty),
        "of": len(guilty),
        "guess": sum(1 / run["layers"] for run in guilty) / max(1, len(guilty)),
        "named_elsewhere": sum(run["named"] is not None for run in others),
        "elsewhere": len(others),
    }
