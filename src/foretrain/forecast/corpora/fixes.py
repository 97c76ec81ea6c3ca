"""What to fix in a labelled corpus before training on it, the most important first, each with example rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.forecast.corpora.shortcuts import Shortcut

EXAMPLES = 3  # rows shown with each fix
DUPLICATES = 0.02  # repeated texts are worth a line from this share of the rows on
IMBALANCE = 4.0  # so is a class that has this many times fewer texts than the largest
_NUMBERS, _NOT_LETTERS = re.compile(r"\d+"), re.compile(r"[^\w]+")

PLACES = {
    "start": "at the start of a text",
    "end": "at the end of a text",
    "same place": "at about the same place each time",
    "anywhere": "anywhere in a text, whatever stands next to it",
    "template": "as part of a template",
}


@dataclass(frozen=True)
class Fix:
    """One thing to fix: in words, how many rows it concerns, and where to look."""

    kind: str  # "shortcut", "conflict", "empty", "duplicate", "imbalance", "label"
    says: str
    affected: int  # rows; for a shortcut, of those that were judged
    rows: tuple[int, ...]  # examples, numbered from 0
    weight: float  # what it costs or puts in doubt, as a share of all rows: the order of the list


def fixes(corpus: LabelledTexts, lengths: Sequence[int], shortcuts: Sequence[Shortcut], judged: int) -> list[Fix]:
    """All that is worth fixing, the most important first. Shortcuts were found in so many judged texts."""
    every = [
        *_shortcuts(corpus, shortcuts, judged),
        *_conflicts(corpus),
        *_labels(corpus),
        *_empty(corpus, lengths),
        *_imbalance(corpus),
    ]
    return sorted(every, key=lambda fix: -fix.weight)


def _shortcuts(corpus: LabelledTexts, shortcuts: Sequence[Shortcut], judged: int) -> list[Fix]:
    listed = []
    among = "" if judged == len(corpus) else f"among the {judged:,} texts that were judged: "
    for one in shortcuts:
        if not one.costs:
            continue
        name = corpus.classes[one.towards]
        digits = 1 if one.accuracy_error >= 0.005 else 2  # so that the reader sees whether 0 is in the interval
        lost = f"{100 * one.accuracy_cost:.{digits}f} % (± {100 * one.accuracy_error:.{digits}f})"
        cost = (
            f"if new texts lack it, the forecast loses {lost} accuracy"
            if one.costs_accuracy
            else "this may be a shortcut: if new texts lack it, the loss rises, but the change in accuracy, "
            f"{lost}, may be chance"
        )
        says = (
            f'"{one.phrase}" stands {PLACES[one.kind]}, in {100 * one.share:.0f} % of the texts of class {name} '
            f"({among}{_counts(one, corpus.classes)}); {cost}."
        )
        toward = [row for row in one.rows if corpus.labels[row] == one.towards]
        # a shortcut that decides a share of the rows is as bad as that many wrong labels
        weight = max(one.accuracy_cost, 0.05 * len(one.rows) / judged)
        listed.append(Fix("shortcut", says, len(one.rows), tuple(toward[:EXAMPLES]), weight))
    return listed


def _counts(one: Shortcut, classes: Sequence[str]) -> str:
    """In how many texts a shortcut stands: "61 texts; 8 of Sports"."""
    towards = one.by_class[one.towards]
    others = [
        f"{n:,} of {c}" for k, (c, n) in enumerate(zip(classes, one.by_class, strict=True)) if n and k != one.towards
    ]
    return f"{towards:,} text{'s' * (towards != 1)}" + (f"; {', '.join(others)}" if others else "")


def normal_form(text: str) -> str:
    """A text without capitals, spaces, punctuation and the values of its numbers."""
    return _NOT_LETTERS.sub(" ", _NUMBERS.sub("0", text.casefold())).strip()


def _conflicts(corpus: LabelledTexts) -> list[Fix]:
    """Texts that are the same but for case, punctuation and numbers: with different labels, or often repeated."""
    same: dict[str, list[int]] = {}
    for row, text in enumerate(corpus.texts):
        form = normal_form(text)
        if form:
            same.setdefault(form, []).append(row)
    groups = [rows for rows in same.values() if len(rows) > 1]
    listed = []
    mixed = [rows for rows in groups if len({int(corpus.labels[row]) for row in rows}) > 1]
    if mixed:
        affected = sum(map(len, mixed))
        pairs = [_two_labels(corpus.labels, rows) for rows in mixed[:EXAMPLES]]
        says = f"{affected:,} near-identical texts carry different labels; decide which label is right."
        listed.append(Fix("conflict", says, affected, tuple(k for pair in pairs for k in pair), affected / len(corpus)))
    repeated = sum(len(rows) - 1 for rows in groups)
    if repeated >= DUPLICATES * len(corpus):
        largest = max(groups, key=len)
        says = (
            f"{repeated:,} texts repeat another one, apart from case, punctuation and numbers (the most frequent "
            f"occurs {len(largest):,} times); a random split puts copies into both training and test."
        )
        listed.append(Fix("duplicate", says, repeated, tuple(largest[:EXAMPLES]), 0.5 * repeated / len(corpus)))
    return listed


def _two_labels(labels: Int[Array, "text"], rows: list[int]) -> tuple[int, int]:
    other = next(row for row in rows if labels[row] != labels[rows[0]])
    return rows[0], other


def _labels(corpus: LabelledTexts) -> list[Fix]:
    """Labels that differ only in case or spaces."""
    listed = []
    by_form: dict[str, list[int]] = {}
    for k, name in enumerate(corpus.classes):
        by_form.setdefault("".join(name.casefold().split()), []).append(k)
    for same in (group for group in by_form.values() if len(group) > 1):
        rows = [int(np.flatnonzero(corpus.labels == k)[0]) for k in same if (corpus.labels == k).any()]
        affected = int(np.isin(corpus.labels, same).sum())
        names = " and ".join(repr(corpus.classes[k]) for k in same)
        says = f"The labels {names} differ only in case or spaces; write them the same way if they are one class."
        listed.append(Fix("label", says, affected, tuple(rows), affected / len(corpus)))
    return listed


def _empty(corpus: LabelledTexts, lengths: Sequence[int]) -> list[Fix]:
    rows = [row for row, length in enumerate(lengths) if length == 0]
    if not rows:
        return []
    says = f"{len(rows):,} {'texts have' if len(rows) > 1 else 'text has'} no tokens; delete them or fill them in."
    return [Fix("empty", says, len(rows), tuple(rows[:EXAMPLES]), len(rows) / len(corpus))]


def _imbalance(corpus: LabelledTexts) -> list[Fix]:
    counts = corpus.class_counts
    small, large = int(counts.argmin()), int(counts.argmax())
    if counts[large] < IMBALANCE * counts[small]:
        return []
    says = (
        f"Class {corpus.classes[small]} has {counts[small]:,} texts and {corpus.classes[large]} {counts[large]:,}; "
        "collect more of the first, or judge by balanced accuracy."
    )
    rows = tuple(np.flatnonzero(corpus.labels == small)[:EXAMPLES].tolist())
    return [Fix("imbalance", says, int(counts[small]), rows, 0.02 * counts[large] / counts.sum())]
