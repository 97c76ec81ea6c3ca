"""The forecast of a corpus in words and as plain data for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from foretrain.forecast.corpus import CorpusForecast, Learned

NEGLIGIBLE = 1e-3  # of the largest score: a bias below it moves no decision


def number(value: float, *, sign: bool = False) -> str:
    """Three digits; 0 is 0."""
    return f"{value:{'+' if sign else ''}.3g}" if value else "0"


def sizes_words(found: CorpusForecast) -> str:
    sizes = ", ".join(f"{n:,} {c}" for c, n in zip(found.classes, found.class_counts, strict=True))
    return f"{int(found.class_counts.sum()):,} texts: {sizes}."


def counted_words(found: CorpusForecast) -> str:
    """How many items were scored, and which were too rare to be."""
    counted = [
        f"{len(of):,} {'tokens' if order == 1 else f'{order}-grams'} that occur at least {of.least} times"
        if of.least > 1
        else f"{len(of):,} {'tokens' if order == 1 else f'{order}-grams'}"
        for order, of in found.items.items()
    ]
    return f"Counted: {'; '.join(counted)}."


def bias_words(found: CorpusForecast) -> str:
    """What the bias is and what its sign means, and which architectures have one."""
    means = "the score of what was never seen in training, which every other score is shifted by"
    if len(found.outputs) == 1:
        means += f"; above 0 it is for {found.classes[1]}, below 0 for {found.classes[0]}"
    else:
        means += "; one per class, and the class with the largest is preferred"
    have = [
        name for name, of in found.scores.items() if abs(of.bias).max() > NEGLIGIBLE * abs(of.scores).max(initial=0.0)
    ]
    return f"{means}. It matters for {', '.join(have) or 'no architecture here'}."


def summary(found: CorpusForecast, learned: Mapping[str, Learned] | None = None, top: int = 30) -> dict[str, Any]:
    """What `--json` writes."""
    scores = {name: found.top(name, top) for name in found.scores}
    return {
        "classes": {name: int(count) for name, count in zip(found.classes, found.class_counts, strict=True)},
        "window": found.window,
        "least_occurrences": {str(order): of.least for order, of in found.items.items()},
        "tokens": {name: scores[name] for name, of in found.scores.items() if of.order == 1},
        "ngrams": {name: scores[name] for name, of in found.scores.items() if of.order > 1},
        "bias": {name: _by_output(found, of.bias) for name, of in found.scores.items()},
        "bias_plateau": {name: _by_output(found, plateau) for name, plateau in found.plateau.items()},
        "from_imbalance": [found.tokens[i] for i in np.flatnonzero(found.from_imbalance)],
        "spurious": found.spurious,
        "additive_cannot_learn": list(found.contradictions),
        "trained": {name: {"spearman": one.spearman, "pearson": one.pearson} for name, one in (learned or {}).items()},
        "notes": list(found.notes),
    }


def _by_output(found: CorpusForecast, values: Any) -> dict[str, float]:
    return dict(zip(found.outputs, map(float, values), strict=True))
