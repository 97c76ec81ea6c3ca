"""What held-out rows say about a corpus: learning curves, baselines, signal, shortcuts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy import ndarray as Array

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import TokenTexts
from foretrain.forecast.clustered_errors import mean_and_error
from foretrain.forecast.corpora import heldout
from foretrain.forecast.corpora.counting import Counted
from foretrain.forecast.corpora.heldout import Curve, Signal, Split
from foretrain.forecast.corpora.result import Without
from foretrain.forecast.corpora.scores import Architecture
from foretrain.forecast.corpora.shortcuts import Shortcut, find_shortcuts
from foretrain.kernels.tangent import Scales

TIME = 256.0  # length of the flow where no rows can be held out: what was best on SST-2 and half of what was on AG News
FEWEST_ROWS = 30  # with fewer texts none are held out
ADDITIVE = "MLP GeLU"  # the network by which shortcuts are judged: a text's score is the sum of its tokens' scores


@dataclass(frozen=True)
class Judged:
    """Everything that comes from held-out rows."""

    folds: Split | None = None
    curves: dict[str, Curve] = field(default_factory=dict)
    baselines: dict[str, Curve] = field(default_factory=dict)
    signal: Signal | None = None
    shortcuts: tuple[Shortcut, ...] = ()
    without: Without | None = None
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return 0 if self.folds is None else len(self.folds.rows)


def judge(
    texts: LabelledTexts, count: Counted, kinds: dict[str, Architecture], scales: Scales, adaptive: bool,
    time: float | None,
) -> Judged:  # fmt: skip
    classes = len(texts.classes)
    folds = heldout.split(count.tokenised, texts.labels)
    enough = len(texts) >= FEWEST_ROWS and all(
        len(np.unique(texts.labels[folds.rows[part]])) > 1 for training in folds.parts() for part in training
    )
    if not enough:
        note = (
            f"Too few texts to hold any out, so nothing says how well they are learned; the time is {time or TIME:g}."
        )
        return Judged(notes=(note,))
    curves = heldout.learning_curves(
        kinds, count.texts, texts.labels, classes, folds, scales, adaptive=adaptive, time=time
    )
    baselines = heldout.baseline_curves(count.texts.counts, texts.labels, classes, folds)
    own = texts.labels[folds.rows]
    best = min(curves, key=lambda name: float(curves[name].chosen_loss.mean()))
    signal = heldout.signal(curves[best], own, classes)
    notes = () if len(folds.rows) == len(texts) else (
        f"Held-out results are from {len(folds.rows):,} of the {len(texts):,} texts, chosen at random.",
    )  # fmt: skip
    found: list[Shortcut] = []
    if signal.there:
        additive = next(name for name in (ADDITIVE, *kinds) if name in kinds and kinds[name].order == 1)
        length = curves[additive].setting
        parts = (count.texts, texts.labels, classes, folds, scales)
        token_scores = heldout.fold_scores(kinds[additive], *parts, length, adaptive=adaptive)
        judged = count.texts.select(folds.rows)
        found = find_shortcuts(judged, count.vocabulary.tokens, own, classes, folds.fold, token_scores, folds.group)
        without = without_shortcuts(additive, kinds[additive], *parts, time, adaptive, found, curves[additive])
        found = [replace(s, rows=tuple(folds.rows[list(s.rows)].tolist())) for s in found]
        return Judged(folds, curves, baselines, signal, tuple(found), without, notes)
    return Judged(folds, curves, baselines, signal, (), None, notes)


def without_shortcuts(
    name: str, kind: Architecture, texts: TokenTexts, labels: Array, classes: int, folds: Split, scales: Scales,
    time: float | None, adaptive: bool, found: list[Shortcut], before: Curve,
) -> Without | None:  # fmt: skip
    """Take all costly shortcuts out of every text, train the flow again, and compare."""
    phrases = sorted({p for s in found if s.costs for p in s.phrases}, key=lambda p: -len(p))  # the longest first
    if not phrases:
        return None
    kept = TokenTexts.of_lists([removed(texts[i].tolist(), phrases) for i in folds.rows], texts.vocab)
    own = replace(folds, rows=np.arange(len(folds.rows)))
    after = heldout.learning_curves(
        {name: kind}, kept, labels[folds.rows], classes, own, scales, adaptive=adaptive, time=time
    )[name]
    lost = before.chosen_right.astype(float) - after.chosen_right
    return Without(name, after.accuracy, before.accuracy, *mean_and_error(lost, folds.group))


def removed(tokens: list[int], phrases: list[tuple[int, ...]]) -> list[int]:
    """The text without these phrases."""
    for phrase in phrases:
        n, kept, k = len(phrase), [], 0
        while k < len(tokens):
            if tuple(tokens[k : k + n]) == phrase:
                k += n
            else:
                kept.append(tokens[k])
                k += 1
        tokens = kept
    return tokens
