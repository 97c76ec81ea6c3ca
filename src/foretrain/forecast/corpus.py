"""What a text classifier will key on, said before training from the counts of a labelled corpus.

Scores are those of the flow of each architecture's limit kernel: of single tokens for networks that add up tokens, of
n-grams for those that read windows. A score is in logits, for the second of two classes, or one per class where there
are more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from sys import intern
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy import sparse

from foretrain.core.errors import InputError, require, require_positive, require_whole
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import TokenTexts, Vocabulary, token_counts, words
from foretrain.forecast import corpus_leans as leans
from foretrain.forecast.corpus_leans import Lean
from foretrain.forecast.corpus_scores import SCALES, TIME, Scored, architectures, plateaus, scored, targets
from foretrain.kernels.tangent import Scales

WINDOW = 2  # of the CNNs, where none is given
LEAST = 5  # occurrences of a token or n-gram, where none is given
FEWEST = 50  # with fewer of those, rarer ones are taken too
CLASSES = 100  # at the most
FEW_CLASSES = 10  # so many may mostly have a single text
LONGEST = 10_000  # flow


@dataclass(frozen=True)
class Items:
    """Frequent n-grams of one order (tokens: order 1) with their statistics."""

    names: tuple[str, ...]
    tokens: Int[Array, "item order"]  # their token numbers
    by_class: Float[Array, "item class"]  # occurrences
    lean: Lean
    least: int  # every one occurs as often

    def __len__(self) -> int:
        return len(self.names)

    @property
    def occurrences(self) -> Int[Array, "item"]:
        return self.by_class.sum(axis=1).astype(np.int64)

    @property
    def difference(self) -> Float[Array, "item output"]:
        """ω: occurrences with the second class less those with the first; of more classes, those beyond an equal
        share."""
        if self.by_class.shape[1] == 2:
            return self.by_class[:, 1:] - self.by_class[:, :1]
        return self.by_class - self.by_class.mean(axis=1, keepdims=True)


@dataclass(frozen=True)
class CorpusForecast:
    """Everything `foretrain forecast corpus` tells. Scores are [item, output]; outputs are named by `outputs`."""

    classes: tuple[str, ...]
    class_counts: Int[Array, "class"]
    outputs: tuple[str, ...]
    window: int  # of the CNNs
    time: float  # length of the flow
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


@dataclass(frozen=True)
class Learned:
    """Scores of the items of an architecture after training, and how they go with those predicted for its texts."""

    scores: Float[Array, "item output"]
    predicted: Float[Array, "item output"]
    spearman: float
    pearson: float


def forecast_corpus(
    corpus: LabelledTexts,
    *,
    window: int | None = None,
    scales: Scales = SCALES,
    least: int | None = None,
    most: int = 30_000,
    time: float = TIME,
) -> CorpusForecast:
    """The forecast, over tokens and n-grams that occur at least `least` times, `most` of each at the most.

    `window` is that of the CNNs: every text must have as many tokens. Without one it is 2, and shorter texts are noted.
    Without `least` it is 5, or less where fewer than 50 tokens (n-grams) occur as often; a note says so.
    `time` is how long the flow goes on, in times that the fastest direction of the counts needs.
    """
    require_positive("time", time)
    require(time <= LONGEST, f"time must be at most {LONGEST}, since the work grows with it; got {time:g}.")
    _require_classes(corpus)
    require_whole("least", 1 if least is None else least, 1)
    missing = [name for name, count in zip(corpus.classes, corpus.class_counts, strict=True) if count == 0]
    require(not missing, f"No text has the label {', '.join(missing)}; a forecast needs texts of every class.")
    # one string per distinct token, not per occurrence
    cut = [list(map(intern, words(text))) for text in corpus.texts]
    lengths = [len(text) for text in cut]
    notes = _long_text(corpus, lengths) + _short_texts(corpus, lengths, window)
    window = window or WINDOW
    counted = token_counts(cut)
    require(bool(counted), f"{corpus.place(0)} and after: no text holds a token.")
    least_of_token = _least(least, np.array(list(counted.values())))
    vocabulary = Vocabulary.of_counts(counted, least=least_of_token, most=most)
    texts = vocabulary.encode(cut)
    del cut
    items = {1: _tokens(vocabulary, texts, corpus, least_of_token)}
    for order in sorted({2, window} - {1}):
        items[order] = _ngrams(vocabulary, texts, corpus, order, least, most)
    notes += _rare_items(items, window, LEAST if least is None else least) + _frequent_items(items, most)
    scores = _scores(texts, corpus, items, window, scales, time)
    of_tokens = [s.scores for s in scores.values() if s.order == 1]
    strong = leans.strong(of_tokens)
    tokens, pairs = items[1], items[2]
    return CorpusForecast(
        classes=corpus.classes,
        class_counts=corpus.class_counts,
        outputs=corpus.classes[1:] if len(corpus.classes) == 2 else corpus.classes,
        window=window,
        time=time,
        items=items,
        scores=scores,
        plateau=plateaus(texts, corpus.labels, len(corpus.classes), scales),
        from_imbalance=leans.toward_larger(of_tokens, tokens.lean.share) & leans.from_imbalance(tokens.lean),
        spurious=leans.spurious(
            tokens.names, tokens.lean, strong, leans.names_among(tokens.names, tokens.occurrences, corpus.texts)
        ),
        contradictions=tuple(leans.contradictions(pairs.names, pairs.tokens, tokens.lean, pairs.lean, corpus.classes)),
        notes=(*corpus.notes, *notes),
    )


def _require_classes(corpus: LabelledTexts) -> None:
    """A column of numbers, names or texts taken for the labels would be forecast for hours."""
    counts = corpus.class_counts
    place = f"{corpus.file}: " if corpus.file else ""
    require(
        len(counts) <= CLASSES,
        f"{place}there are {len(counts)} classes, and a forecast takes {CLASSES} at the most; "
        "is --label the right column?",
    )
    single = int((counts == 1).sum())
    require(
        len(counts) <= FEW_CLASSES or 2 * single <= len(counts),
        f"{place}{single} of {len(counts)} classes have a single text; is --label the right column?",
    )


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


def _long_text(corpus: LabelledTexts, lengths: Sequence[int]) -> list[str]:
    """A text as long as all others together, in their squares, alone sets the pace of the flow."""
    squares = np.square(np.array(lengths, dtype=np.float64))
    longest = int(squares.argmax())
    if len(lengths) < 4 or 2 * squares[longest] < squares.sum():
        return []
    return [
        f"{corpus.place(longest)}: the text has {lengths[longest]:,} tokens where half of the texts have at most "
        f"{int(np.median(lengths)):,}; it outweighs all others, so shorten or delete it, or take a longer --time."
    ]


def _frequent_items(items: dict[int, Items], most: int) -> list[str]:
    return [
        f"Only the {most:,} most frequent {'tokens' if order == 1 else f'{order}-grams'} are taken."
        for order, of in items.items()
        if len(of) == most
    ]


def _least(asked: int | None, counts: Int[Array, "item"]) -> int:
    """How often an item must occur: in a small corpus, so that there are enough of them."""
    if asked is not None or not len(counts):
        return LEAST if asked is None else asked
    return int(np.clip(np.sort(counts)[-min(FEWEST, len(counts))], 1, LEAST))


def _rare_items(items: dict[int, Items], window: int, asked: int) -> list[str]:
    """What the reader must know of items that are too rare."""
    notes = []
    for order, of in items.items():
        name = "token" if order == 1 else f"{order}-gram"
        if not len(of):
            without = ", ".join(k for k, kind in architectures(window).items() if kind.order == order)
            notes.append(f"No {name} occurs {of.least} times or more; there is no forecast for {without}.")
        elif of.least < asked:
            taken = f"those that occur {of.least} times or more" if of.least > 1 else "all"
            notes.append(f"Few {name}s occur {asked} times; {taken} are taken.")
    return notes


def _scores(
    texts: TokenTexts, corpus: LabelledTexts, items: dict[int, Items], window: int, scales: Scales, time: float
) -> dict[str, Scored]:
    """By architecture, for those that have something to score."""
    target = targets(corpus.labels, len(corpus.classes))
    kinds = architectures(window)
    scores = {}
    for order, of in items.items():
        if len(of):  # one order after another: their n-grams take much memory
            joined = texts.followed_by(TokenTexts.of_rows(of.tokens, texts.vocab))
            for name, kind in kinds.items():
                if kind.order == order:
                    scores[name] = scored(kind, texts, joined, target, scales, time)
    return {name: scores[name] for name in kinds if name in scores}


def _tokens(vocabulary: Vocabulary, texts: TokenTexts, corpus: LabelledTexts, least: int) -> Items:
    """All tokens but the last, which stands for the rare ones."""
    every = np.arange(len(vocabulary))
    return _items(vocabulary, every[:, None], every[:-1], texts.counts, corpus, least)


def _ngrams(
    vocabulary: Vocabulary, texts: TokenTexts, corpus: LabelledTexts, order: int, asked: int | None, most: int
) -> Items:
    """Frequent n-grams of known tokens."""
    grams, counts = replace(texts).ngrams(order)  # of a copy, which forgets them
    known = np.flatnonzero((grams < len(vocabulary) - 1).all(axis=1))
    total = np.asarray(counts.sum(axis=0))[known]
    least = _least(asked, total)
    kept = known[np.argsort(-total, kind="stable")[: min(most, int((total >= least).sum()))]]
    return _items(vocabulary, grams, kept, counts, corpus, least)


def _items(
    vocabulary: Vocabulary,
    grams: Int[Array, "gram order"],
    kept: Int[Array, "item"],
    counts: sparse.csr_array,
    corpus: LabelledTexts,
    least: int,
) -> Items:
    class_of = np.eye(len(corpus.classes))[corpus.labels]
    held = sparse.csr_array((np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape)
    return Items(
        names=tuple(" ".join(vocabulary.tokens[k] for k in gram) for gram in grams[kept]),
        tokens=grams[kept],
        by_class=np.asarray(counts.T @ class_of)[kept],
        lean=Lean(np.asarray(held.T @ class_of)[kept], corpus.class_counts.astype(np.float64)),
        least=least,
    )
