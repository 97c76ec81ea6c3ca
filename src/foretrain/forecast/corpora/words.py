"""The forecast of a corpus in words, and as plain data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.forecast.clustered_errors import mean_and_error
from foretrain.forecast.corpora.fixes import Fix
from foretrain.forecast.corpora.heldout import CHANCE
from foretrain.forecast.corpora.result import CorpusResult
from foretrain.forecast.corpora.shortcuts import Shortcut

IN_JSON = 30  # default number of items per class and architecture
# From docs/results/corpus_forecast.json, checked by the tests.
EVIDENCE = {
    2: ".90 to .96 for tokens (MLP) and .91 to .94 for bigrams (CNN)",
    3: ".56 to .75 for tokens (MLP), where signed χ² did better, and .79 to .86 for bigrams (CNN)",
}  # by number of classes: two, or more
CHI2 = "tokens by signed χ² (baseline)"
NEGLIGIBLE = 1e-3  # a bias below this share of the largest score changes no decision

CONTRADICTIONS = {
    "wrong": "A network that adds up tokens gets wrong",
    "undecided": "A network that adds up tokens cannot decide",
}  # headings by kind of contradiction


def number(value: float, *, sign: bool = False) -> str:
    """Three digits; 0 is 0."""
    return f"{value:{'+' if sign else ''}.3g}" if value else "0"


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def answer(forecast: CorpusResult) -> str:
    """One paragraph: will it be learned, how well, and how much of that is a shortcut?"""
    if forecast.signal is None:
        return (
            f"{len(forecast.corpus):,} texts are too few to hold any out, so nothing can be said about how well a "
            "classifier will do; the scores below are what it would rely on."
        )
    curve, signal = forecast.curves[forecast.best], forecast.signal
    low, high = curve.interval
    largest = forecast.classes[int(forecast.class_counts.argmax())]
    if not signal.exists:
        return (
            "No signal: the labels cannot be predicted better than chance allows. "
            f"{percent(curve.accuracy)} of held-out rows are predicted correctly (always guessing {largest}: "
            f"{percent(signal.largest_class)}), but with shuffled labels the predictions fit as well in "
            f"{100 * signal.chance:.1f} % of tries; only up to {100 * CHANCE:.1f} % would be a signal."
        )
    baseline = better_baseline(forecast)
    sees = "single tokens" if forecast.scores[forecast.best].order == 1 else "tokens and their neighbours"
    who = f"{forecast.best}, a network that sees {sees}"
    if baseline is not None:  # the simplest way that does best gives the answer
        who = f"{baseline}; the best network, {forecast.best}, gets {percent(curve.accuracy)}"
        curve = forecast.baselines[baseline]
        low, high = curve.interval
    learns = (
        f"A classifier will get about {percent(curve.accuracy)} ({percent(low)} to {percent(high)}) of new rows right"
    )
    against = f" ({who}); always guessing {largest} gets {percent(signal.largest_class)}."
    return f"{learns}{against} {_shortcut_words(forecast)}"


def nothing_to_fix_words(forecast: CorpusResult) -> str:
    """What an empty list of fixes means: without a signal, nothing, because no shortcut could have been found."""
    checked = "No conflicting labels and no empty texts were found."
    if forecast.signal is None:
        return f"Whether there is anything to fix is unknown: too few texts to look for shortcuts. {checked}"
    if not forecast.signal.exists:
        return (
            f"Whether there is anything to fix is unknown: without a signal, shortcuts cannot be looked for. {checked}"
        )
    return "There is nothing to fix: no shortcut that costs accuracy, no conflicting labels, no empty texts."


def _shortcut_words(forecast: CorpusResult) -> str:
    """Which shortcuts a classifier will take, which it may take, and how well it does without them.

    A marker is called a shortcut only if accuracy falls without it by more than chance. If only the loss rises, the
    marker may be one.
    """
    used = [s for s in forecast.shortcuts if s.costs]
    without = forecast.without
    if not used or without is None:
        return "No shortcut was found that costs accuracy when it is removed."
    sure = [s for s in used if s.costs_accuracy]
    unsure = [s for s in used if not s.costs_accuracy]
    before, after, cost, error = (100 * v for v in (without.before, without.accuracy, without.cost, without.error))
    them = "it" if len(used) == 1 else "both" if len(used) == 2 else "all of them"
    effect = (
        f"Trained on texts without {them}, a network that adds up tokens ({without.network}) gets {after:.1f} % right "
        f"instead of {before:.1f} %"
    )
    effect += (
        f" ({cost:.1f} ± {error:.1f} points fewer)."
        if without.cost > without.error
        else f"; the difference ({abs(cost):.1f} ± {error:.1f} points) may be chance."
    )
    count = "a shortcut" if len(sure) == 1 else f"{len(sure)} shortcuts"
    will = f"It will use {count}: {_names(sure)}. " if sure else ""
    lacking = "if new texts lack " + ("it" if len(unsure) == 1 else "them")
    may = f"It may {'also ' if sure else ''}use {_names(unsure)}: {lacking}, the loss rises, "
    chance = "but the change in accuracy may be chance. "
    return f"{will}{may + chance if unsure else ''}{effect}"


def _names(shortcuts: Sequence[Shortcut], shown: int = 3) -> str:
    others = " and others" if len(shortcuts) > shown else ""
    return ", ".join(f'"{s.phrase}"' for s in shortcuts[:shown]) + others


def better_baseline(forecast: CorpusResult) -> str | None:
    """The baseline that gets more held-out rows right than the best network, if that is sure; on the same rows."""
    if not forecast.baselines:
        return None
    name = max(forecast.baselines, key=lambda k: forecast.baselines[k].accuracy)
    network, other = forecast.curves[forecast.best], forecast.baselines[name].chosen_right
    more, error = mean_and_error(other.astype(float) - network.chosen_right, network.group)
    return name if more > error else None


def fix_words(forecast: CorpusResult, fix: Fix) -> str:
    """What to fix, with example rows."""
    places = [forecast.corpus.lines[row] if forecast.corpus.lines else row + 1 for row in fix.rows]
    unit = forecast.corpus.unit if forecast.corpus.lines else "text"
    joined = " / ".join(f"{a} and {b}" for a, b in zip(places[::2], places[1::2], strict=False))
    listed = joined if fix.kind == "conflict" else ", ".join(map(str, places))
    return f"{fix.says} See {unit}{'s' if len(places) > 1 else ''} {listed}."


def trust(forecast: CorpusResult) -> str:
    """How far to trust what."""
    if forecast.signal is None:
        return "Nothing was held out; treat every number as a guess."
    rows = len(forecast.folds.rows) if forecast.folds is not None else 0
    network = forecast.curves[forecast.best].accuracy
    best = max(forecast.baselines, key=lambda k: forecast.baselines[k].accuracy)
    gap = 100 * (network - forecast.baselines[best].accuracy)
    evidence = EVIDENCE[min(3, len(forecast.classes))]
    compared = f"{abs(gap):.1f} % {'above' if gap >= 0 else 'below'} the best baseline ({best})"
    return (
        f"Accuracies are measured on {rows:,} rows that the forecast had not seen; the best network is {compared}. "
        "They apply to networks of these shapes trained from scratch, not to fine-tuned language models. In our tests "
        f"the rank correlation of predicted with trained scores was {evidence}; --train measures it on your texts."
    )


def sizes_words(forecast: CorpusResult) -> str:
    sizes = ", ".join(f"{c}: {n:,}" for c, n in zip(forecast.classes, forecast.class_counts, strict=True))
    return f"{int(forecast.class_counts.sum()):,} texts ({sizes})."


def counted_words(forecast: CorpusResult) -> str:
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


def sign_words(forecast: CorpusResult) -> str:
    """The one sign convention of all scores."""
    if len(forecast.outputs) == 1:
        return f"Scores above 0 are for {forecast.classes[1]}, below 0 for {forecast.classes[0]}."
    return "Every class has its own score; the highest wins."


def biased(forecast: CorpusResult) -> list[str]:
    """Architectures whose bias can change a decision."""
    return [
        name
        for name, scored in forecast.scores.items()
        if abs(scored.bias).max() > NEGLIGIBLE * abs(scored.scores).max(initial=0.0)
    ]


def bias_words(forecast: CorpusResult) -> str:
    """What the bias is, and which architectures have one."""
    return (
        "Bias: the score the model gives to tokens it has never seen. It shifts every other score by the same amount. "
        f"It matters for {', '.join(biased(forecast)) or 'no architecture here'}."
    )


def as_dataset(forecast: CorpusResult) -> xr.Dataset:
    """Curves [architecture, time], NaN where the flow has stopped, and scores [architecture, item, output] by order."""
    names = list(forecast.curves)
    longest = max((len(curve.settings) for curve in forecast.curves.values()), default=0)
    times = max((curve.settings for curve in forecast.curves.values()), key=len, default=np.zeros(0))
    curves: dict[str, Any] = {}
    for key in ("loss", "right"):
        table = np.full((len(names), longest), np.nan)
        for k, name in enumerate(names):
            values = getattr(forecast.curves[name], key).mean(axis=1)
            table[k, : len(values)] = values
        curves["held_out_loss" if key == "loss" else "held_out_accuracy"] = (("architecture", "time"), table)
    coords: dict[str, Any] = {"architecture": names, "time": times.tolist(), "output": list(forecast.outputs)}
    for order, items in forecast.items.items():
        which = [name for name, scored in forecast.scores.items() if scored.order == order]
        if which:
            axis, kind = f"{order}-gram" if order > 1 else "token", f"architecture_{order}"
            coords |= {axis: list(items.names), kind: which}
            scores = np.array([forecast.scores[name].scores for name in which])
            curves["token_scores" if order == 1 else f"scores_{order}"] = ((kind, axis, "output"), scores)
    return trajectory(
        curves, coords, {"held_out_loss": "nats"}, classes=list(forecast.classes), times=dict(forecast.times)
    )


def summary(forecast: CorpusResult, top: int = IN_JSON) -> dict[str, Any]:
    """The content of `--json`: the answer, what to fix, held-out results, the `top` items of every class."""
    scores = {name: forecast.top(name, top) for name in forecast.scores}
    record = {
        "summary": answer(forecast),
        "trust": trust(forecast),
        "fixes": [_fix(forecast, fix) for fix in forecast.fixes],
        "signal": None if forecast.signal is None else {**vars(forecast.signal), "there": forecast.signal.exists},
        "held_out": forecast.table.reset_index().to_dict("records"),
        "learning_curves": {
            name: {
                "time": curve.settings.tolist(),
                "loss": curve.loss.mean(axis=1).tolist(),
                "accuracy": curve.right.mean(axis=1).tolist(),
            }
            for name, curve in forecast.curves.items()
        },
        "shortcuts": [
            {k: v for k, v in vars(s).items() if k not in ("phrases", "place")}
            | {"costs": s.costs, "costs_accuracy": s.costs_accuracy, **vars(s.place)}
            | {"kind": s.kind, "towards": forecast.classes[s.towards]}
            for s in forecast.shortcuts
        ],
        "without_shortcuts": None if forecast.without is None else vars(forecast.without),
        "classes": {name: int(count) for name, count in zip(forecast.classes, forecast.class_counts, strict=True)},
        "sign": sign_words(forecast),
        "window": forecast.window,
        "optimizer": "adaptive" if forecast.adaptive else "sgd",
        "time": forecast.times,
        "same_forecast_as": forecast.same_as,
        "least_occurrences": {str(order): items.least for order, items in forecast.items.items()},
        "tokens_by_chi2": forecast.top_by_chi2(top),
        "tokens": {name: scores[name] for name, scored in forecast.scores.items() if scored.order == 1},
        "ngrams": {name: scores[name] for name, scored in forecast.scores.items() if scored.order > 1},
        "bias": {name: _by_output(forecast, scored.bias) for name, scored in forecast.scores.items()},
        "bias_plateau": {name: _by_output(forecast, plateau) for name, plateau in forecast.plateau.items()},
        "from_imbalance": [forecast.tokens[i] for i in np.flatnonzero(forecast.from_imbalance)],
        "additive_cannot_learn": list(forecast.contradictions),
        "trained": {k: {"spearman": v.spearman, "pearson": v.pearson} for k, v in (forecast.learned or {}).items()},
        "notes": list(forecast.notes),
    }  # fmt: skip
    return record | ({"test": forecast.test_rows()} if forecast.answered is not None else {})


def _fix(forecast: CorpusResult, fix: Fix) -> dict[str, Any]:
    places = [forecast.corpus.place(row) for row in fix.rows]
    texts = [forecast.corpus.texts[row] for row in fix.rows]
    return {"kind": fix.kind, "says": fix.says, "affected": fix.affected, "places": places, "texts": texts}


def _by_output(forecast: CorpusResult, values: Any) -> dict[str, float]:
    return dict(zip(forecast.outputs, map(float, values), strict=True))
