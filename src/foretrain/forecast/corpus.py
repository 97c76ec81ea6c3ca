"""What a text classifier will key on, said before training from the counts of a labelled corpus.

Scores are those of the flow of each architecture's limit kernel: of single tokens for networks that add up tokens, of
n-grams for those that read windows. A score is in logits, for the second of two classes, or one per class where there
are more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from sys import intern
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy import sparse

from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import UNKNOWN, WORD, TokenTexts, Vocabulary
from foretrain.errors import InputError, require, require_at_least, require_whole
from foretrain.forecast import corpus_leans as leans
from foretrain.forecast.corpus_leans import Lean
from foretrain.forecast.corpus_scores import Scored, architectures, plateaus, scored
from foretrain.kernels.tangent import Scales

WINDOW = 2  # of the CNNs, where none is given


@dataclass(frozen=True)
class Items:
    """Frequent n-grams of one order (tokens: order 1) with their statistics."""

    names: tuple[str, ...]
    tokens: Int[Array, "item order"]  # their token numbers
    lean: Lean

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class CorpusForecast:
    """Everything `foretrain forecast corpus` tells. Scores are [item, output]; outputs are named by `outputs`."""

    classes: tuple[str, ...]
    class_counts: Int[Array, "class"]
    outputs: tuple[str, ...]
    window: int  # of the CNNs
    items: dict[int, Items]  # by order
    scores: dict[str, Scored]  # by architecture
    plateau: dict[str, Float[Array, "output"]]  # where the bias of an MLP settles if tokens say nothing of the class
    from_imbalance: Bool[Array, "token"]
    spurious: dict[str, str]  # token -> why
    contradictions: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.items[1].names

    def of(self, architecture: str) -> Items:
        """What an architecture was asked about."""
        return self.items[self.scores[architecture].order]

    def top(self, architecture: str, n: int) -> dict[str, list[tuple[str, float]]]:
        """The n items of highest score for every class; only those with a score above 0."""
        scores, names = self.scores[architecture].scores, self.of(architecture).names
        columns = np.column_stack([-scores[:, 0], scores[:, 0]]) if len(self.outputs) == 1 else scores
        best = np.argsort(-columns, axis=0, kind="stable")[:n]
        return {
            name: [(names[i], float(columns[i, k])) for i in best[:, k] if columns[i, k] > 0]
            for k, name in enumerate(self.classes)
        }


def forecast_corpus(
    corpus: LabelledTexts,
    *,
    window: int | None = None,
    scales: Scales | None = None,
    least: int = 5,
    most: int = 30_000,
) -> CorpusForecast:
    """The forecast, over tokens and n-grams that occur at least `least` times, `most` of each at the most.

    `window` is that of the CNNs: every text must have as many tokens. Without one it is 2, and shorter texts are noted.
    """
    require_at_least("least", least, 1)
    missing = [name for name, count in zip(corpus.classes, corpus.class_counts, strict=True) if count == 0]
    require(not missing, f"No text has the label {', '.join(missing)}; a forecast needs texts of every class.")
    scales = scales or Scales(0.1, 0.1, 0.1, 0.1)
    cut, capital = _cut(corpus.texts)
    notes = _short_texts(corpus, [len(text) for text in cut], window)
    window = window or WINDOW
    require(any(t != UNKNOWN for text in cut for t in text), f"{corpus.place(0)} and after: no text holds a token.")
    vocabulary = Vocabulary.of(cut, least=min(least, _most_common(cut)), most=most)
    texts = vocabulary.encode(cut)
    del cut
    items = {1: _tokens(vocabulary, texts, corpus)}
    for order in sorted({2, window} - {1}):
        items[order] = _ngrams(vocabulary, texts, corpus, order, least, most)
    scores = _scores(texts, corpus, items, window, scales)
    strong = leans.strong([s.scores for s in scores.values() if s.order == 1])
    pairs = items[2]
    return CorpusForecast(
        classes=corpus.classes,
        class_counts=corpus.class_counts,
        outputs=corpus.classes[1:] if len(corpus.classes) == 2 else corpus.classes,
        window=window,
        items=items,
        scores=scores,
        plateau=plateaus(texts, corpus.labels, len(corpus.classes), scales),
        from_imbalance=strong & leans.from_imbalance(items[1].lean),
        spurious=leans.spurious(items[1].names, strong, items[1].lean, capital),
        contradictions=tuple(
            leans.contradictions(pairs.names, pairs.tokens, items[1].lean, pairs.lean, corpus.classes)
        ),
        notes=(*corpus.notes, *notes),
    )


def _cut(texts: Sequence[str]) -> tuple[list[list[str]], Counter[str]]:
    """Texts as lower-case tokens, and how often each token began with a capital inside a sentence."""
    cut, capital = [], Counter[str]()
    inside = re.compile(r"(?<=[a-z,;] )[A-Z]\w+(?:['’]\w+)*")
    for text in texts:
        cut.append(list(map(intern, WORD.findall(text.lower()))))  # one string per distinct token, not per occurrence
        capital.update(inside.findall(text))
    return cut, leans.capitals(capital)


def _short_texts(corpus: LabelledTexts, lengths: Sequence[int], window: int | None) -> list[str]:
    """Texts without a whole window: refused where the window was asked for, else noted."""
    least = WINDOW if window is None else window
    require_whole("window", least, 1)
    notes = []
    for i, length in enumerate(lengths):
        if length < least:
            count = f"{corpus.place(i)}: the text has {length} token{'' if length == 1 else 's'}"
            if window is not None:
                raise InputError(
                    f"{count}, fewer than the window ({window}); make the window smaller or delete the row."
                )
            if length:  # an empty text was noted when it was read
                notes.append(f"{count}; networks that read windows of {least} see nothing of it.")
    return notes


def _most_common(cut: Sequence[Sequence[str]]) -> int:
    """How often the most frequent token occurs: a file too small for `least` is read with a lower one."""
    counted = Counter(token for text in cut[:1000] for token in text if token != UNKNOWN)
    return max(counted.values(), default=1)


def _scores(
    texts: TokenTexts, corpus: LabelledTexts, items: dict[int, Items], window: int, scales: Scales
) -> dict[str, Scored]:
    """By architecture, for those that have something to score."""
    two = len(corpus.classes) == 2
    target = 2.0 * corpus.labels - 1 if two else np.eye(len(corpus.classes))[corpus.labels]
    kinds = architectures(window)
    found = {}
    for order, of in items.items():
        if len(of):  # one order after another: their n-grams take much memory
            joined = texts.followed_by(TokenTexts.of_rows(of.tokens, texts.vocab))
            for name, kind in kinds.items():
                if kind.order == order:
                    one = scored(kind, texts, joined, target, scales)
                    found[name] = Scored(order, one.scores[: len(of)], one.bias)
    return {name: found[name] for name in kinds if name in found}


def _tokens(vocabulary: Vocabulary, texts: TokenTexts, corpus: LabelledTexts) -> Items:
    """All tokens but the last, which stands for the rare ones."""
    known = len(vocabulary) - 1
    by_class = _by_class(texts.counts, corpus)[:known]
    return Items(vocabulary.tokens[:known], np.arange(known)[:, None], Lean.of(by_class, by_class.sum(axis=0)))


def _ngrams(
    vocabulary: Vocabulary, texts: TokenTexts, corpus: LabelledTexts, order: int, least: int, most: int
) -> Items:
    """Frequent n-grams of known tokens."""
    grams, counts = replace(texts).ngrams(order)  # of a copy, which forgets them
    total = np.asarray(counts.sum(axis=0))
    frequent = np.flatnonzero((total >= least) & (grams < len(vocabulary) - 1).all(axis=1))
    kept = frequent[np.argsort(-total[frequent], kind="stable")[:most]]
    windows = np.maximum(texts.lengths - order + 1, 0)
    everything = np.bincount(corpus.labels, weights=windows, minlength=len(corpus.classes))
    names = tuple(" ".join(vocabulary.tokens[k] for k in gram) for gram in grams[kept])
    return Items(names, grams[kept], Lean.of(_by_class(counts, corpus)[kept], everything))


def _by_class(counts: sparse.csr_array, corpus: LabelledTexts) -> Float[Array, "item class"]:
    """How often each item occurs in each class."""
    return np.asarray(counts.T @ np.eye(len(corpus.classes))[corpus.labels])
