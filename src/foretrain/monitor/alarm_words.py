"""How an alarm names the place and gives its reason."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from foretrain.monitor.loss_alarms import Rise
from foretrain.monitor.short_names import without_shared

Values = dict[str, np.ndarray]  # statistic -> one number per head; for a matrix, an array of one number


class ShortNames:
    """Layers by the part of their names in which they differ: "transformer.h.5.attn" is layer 5.

    The first layers that are seen decide what is left out. A layer that comes later keeps its name.
    """

    def __init__(self) -> None:
        self._short: dict[str, str] = {}

    def learn(self, layers: Iterable[str]) -> None:
        """Compare these layers, unless others have been compared before."""
        self._short = self._short or without_shared(list(layers))

    def of(self, layer: str) -> str:
        return self._short.get(layer, layer)


def steps(number: int) -> str:
    """12400 → "12 400"."""
    return f"{number:,}".replace(",", " ") if number >= 10_000 else str(number)


def steps_of(number: int) -> str:
    return f"{number} step" if number == 1 else f"{number} steps"


def reason(kind: str, head: int, start: Values, ago: Values, now: Values, steps: int, others: float) -> str:
    """Why this kind of alarm holds for a head: one sentence with numbers. `ago` is `steps` before `now`."""

    def at(values: Values, name: str) -> float:
        return float(values[name][head])

    rise = f"its largest logit rose from {at(ago, 'largest_logit'):.3g} to {at(now, 'largest_logit'):.3g}"
    if kind == "entropy collapse":
        entropy = f"its entropy fell from {at(start, 'entropy'):.2f} nats at the start to {at(now, 'entropy'):.2g}"
        return f"{entropy}, and {rise} in {steps_of(steps)}"
    if kind == "runaway logits":
        return f"{rise} in {steps_of(steps)}"
    if kind == "dead head":
        share = f"its entropy is {at(now, 'relative_entropy'):.1%} of the largest possible"
        return (
            f"it still spreads its attention evenly: {share}, while that of half of all heads is {others:.0%} or less"
        )
    first = f"it gives {at(now, 'first_token'):.0%} of its attention to the first token"
    return f"{first}, {at(start, 'first_token'):.0%} at the start"


def reason_of_rise(rise: Rise, window: int) -> str:
    """Why the loss counts as above its least."""
    over = f"its median over {window} steps" if window > 1 else "it"
    return f"{over} rose from {rise.low:.3g} at step {steps(rise.since)} to {rise.high:.3g} at step {steps(rise.step)}"
