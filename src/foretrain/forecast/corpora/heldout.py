"""What the flow gets right on rows it has not seen: the predicted learning curve, and when training should stop.

Rows are split into folds; every fold is predicted from the others, at the time that is best for the others. A fold's
own rows still have two small effects: the times that are tried end where its own loss has risen, and the network that
is reported is the best of several on these rows, which is not corrected for. Copies of a text count as one text in
intervals and in the test for signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy import sparse

from foretrain.core.progress import Progress, tell
from foretrain.core.streams import stream
from foretrain.data.tokens import TokenTexts
from foretrain.forecast.clustered_errors import share_interval
from foretrain.forecast.corpora import baselines
from foretrain.forecast.corpora.baselines import guesses, losses
from foretrain.forecast.corpora.flow import flow, grid
from foretrain.forecast.corpora.scores import Architecture, TrainingSet, scored, set_up

FOLDS = 3
MOST_ROWS = 4000  # more rows are sampled: the interval is then below ± 1.6 %
LONGEST = 2.0**14  # longest flow that is tried
PATIENCE = 2  # the flow stops when the held-out loss has not fallen for this many doublings of the time
SHUFFLES = 999  # of the labels, for the noise floor
CHANCE = 0.001  # there is signal if none of the shuffled labels does as well; several networks were tried, so be strict


@dataclass(frozen=True)
class Split:
    """The rows that are judged, and the fold of each; equal texts have the same group, and are in the same fold."""

    rows: Int[Array, "row"]
    fold: Int[Array, "row"]
    group: Int[Array, "row"]

    def parts(self) -> list[tuple[Int[Array, "training"], Int[Array, "held_out"]]]:
        """Places in `rows` to train on and to judge, for every fold."""
        return [(np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)) for k in range(self.fold.max() + 1)]


def split(texts: Sequence[Sequence[str]], labels: Int[Array, "text"], most: int = MOST_ROWS) -> Split:
    """Folds with the same shares of the classes."""
    draw = stream("forecast/folds")
    rows = np.sort(draw.permutation(len(texts))[:most])
    by_text: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        by_text.setdefault(tuple(texts[row]), []).append(place)
    groups = list(by_text.values())
    mixed = draw.permutation(len(groups))
    in_order = sorted(mixed.tolist(), key=lambda g: (labels[rows[groups[g][0]]], len(groups[g])))
    fold, number = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for k, group in enumerate(in_order):  # dealt out class by class
        fold[groups[group]] = k % FOLDS
        number[groups[group]] = group
    return Split(rows, fold, number)


@dataclass(frozen=True)
class HeldOut:
    """Held-out results of one learner at each setting: a time of the flow, or a penalty of logistic regression."""

    settings: Float[Array, "setting"]
    loss: Float[Array, "setting row"]
    right: Bool[Array, "setting row"]
    best: int  # the setting with the lowest loss over all rows
    logits: Float[Array, "row output"]  # each fold at the setting that is best on the other folds
    chosen_loss: Float[Array, "row"]
    chosen_right: Bool[Array, "row"]
    group: Int[Array, "row"]  # rows of one group are copies of one text

    @classmethod
    def of(cls, settings: Array, logits: Float[Array, "setting row output"], target: Array, folds: Split) -> HeldOut:
        loss = np.array([losses(z, target) for z in logits])
        label = guesses(target[:, None] if target.ndim == 1 else target)
        right = np.array([guesses(z) == label for z in logits])
        best_for = [int(loss[:, training].mean(axis=1).argmin()) for training, _ in folds.parts()]
        at, places = np.array(best_for)[folds.fold], np.arange(len(folds.fold))
        return cls(
            np.asarray(settings, dtype=np.float64), loss, right, int(loss.mean(axis=1).argmin()), logits[at, places],
            loss[at, places], right[at, places], folds.group,
        )  # fmt: skip

    @property
    def setting(self) -> float:
        return float(self.settings[self.best])

    @property
    def accuracy(self) -> float:
        return float(self.chosen_right.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the accuracy (Wilson), for rows like these; copies of a text do not make it narrower."""
        return share_interval(self.chosen_right, self.group)


