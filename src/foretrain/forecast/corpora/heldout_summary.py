"""What held-out rows say about a corpus: learning curves, baselines, signal, shortcuts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from foretrain.data.tokens import TokenTexts
from foretrain.forecast.clustered_errors import mean_and_error
from foretrain.forecast.corpora import heldout
from foretrain.forecast.corpora.counting import Counted
from foretrain.forecast.corpora.heldout import HeldOut, LabelSignal, Split
from foretrain.forecast.corpora.result import WithoutShortcuts
from foretrain.forecast.corpora.scores import Architecture, TrainingSet
from foretrain.forecast.corpora.shortcuts import Shortcut, find_shortcuts

TIME = 256.0  # length of the flow where no rows can be held out: what was best on SST-2 and half of what was on AG News
FEWEST_ROWS = 30  # with fewer texts none are held out
ADDITIVE = "MLP GeLU"  # the network by which shortcuts are judged: a text's score is the sum of its tokens' scores


@dataclass(frozen=True)
class Judged:
    """Everything that comes from held-out rows."""

    folds: Split | None = None
    curves: dict[str, HeldOut] = field(default_factory=dict)
    baselines: dict[str, HeldOut] = field(default_factory=dict)
    signal: LabelSignal | None = None
    shortcuts: tuple[Shortcut, ...] = ()
    without: WithoutShortcuts | None = None
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return 0 if self.folds is None else len(self.folds.rows)


def judge(count: Counted, kinds: dict[str, Architecture], whole: TrainingSet, time: float | None) -> Judged:
    """Hold rows out, and see how well networks and baselines learn, by which shortcuts, and what without those."""
    total = len(whole.texts)
    folds = heldout.split(count.tokenised, whole.labels)
    parts = [part for pair in folds.parts() for part in pair]
    if total < FEWEST_ROWS or any(len(np.unique(whole.labels[folds.rows[part]])) < 2 for part in parts):
        note = (
            f"Too few texts to hold any out, so nothing says how well they are learned; the time is {time or TIME:g}."
        )
        return Judged(notes=(note,))
    curves = heldout.learning_curves(kinds, whole, folds, time)
    best = min(curves, key=lambda name: float(curves[name].chosen_loss.mean()))
    judged = Judged(
        folds,
        curves,
        heldout.baseline_curves(whole, folds),
        heldout.signal(curves[best], whole.labels[folds.rows], whole.classes),
        notes=(f"Held-out results are from {len(folds.rows):,} of the {total:,} texts, chosen at random.",)
        * (len(folds.rows) < total),
    )
    assert judged.signal is not None
    if not judged.signal.exists:
        return judged
    additive = next(name for name in (ADDITIVE, *kinds) if name in kinds and kinds[name].order == 1)
    scores = heldout.fold_scores(kinds[additive], whole, folds, curves[additive].setting)
    shortcuts = find_shortcuts(whole.select(folds.rows), count.vocabulary.tokens, folds, scores)
    without = without_shortcuts({additive: kinds[additive]}, whole, folds, time, shortcuts, curves[additive])
    in_corpus = [replace(s, rows=tuple(folds.rows[list(s.rows)].tolist())) for s in shortcuts]
    return replace(judged, shortcuts=tuple(in_corpus), without=without)


def without_shortcuts(
    kind: dict[str, Architecture],
    whole: TrainingSet,
    folds: Split,
    time: float | None,
    shortcuts: list[Shortcut],
    before: HeldOut,
) -> WithoutShortcuts | None:
    """Take all costly shortcuts out of every text, train the flow of one architecture again, and compare."""
    phrases = sorted({p for s in shortcuts if s.costs for p in s.phrases}, key=lambda p: -len(p))  # the longest first
    if not phrases:
        return None
    texts = whole.texts
    rest = TokenTexts.of_lists([removed(texts[i].tolist(), phrases) for i in folds.rows], texts.vocab)
    same_rows = replace(folds, rows=np.arange(len(folds.rows)))
    cleaned = replace(whole, texts=rest, labels=whole.labels[folds.rows])
    (name, after), *_ = heldout.learning_curves(kind, cleaned, same_rows, time).items()
    lost = before.chosen_right.astype(float) - after.chosen_right
    return WithoutShortcuts(name, after.accuracy, before.accuracy, *mean_and_error(lost, folds.group))


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
