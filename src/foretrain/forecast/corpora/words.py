"""The forecast of a corpus in words, and as plain data for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from foretrain.forecast.corpora.forecast import CorpusForecast, Learned

IN_JSON = 30  # default number of items per class and architecture
NEGLIGIBLE = 1e-3  # a bias below this share of the largest score changes no decision

CONTRADICTIONS = {
    "wrong": "A network that adds up tokens gets wrong",
    "undecided": "A network that adds up tokens cannot decide",
}  # headings by kind of contradiction


def number(value: float, *, sign: bool = False) -> str:
    """Three digits; 0 is 0."""
    return f"{value:{'+' if sign else ''}.3g}" if value else "0"


def sizes_words(forecast: CorpusForecast) -> str:
    sizes = ", ".join(f"{c}: {n:,}" for c, n in zip(forecast.classes, forecast.class_counts, strict=True))
    return f"{int(forecast.class_counts.sum()):,} texts ({sizes})."


def counted_words(forecast: CorpusForecast) -> str:
    """How many items were scored, and how often they had to occur."""
    least = {items.least for items in forecast.items.values()}
    same = len(least) == 1
    parts = []
    for order, items in forecast.items.items():
        name = "tokens" if order == 1 else f"{order}-grams"
        parts.append(f"{len(items):,} {name}{'' if same else _or_more(items.least)}")
    return f"Counted: {', '.join(parts)}{_or_more(least.pop()) if same else ''}."


def _or_more(least: int) -> str:
    return f" that occur at least {least} times" if least > 1 else ""


def biased(forecast: CorpusForecast) -> list[str]:
    """Architectures whose bias can change a decision."""
    return [
        name
        for name, scored in forecast.scores.items()
        if abs(scored.bias).max() > NEGLIGIBLE * abs(scored.scores).max(initial=0.0)
    ]


def bias_words(forecast: CorpusForecast) -> str:
    """What the bias is, what its sign means, and which architectures have one."""
    if len(forecast.outputs) == 1:
        sign = f"Above 0 it favours {forecast.classes[1]}, below 0 {forecast.classes[0]}."
    else:
        sign = "There is one per class; the class with the largest is favoured."
    return (
        "Bias: the score the model gives to tokens it has never seen. It shifts every other score by the same amount. "
        f"{sign} It matters for {', '.join(biased(forecast)) or 'no architecture here'}."
    )


def summary(
    forecast: CorpusForecast, learned: Mapping[str, Learned] | None = None, top: int = IN_JSON
) -> dict[str, Any]:
    """The content of `--json`: the `top` items of every class, and everything that looks wrong."""
    scores = {name: forecast.top(name, top) for name in forecast.scores}
    return {
        "classes": {name: int(count) for name, count in zip(forecast.classes, forecast.class_counts, strict=True)},
        "window": forecast.window,
        "time": forecast.time,
        "least_occurrences": {str(order): items.least for order, items in forecast.items.items()},
        "tokens": {name: scores[name] for name, scored in forecast.scores.items() if scored.order == 1},
        "ngrams": {name: scores[name] for name, scored in forecast.scores.items() if scored.order > 1},
        "bias": {name: _by_output(forecast, scored.bias) for name, scored in forecast.scores.items()},
        "bias_plateau": {name: _by_output(forecast, plateau) for name, plateau in forecast.plateau.items()},
        "from_imbalance": [forecast.tokens[i] for i in np.flatnonzero(forecast.from_imbalance)],
        "spurious": forecast.spurious,
        "additive_cannot_learn": list(forecast.contradictions),
        "trained": {name: {"spearman": net.spearman, "pearson": net.pearson} for name, net in (learned or {}).items()},
        "notes": list(forecast.notes),
    }


def _by_output(forecast: CorpusForecast, values: Any) -> dict[str, float]:
    return dict(zip(forecast.outputs, map(float, values), strict=True))