def learning_curves(
    kinds: Mapping[str, Architecture], whole: TrainingSet, folds: Split, time: float | None = None
) -> dict[str, HeldOut]:
    """The curve of each architecture; with `time` there is no choice, and the flow ends there."""
    curves = {}
    work, done = len(kinds) * len(folds.parts()), 0
    judged = whole.select(folds.rows)
    for name, kind in kinds.items():
        by_fold = []
        for training, held_out in folds.parts():
            tell(Progress(done, work, f"held-out rows, {name}", inner=True))
            by_fold.append(_fold_logits(kind, judged.select(training), judged.select(held_out), time))
            done += 1
        length = min(len(logits) for logits in by_fold)
        logits = np.zeros((length, len(folds.rows), whole.outputs))
        for (_, held_out), values in zip(folds.parts(), by_fold, strict=True):
            logits[:, held_out] = values[:length]
        times = grid(time or LONGEST)[:length]
        if time is not None:
            times, logits = times[-1:], logits[-1:]
        curves[name] = HeldOut.of(times, logits, judged.target, folds)
    return curves


def _fold_logits(
    kind: Architecture, training: TrainingSet, held_out: TrainingSet, time: float | None
) -> Float[Array, "time row output"]:
    """Scores of the held-out texts at the times of the grid, until their loss rises."""
    setup = set_up(kind, training, held_out.texts)
    logits: list[Array] = []
    loss: list[float] = []
    for pulls in flow(setup.kernel, training.target[setup.chosen], grid(time or LONGEST)):
        logits.append(setup.cross(pulls))
        loss.append(float(losses(logits[-1], held_out.target).mean()))
        if time is None and len(loss) - 1 - int(np.argmin(loss)) >= PATIENCE:
            break
    return np.array(logits)


def fold_scores(kind: Architecture, whole: TrainingSet, folds: Split, time: float) -> Float[Array, "fold token output"]:
    """Scores that an additive network gives every token if trained on the other folds."""
    judged, vocab = whole.select(folds.rows), whole.texts.vocab
    every = TokenTexts.of_rows(np.arange(vocab)[:, None], vocab)
    return np.array([scored(kind, judged.select(training), every, time).scores for training, _ in folds.parts()])


def baseline_curves(whole: TrainingSet, folds: Split) -> dict[str, HeldOut]:
    """The same rows for log-odds, signed χ² and logistic regression."""
    table, labels = sparse.csr_array(whole.texts.counts[folds.rows]), whole.labels[folds.rows]
    target = whole.select(folds.rows).target
    settings = {"logistic regression": np.array(baselines.PENALTIES), "log-odds": np.zeros(1), "signed χ²": np.zeros(1)}
    logits = {name: np.zeros((len(tried), len(labels), whole.outputs)) for name, tried in settings.items()}
    for training, held_out in folds.parts():
        known, rest = sparse.csr_array(table[training]), sparse.csr_array(table[held_out])
        lean = baselines.leaning(known, labels[training], whole.classes)
        logits["log-odds"][0, held_out] = baselines.log_odds(lean).logits(rest)
        logits["signed χ²"][0, held_out] = baselines.signed_chi2(lean).logits(rest)
        for k, penalty in enumerate(baselines.PENALTIES):
            model = baselines.logistic_regression(known, target[training], penalty)
            logits["logistic regression"][k, held_out] = model.logits(rest)
    return {name: HeldOut.of(settings[name], z, target, folds) for name, z in logits.items()}


@dataclass(frozen=True)
class LabelSignal:
    """Whether the held-out predictions have anything to do with the labels."""

    chance: float  # share of shuffled labels that the predictions fit at least as well as the real ones
    floor: float  # accuracy that 19 of 20 shuffled labels stay below
    largest_class: float  # accuracy of always guessing the largest class

    @property
    def exists(self) -> bool:
        return self.chance <= CHANCE


def signal(curve: HeldOut, labels: Int[Array, "row"], classes: int) -> LabelSignal:
    """Shuffle the labels of the held-out texts, and see how well the same predictions fit.

    Every different text counts once: copies get the same prediction and keep their labels together.
    """
    draw = stream("forecast/shuffled")
    _, first, group, copies = np.unique(curve.group, return_index=True, return_inverse=True, return_counts=True)
    logits = curve.logits[first]
    table = np.column_stack([np.zeros(len(logits)), logits[:, 0]]) if classes == 2 else logits
    guess, places = guesses(logits), np.arange(len(first))
    shares = np.zeros((len(first), classes))  # of the labels of a text's copies
    np.add.at(shares, (group, labels), 1 / copies[group])
    fits, right = [], []
    for _ in range(SHUFFLES):
        shuffled = shares[draw.permutation(len(first))]
        fits.append(float((table * shuffled).sum()))
        right.append(float(copies @ shuffled[places, guess]) / len(labels))
    as_good = np.array(fits) >= float((table * shares).sum()) - 1e-12
    share = np.bincount(labels, minlength=classes) / len(labels)
    return LabelSignal(float((as_good.sum() + 1) / (SHUFFLES + 1)), float(np.quantile(right, 0.95)), float(share.max()))
