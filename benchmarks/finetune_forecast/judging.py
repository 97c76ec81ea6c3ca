"""Did the forecasts meet their targets, and which sign beforehand tells those that did not?

A forecast is trusted if it looks like those that held. Thresholds are chosen on two models and two corpora, and judged
on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from statistics import mean, median
from typing import Any

import numpy as np

Trial = dict[str, Any]
CORRELATION, SCALE = 0.95, (0.8, 1.25)
CHOOSING = ({"minilm", "stories"}, {"sst2", "ag_news_2"})  # models and corpora on which thresholds are chosen
AGREEMENT, FIRST_STEP = "agreement of the forecasts with and without the middle", "first step"
FREE = [AGREEMENT, FIRST_STEP]
NINE_IN_TEN = 0.9
PARTS = ("score", "from_start", "pilot", "trust", "row_removal")
FRESH = "books"  # the corpus that was judged last, after all thresholds were fixed
SIGNS: dict[str, tuple[Callable[[Trial], float], int]] = {  # what is known, and whether more of it is better
    AGREEMENT: (lambda t: t["trust"]["turn"], 1),
    FIRST_STEP: (lambda t: t["trust"]["first_step"], -1),
    "bend": (lambda t: t["trust"]["bend"], -1),
    "whole change": (lambda t: t["trust"]["change"], -1),
    "rate": (lambda t: t["rate"], -1),
    "correlation after 4 real steps": (lambda t: t["pilot"]["correlation"], 1),
    "error after 4 real steps": (lambda t: t["pilot"]["error"], -1),
}


def holds(trial: Trial) -> bool:
    """Whether a forecast met its targets."""
    score = trial["score"]
    return bool(score["correlation"] >= CORRELATION and SCALE[0] <= score["scale"] <= SCALE[1])


def chosen_on(trial: Trial) -> bool:
    return trial["model"] in CHOOSING[0] and trial["corpus"] in CHOOSING[1]


def trusted(trial: Trial, thresholds: dict[str, float]) -> bool:
    """Whether all signs are on the good side of their thresholds."""
    return all(SIGNS[s][1] * SIGNS[s][0](trial) >= SIGNS[s][1] * threshold for s, threshold in thresholds.items())


def thresholds_of(signs: Sequence[str], trials: Sequence[Trial]) -> dict[str, float]:
    """For each sign, the value that nine in ten of the forecasts that held are on the good side of."""
    found = {}
    for sign in signs:
        value, direction = SIGNS[sign]
        found[sign] = direction * float(
            np.quantile([direction * value(t) for t in trials if holds(t)], 1 - NINE_IN_TEN)
        )
    return found


def judged(thresholds: dict[str, float], trials: Sequence[Trial]) -> dict[str, int]:
    """How many forecasts that missed were flagged, and how many that held."""
    missed = [not trusted(trial, thresholds) for trial in trials if not holds(trial)]
    held = [not trusted(trial, thresholds) for trial in trials if holds(trial)]
    return {"missed": len(missed), "missed and flagged": sum(missed), "held": len(held), "held and flagged": sum(held)}


def published(trials: Sequence[Trial]) -> dict[str, Any]:
    """What docs/results keeps: the tables, and the numbers of every trial that they are made of."""
    fresh, old = [t for t in trials if t["corpus"] == FRESH], [t for t in trials if t["corpus"] != FRESH]
    free = thresholds_of(FREE, [t for t in old if chosen_on(t)])
    kept = ("model", "corpus", "seed", "rate", "n", "test", "steps", *PARTS)
    return {
        "made": date.today().isoformat(),
        "targets": table_of_targets(old),
        "trust": table_of_trust(old),
        "targets, fresh corpus": table_of_targets(fresh),
        "trust, fresh corpus": judged(free, fresh),
        "trials": [{key: rounded(trial[key]) for key in kept if key in trial} for trial in trials],
    }


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def table_of_trust(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Every sign alone, and the two that cost nothing together: chosen on some trials, judged on the others."""
    choosing, others = [t for t in trials if chosen_on(t)], [t for t in trials if not chosen_on(t)]
    rows = []
    for signs in [*([sign] for sign in SIGNS), FREE]:
        thresholds = thresholds_of(signs, choosing)
        rows.append(
            {
                "thresholds": thresholds,
                "chosen on": judged(thresholds, choosing),
                "judged on": judged(thresholds, others),
            }
        )
    return rows


def table_of_targets(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """For every model, corpus and rate: medians over seeds, and how many met the targets."""
    groups: dict[tuple[str, str, float], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial["model"], trial["corpus"], trial["rate"]), []).append(trial)
    rows = []
    for (model, corpus, rate), own in sorted(groups.items()):
        scores = [trial["score"] for trial in own]
        rows.append(
            {
                "model": model,
                "corpus": corpus,
                "rate": rate,
                "seeds": len(own),
                "correlation": median(s["correlation"] for s in scores),
                "least correlation": min(s["correlation"] for s in scores),
                "scale": median(s["scale"] for s in scores),
                "scales": [min(s["scale"] for s in scores), max(s["scale"] for s in scores)],
                "accuracy error": mean(s["accuracy_error"] for s in scores),
                "error of the probe": mean(s["probe_error"] for s in scores),
                "loss error": mean(s["loss_error"] for s in scores),
                "agreement": mean(s["agreement"] for s in scores),
                "agreement of the probe": mean(s["probe_agreement"] for s in scores),
                "from the start alone": median(t["from_start"]["scale"] for t in own),
                "row removal": [t["row_removal"]["correlation"] for t in own if "row_removal" in t],
                "met": sum(map(holds, own)),
            }
        )
    return rows
