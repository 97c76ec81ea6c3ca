"""Will the forecast hold? Judged from two signs that cost nothing, or from a few real steps.

A forecast is trusted if it looks like the trial forecasts that held: nine in ten of them were within each limit. The
limits were chosen on two models and two corpora and judged on others; docs/forecast-fine-tuning.md has the table, and
`python -m benchmarks.finetune_forecast` makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from foretrain.forecast.finetuning.curves import compared
from foretrain.forecast.finetuning.training import train_outputs

if TYPE_CHECKING:
    from foretrain.forecast.finetuning.dynamics import FinetuneSetting
    from foretrain.forecast.finetuning.prepared import LivePass, Pass, WhatIf

LEAST_AGREEMENT = 0.965  # correlation of the forecasts with and without the gradients halfway
LARGEST_FIRST_STEP = 0.7  # root mean square change of the test logits by one step at the full rate
LEAST_CORRELATION, SCALES = 0.95, (0.8, 1.25)  # of the change of the outputs after real steps with the forecast


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
    prepared: Pass,
    setting: FinetuneSetting,
    what: WhatIf,
    plain: Float[Tensor, "time row output"],
    path: Float[Tensor, "moment row output"],
) -> Trust:
    """The verdict for a setting, from the forecasts at the start alone and along the path."""
    test = slice(prepared.train, None)
    full = replace(setting, steps=1, warm_up=0, schedule="constant")
    one = prepared.from_start(full, [0, 1], what)
    first = _size((one[1] - one[0])[test])
    straight, bent = (plain[-1] - plain[0])[test], (path[-1] - path[0])[test]
    change = _size(bent)
    bend = _size(bent - straight) / change if change else 0.0
    turn = compared(straight.double().numpy(), bent.double().numpy())["correlation"]
    bent_too_much, too_fast = not turn >= LEAST_AGREEMENT, not first <= LARGEST_FIRST_STEP
    agreement = f"forecasts from the gradients at the start and halfway have correlation {turn:.3f}"
    speed = f"one step moves the logits by {first:.2g}"
    if bent_too_much:
        reason = f"{agreement}; below {LEAST_AGREEMENT:g} the network changes too much on its way to be forecast."
    elif too_fast:
        reason = f"{speed}; above {LARGEST_FIRST_STEP:g} forecasts are often wrong."
    else:
        reason = f"{agreement} (limit {LEAST_AGREEMENT:g}), and {speed} (limit {LARGEST_FIRST_STEP:g})."
    return Trust(not (bent_too_much or too_fast), reason, first, change, bend, turn)


def trust_after_steps(prepared: LivePass, setting: FinetuneSetting, what: WhatIf, trust: Trust, steps: int) -> Trust:
    """The verdict after a few real steps: the outputs must have moved as the forecast says."""
    steps = min(steps, setting.steps)
    plain = prepared.from_start(setting, [0, steps], what)
    labels, keep = prepared.labels_if(what), prepared.rows_if(what)
    real = train_outputs(prepared.classifier, labels, setting, [0, steps], keep=keep, until=steps)
    test = slice(prepared.train, None)
    straight, measured = ((each[-1] - each[0])[test].double().numpy() for each in (plain, real))
    agreement = compared(straight, measured)
    holds = agreement["correlation"] >= LEAST_CORRELATION and SCALES[0] <= agreement["scale"] <= SCALES[1]
    times = 1 / agreement["scale"] if agreement["scale"] else float("nan")
    moved = (
        f"{steps} real steps moved the outputs {times:.2f} times as far as the forecast says, with correlation "
        f"{agreement['correlation']:.2f}"
    )
    limits = f"needed: {1 / SCALES[1]:g} to {1 / SCALES[0]:g} times, and a correlation of {LEAST_CORRELATION:g}"
    return replace(trust, holds=trust.holds and holds, reason=f"{moved} ({limits}); {trust.reason}")


def _size(change: Tensor) -> float:
    return float(torch.sqrt(change.double().square().mean()))
