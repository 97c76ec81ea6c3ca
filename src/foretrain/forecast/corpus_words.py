"""The forecast of a corpus in words and as plain data for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from foretrain.forecast.corpus import CorpusForecast, Learned

IN_JSON = 30  # items per class and architecture, where not more are asked for
NEGLIGIBLE = 1e-3  # of the largest score: a bias below it moves no decision

CONTRADICTIONS = {
    "wrong": "A network that adds up tokens gets wrong",
    "undecided": "A network that adds up tokens cannot tell",
}  # by their kind


def number(value: float, *, sign: bool = False) -> str:
    """Three digits; 0 is 0."""
    return f"{value:{'+' if sign else ''}.3g}" if value else "0"


def sizes_words(forecast: CorpusForecast) -> str:
    sizes = ", ".join(f"{c}: {n:,}" for c, n in zip(forecast.classes, forecast.class_counts, strict=True))
    return f"{int(forecast.class_counts.sum()):,} texts ({sizes})."


def counted_words(forecast: CorpusForecast) -> str:
    """How many items were scored, and which were too rare to be."""
    names = {order: "tokens" if order == 1 else f"{order}-grams" for order in forecast.items}
    least = {of.least for of in forecast.items.values()}
    each = (_or_more(of.least) if len(least) > 1 else "" for of in forecast.items.values())
    counted = ", ".join(
        f"{len(of):,} {names[n]}{more}" for (n, of), more in zip(forecast.items.items(), each, strict=True)
    )
    return f"Counted: {counted}{_or_more(least.pop()) if len(least) == 1 else ''}."


def _or_more(least: int) -> str:
    return f" that occur at least {least} times" if least > 1 else ""


def biased(forecast: CorpusForecast) -> list[str]:
    """Architectures whose bias can move a decision."""
    return [
        name
        for name, of in forecast.scores.items()
        if abs(of.bias).max() > NEGLIGIBLE * abs(of.scores).max(initial=0.0)
    ]


def bias_words(forecast: CorpusForecast) -> str:
    """What the bias is and what its sign means, and which architectures have one."""
    means = "The score the model gives to tokens it has never seen; it shifts every other score by the same amount"
    if len(forecast.outputs) == 1:
        means += f"; above 0 it is for {forecast.classes[1]}, below 0 for {forecast.classes[0]}"
    else:
        means += "; one per class, and the class with the largest is preferred"
    return f"{means}. It matters for {', '.join(biased(forecast)) or 'no architecture here'}."


def summary(
    forecast: CorpusForecast, learned: Mapping[str, Learned] | None = None, top: int = IN_JSON
) -> dict[str, Any]:
    """What `--json` writes: the `top` items of every class, and all of what looks wrong."""
    scores = {name: forecast.top(name, top) for name in forecast.scores}
    return {
        "classes": {name: int(count) for name, count in zip(forecast.classes, forecast.class_counts, strict=True)},
        "window": forecast.window,
        "time": forecast.time,
        "least_occurrences": {str(order): of.least for order, of in forecast.items.items()},
        "tokens": {name: scores[name] for name, of in forecast.scores.items() if of.order == 1},
        "ngrams": {name: scores[name] for name, of in forecast.scores.items() if of.order > 1},
        "bias": {name: _by_output(forecast, of.bias) for name, of in forecast.scores.items()},
        "bias_plateau": {name: _by_output(forecast, plateau) for name, plateau in forecast.plateau.items()},
        "from_imbalance": [forecast.tokens[i] for i in np.flatnonzero(forecast.from_imbalance)],
        "spurious": forecast.spurious,
        "additive_cannot_learn": list(forecast.contradictions),
        "trained": {name: {"spearman": one.spearman, "pearson": one.pearson} for name, one in (learned or {}).items()},
        "notes": list(forecast.notes),
    }


def _by_output(forecast: CorpusForecast, values: Any) -> dict[str, float]:
    return dict(zip(forecast.outputs, map(float, values), strict=True))
