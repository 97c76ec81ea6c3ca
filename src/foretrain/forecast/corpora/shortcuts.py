"""Shortcuts: markers that a classifier will use although the text does not mean them.

A candidate is a token or a phrase of up to five tokens that leans to a class by more than chance. It is a shortcut if
grammar does not decide where it stands (see `fixed_positions`) and the flow relies on it: without it, the held-out
loss rises. Shortcuts are ranked by what their removal costs; markers in many texts are listed even if that is nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy.stats import false_discovery_control

from foretrain.data.tokens import TokenTexts
from foretrain.forecast.clustered_errors import SIDES, mean_and_error
from foretrain.forecast.corpora.baselines import guesses, losses
from foretrain.forecast.corpora.fixed_positions import Neighbours, Position, begins_and_ends_with_words, is_mark
from foretrain.forecast.corpora.heldout import Split
from foretrain.forecast.corpora.leans import FALSE_DISCOVERIES, Lean
from foretrain.forecast.corpora.scores import TrainingSet

ORDERS = range(1, 6)  # phrases of up to five tokens
FREQUENT = 6000  # phrases are made of at most this many tokens, so that a phrase is one 64-bit number
FEWEST_TEXTS = 10  # a shortcut is in at least this many texts,
RAREST = 1 / 250  # and in at least this share of them
SURE = 3  # the loss rises by at least this many standard errors: hundreds of candidates are tried
WIDESPREAD = 0.01  # in this share of the texts a marker is listed even if its removal costs nothing yet
SAME_TEXTS = 0.6  # phrases are one shortcut if this share of the texts of either has both
NEARLY_ALL = 0.9  # a phrase can name a shortcut if it shares this many of its texts
UNIT = 0.3  # a phrase is a unit if this share of the occurrences of its rarest token is in it
TEMPLATE = 0.5  # it is a template if its phrases cover this share of their texts


@dataclass(frozen=True)
class Shortcut:
    """A marker, where it stands, and what its removal from the held-out rows costs the flow."""

    phrase: str
    phrases: tuple[tuple[int, ...], ...]  # token numbers of all phrases that come with it, and are removed with it
    kind: str  # "start", "end", "same place", "anywhere" or "template"
    towards: int  # the class it leans to
    by_class: tuple[int, ...]  # texts with it in each class, among the rows that were judged
    share: float  # of the texts of that class, how many have it
    contrast: float  # that share minus the mean share of the other classes
    rows: tuple[int, ...]  # texts that have it
    accuracy_cost: float  # held-out accuracy lost without it
    accuracy_error: float  # half of its 95 % interval
    loss_cost: float  # rise of the held-out loss, in nats per row
    loss_error: float
    place: Position

    @property
    def costs(self) -> bool:
        """Whether the held-out loss surely rises without it. A marker that costs nothing now may do so elsewhere."""
        return self.loss_cost > SURE * self.loss_error / SIDES

    @property
    def costs_accuracy(self) -> bool:
        """Whether accuracy falls without it too: the 95 % interval of what is lost lies above 0."""
        return self.costs and self.accuracy_cost > self.accuracy_error


@dataclass(frozen=True)
class _Candidate:
    tokens: tuple[int, ...]
    occurrences: Int[Array, "occurrence"]
    by_class: Float[Array, "class"]


def find_shortcuts(
    judged: TrainingSet, names: Sequence[str], folds: Split, scores: Float[Array, "fold token output"]
) -> list[Shortcut]:
    """The shortcuts in these texts, the most costly first; `folds` are theirs, and `names` those of the tokens.

    `scores` are those of an additive network trained on the other folds; the score of a text is their sum.
    """
    texts, labels, classes, target = judged.texts, judged.labels, judged.classes, judged.target
    if not len(texts.flat):
        return []
    near = Neighbours(texts)
    by_text = scores[folds.fold[near.text], texts.flat]
    logits = np.zeros((len(texts), scores.shape[2]))
    np.add.at(logits, near.text, by_text)

    def shortcut_of(candidate: _Candidate, kind: str, place: Position, together: Sequence[_Candidate]) -> Shortcut:
        """What it costs to take a phrase, and all that always comes with it, out of the held-out rows."""
        gone = np.zeros(len(texts.flat), dtype=bool)
        for other in together:
            for j in range(len(other.tokens)):
                gone[other.occurrences + j] = True
        rows, group = np.unique(near.text[gone], return_inverse=True)
        lost = np.zeros((len(rows), scores.shape[2]))
        np.add.at(lost, group, by_text[gone])
        before, after, true = logits[rows], logits[rows] - lost, labels[rows]
        rise, missed = np.zeros(len(labels)), np.zeros(len(labels))  # 0 for texts without it
        rise[rows] = losses(after, target[rows]) - losses(before, target[rows])
        missed[rows] = (guesses(before) == true).astype(float) - (guesses(after) == true)
        shares = candidate.by_class / np.bincount(labels, minlength=classes)
        return Shortcut(
            " ".join(names[k] for k in candidate.tokens), tuple(dict.fromkeys(c.tokens for c in together)), kind,
            int(shares.argmax()), tuple(int(n) for n in candidate.by_class), float(shares.max()),
            float(shares.max() - (shares.sum() - shares.max()) / (classes - 1)),
            tuple(np.unique(near.text[candidate.occurrences]).tolist()),
            *mean_and_error(missed, folds.group), *mean_and_error(rise, folds.group), place,
        )  # fmt: skip

    shortcuts = []
    for candidate in _candidates(judged, names):
        place = near.place(candidate.occurrences, len(candidate.tokens))
        if place.kind:
            shortcut = shortcut_of(candidate, place.kind, place, [candidate])
            if shortcut.costs or len(shortcut.rows) >= WIDESPREAD * len(texts):
                shortcuts.append((candidate, shortcut))
    merged = []
    for group in _groups(shortcuts):
        first, whole, kind = _named(group, texts)
        merged.append(shortcut_of(first[0], kind, first[1].place, [candidate for candidate, _ in whole]))
    return sorted(merged, key=lambda s: -s.loss_cost)


def _candidates(judged: TrainingSet, names: Sequence[str]) -> Iterator[_Candidate]:
    """Phrases framed by words that are a unit and lean to a class by more than chance."""
    texts, labels, classes = judged.texts, judged.labels, judged.classes
    number, unknown = _renumbered(texts)
    flat = number[texts.flat]
    occurrences = np.bincount(flat, minlength=unknown + 1)
    back = np.flatnonzero(number < unknown)[np.argsort(number[number < unknown])]
    marks = np.array([is_mark(names[k]) for k in back])
    text = np.repeat(np.arange(len(texts)), texts.lengths)
    left = texts.starts[text + 1] - np.arange(len(flat))  # tokens from here to the end of the text
    least = max(FEWEST_TEXTS, int(np.ceil(RAREST * len(texts))))
    sizes = np.bincount(labels, minlength=classes).astype(np.float64)
    candidates: list[_Candidate] = []
    for order in ORDERS:
        at = np.flatnonzero(left >= order)
        window = np.stack([flat[at + j] for j in range(order)], axis=1)
        whole = (window < unknown).all(axis=1)
        at, window = at[whole], window[whole]
        at = at[kept := begins_and_ends_with_words(window, marks)] if len(at) else at
        window = window[kept] if len(at) else window[:0]
        _, first, group = np.unique(
            window @ (unknown + 1) ** np.arange(order)[::-1], return_index=True, return_inverse=True
        )
        pairs = np.unique(group.astype(np.int64) * len(texts) + text[at])
        by_class = np.zeros((len(first), classes))
        np.add.at(by_class, (pairs // len(texts), labels[pairs % len(texts)]), 1)
        in_order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[in_order], np.arange(len(first) + 1))
        rarest = occurrences[window[first]].min(axis=1) if len(first) else np.zeros(0)
        unit = np.bincount(group, minlength=len(first)) >= UNIT * rarest
        for k in np.flatnonzero((by_class.sum(axis=1) >= least) & unit):
            places = at[in_order[starts[k] : starts[k + 1]]]
            candidates.append(_Candidate(tuple(back[window[first[k]]].tolist()), places, by_class[k]))
    if not candidates:
        return
    chance = np.minimum(1, classes * Lean(np.array([c.by_class for c in candidates]), sizes).two_sided.min(axis=1))
    for k in np.flatnonzero(false_discovery_control(chance) <= FALSE_DISCOVERIES):
        yield candidates[k]


def _renumbered(texts: TokenTexts) -> tuple[Int[Array, "vocab"], int]:
    """New numbers of the most frequent tokens; all others share the last one, as does the token for unknown ones."""
    counts = np.bincount(texts.flat, minlength=texts.vocab)
    counts[-1] = 0
    frequent = np.argsort(-counts, kind="stable")[: min(FREQUENT, texts.vocab - 1)]
    number = np.full(texts.vocab, len(frequent), dtype=np.int64)
    number[frequent] = np.arange(len(frequent))
    return number, len(frequent)


_Costly = tuple[_Candidate, Shortcut]


def _groups(shortcuts: list[_Costly]) -> list[list[_Costly]]:
    """Phrases in the same texts belong together; the first of a group separates the classes best. Another phrase is a
    part or an extension of it if it is mostly in texts that have it, and shares a token with the group."""
    groups: list[list[_Costly]] = []
    for candidate, shortcut in sorted(shortcuts, key=lambda f: (-f[1].contrast, -len(f[0].tokens))):
        texts = set(shortcut.rows)
        for group in groups:
            rows = set(group[0][1].rows)
            related = any(set(candidate.tokens) & set(other.tokens) for other, _ in group)
            if _in_common(texts, rows) >= SAME_TEXTS or (related and len(texts & rows) >= SAME_TEXTS * len(texts)):
                group.append((candidate, shortcut))
                break
        else:
            groups.append([(candidate, shortcut)])
    return groups


def _in_common(first: set[int], second: set[int]) -> float:
    return len(first & second) / max(len(first), len(second))


def _named(group: list[_Costly], texts: TokenTexts) -> tuple[_Costly, list[_Costly], str]:
    """The phrase that names a group (the longest in nearly the same texts as its first, rather with a word than with
    marks only), all such phrases, and where it stands: it is a template if these are most of the texts."""
    rows_of_first = set(group[0][1].rows)
    whole = [f for f in group if _in_common(rows_of_first, set(f[1].rows)) >= NEARLY_ALL]
    first = max(whole, key=lambda f: (any(c.isalnum() for c in f[1].phrase), len(f[0].tokens), len(f[1].phrase)))
    tokens = sorted({token for candidate, _ in whole for token in candidate.tokens})
    rows = list(first[1].rows)
    inside = sum(int(np.isin(texts[row], tokens).sum()) for row in rows)
    # at least six tokens, so that a signature below a short text is not a template
    template = len(tokens) >= 6 and inside >= TEMPLATE * texts.lengths[rows].sum()
    return first, whole, "template" if template else first[1].kind
