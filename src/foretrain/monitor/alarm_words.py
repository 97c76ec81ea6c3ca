"""How an alarm names the place and gives its reason."""

from __future__ import annotations

import re
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


def number(value: float, digits: int = 3) -> str:
    """A measured number: 8612.3 → "8612", 34080 → "34 080", 3.02e8 → "3.02e8"."""
    if 1000 <= abs(value) < 1e6:
        return ("-" if value < 0 else "") + steps(round(abs(value)))
    return re.sub(r"e([+-])0*", lambda sign: f"e{sign[1].replace('+', '')}", f"{value:.{digits}g}")


def steps_of(number: int) -> str:
    return f"{number} step" if number == 1 else f"{number} steps"


def reason(kind: str, head: int, start: Values, ago: Values, now: Values, steps: int, others: float) -> str:
    """Why this kind of alarm holds for a head: one sentence with numbers. `ago` is `steps` before `now`."""

    def at(values: Values, name: str) -> float:
        return float(values[name][head])

    rise = f"its largest logit rose from {number(at(ago, 'largest_logit'))} to {number(at(now, 'largest_logit'))}"
    if kind == "entropy collapse":
        entropy = (
            f"its entropy fell from {at(start, 'entropy'):.2f} nats at the start to {number(at(now, 'entropy'), 2)}"
        )
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
    low, high = f"{number(rise.low)} at step {steps(rise.since)}", f"{number(rise.high)} at step {steps(rise.step)}"
    return f"{over} rose from {low} to {high}"
