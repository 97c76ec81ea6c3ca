"""Will the forecast hold? Judged from the forecast itself, or from a few real steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from foretrain.forecast.finetuning.curves import compared
from foretrain.forecast.finetuning.dynamics import forecast_outputs
from foretrain.forecast.finetuning.training import train_outputs

if TYPE_CHECKING:
    from foretrain.forecast.finetuning.dynamics import FinetuneSetting
    from foretrain.forecast.finetuning.prepared import Prepared

LARGEST_FIRST_STEP = 0.9  # root mean square change of the test logits


@dataclass(frozen=True)
class Trust:
    """Whether to believe a forecast, and why."""

    holds: bool
    reason: str
    first_step: float  # how far a step at the full rate moves the test logits at the start (root mean square)
    change: float  # how far the whole training moves them
    bend: float  # how much of that is due to the bend of the path: |path − start alone| / |path|
    turn: float  # correlation of the two forecasts


def trust_in(
    prepared: Prepared,
    setting: FinetuneSetting,
    plain: Float[Tensor, "time row output"],
    path: Float[Tensor, "moment row output"],
) -> Trust:
    """The verdict for a setting, from the forecasts at the start alone [0, 1, end] and along the path."""
    test = slice(prepared.train, None)
    full = replace(setting, steps=1, warm_up=0, schedule="constant")
    one = forecast_outputs(prepared.start, prepared.labels[: prepared.train], full, [0, 1])
    first = _size((one[1] - one[0])[test])
    straight, bent = (plain[-1] - plain[0])[test], (path[-1] - path[0])[test]
    change = _size(bent)
    bend = _size(bent - straight) / change if change else 0.0
    turn = compared(straight.double().numpy(), bent.double().numpy())["correlation"]
    holds = first <= LARGEST_FIRST_STEP
    compared_words = "within" if holds else "above"
    reason = (
        f"the first step moves the logits by {first:.2f}, {compared_words} the limit of {LARGEST_FIRST_STEP:g} up to "
        "which forecasts held."
    )
    return Trust(holds, reason, first, change, bend, turn)


def trust_after_steps(prepared: Prepared, setting: FinetuneSetting, trust: Trust, steps: int) -> Trust:
    """The verdict after a few real steps: the outputs must have moved as the forecast says."""
    plain = prepared.from_start(setting, [0, steps])
    real = train_outputs(prepared.classifier, prepared.labels[: prepared.train], setting, [0, steps], until=steps)
    test = slice(prepared.train, None)
    straight, measured = ((each[-1] - each[0])[test].double().numpy() for each in (plain, real))
    found = compared(straight, measured)
    return replace(trust, reason=f"{trust.reason} {found}")


def _size(change: Tensor) -> float:
    return float(torch.sqrt(change.double().square().mean()))
