"""Counts a labelled corpus: its tokens and n-grams, how often each class has them, and notes on odd rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from sys import intern
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array
from scipy import sparse

from foretrain.core.errors import InputError, require, require_whole
from foretrain.data.labelled_texts import LabelledTexts
from foretrain.data.tokens import TokenTexts, Vocabulary, token_counts, words
from foretrain.forecast.corpora.baselines import leaning
from foretrain.forecast.corpora.leans import Lean
from foretrain.forecast.corpora.scores import architectures

WINDOW = 2  # default number of tokens in a CNN's window
LEAST = 5  # default number of times that a token or n-gram must occur
FEWEST = 50  # if fewer tokens (or n-grams) occur that often, rarer ones are scored, too
CLASSES = 100  # a forecast takes at most this many classes
FEW_CLASSES = 10  # with more classes than this, at least half must have several texts

Tokenizer = Callable[[str], list[str]]


@dataclass(frozen=True)
class Items:
    """Frequent n-grams of one order (tokens: order 1) with their statistics."""

    names: tuple[str, ...]
    tokens: Int[Array, "item order"]  # token numbers of each item
    by_class: Float[Array, "item class"]  # occurrences in texts of each class
    lean: Lean
    least: int  # every item occurs at least this many times

    def __len__(self) -> int:
        return len(self.names)

    @property
    def occurrences(self) -> Int[Array, "item"]:
        return self.by_class.sum(axis=1).astype(np.int64)

    @property
    def difference(self) -> Float[Array, "item output"]:
        """ω: occurrences in the second class minus those in the first. With more classes: those in each class minus the
        mean over classes."""
        if self.by_class.shape[1] == 2:
            return self.by_class[:, 1:] - self.by_class[:, :1]
        return self.by_class - self.by_class.mean(axis=1, keepdims=True)


@dataclass(frozen=True)
class Counted:
    """A corpus as token numbers, with its frequent items."""

    tokenised: list[list[str]]
    vocabulary: Vocabulary
    texts: TokenTexts
    items: dict[int, Items]  # by order
    window: int
    notes: tuple[str, ...]


def counted(
    corpus: LabelledTexts, *, window: int | None, least: int | None, most: int, tokenize: Tokenizer = words
) -> Counted:
    """Tokenise and count a corpus; the arguments are those of the forecast."""
    _require_classes(corpus)
    require_whole("least", 1 if least is None else least, 1)
    missing = [name for name, count in zip(corpus.classes, corpus.class_counts, strict=True) if count == 0]
    require(not missing, f"No text has the label {', '.join(missing)}; a forecast needs texts of every class.")
    # interning stores each distinct token once, not once per occurrence
    tokenised = [list(map(intern, tokenize(text))) for text in corpus.texts]
    lengths = [len(text) for text in tokenised]
    notes = _long_text(corpus, lengths) + _short_texts(corpus, lengths, window)
    window = window or WINDOW
    counts = token_counts(tokenised)
    require(bool(counts), f"{corpus.place(0)} and after: no text has any tokens.")
    least_for_tokens = _least(least, np.array(list(counts.values())))
    vocabulary = Vocabulary.of_counts(counts, least=least_for_tokens, most=most)
    texts = vocabulary.encode(tokenised)
    every = np.arange(len(vocabulary))  # the last one stands for all rare tokens
    items = {1: _items(vocabulary, every[:, None], every[:-1], texts.counts, corpus, least_for_tokens)}
    for order in sorted({2, window} - {1}):
        items[order] = _ngrams(vocabulary, texts, corpus, order, least, most)
    notes += _rare_items(items, window, LEAST if least is None else least)
    for order, scored_items in items.items():
        if len(scored_items) == most:
            kind = "tokens" if order == 1 else f"{order}-grams"
            notes.append(f"Only the {most:,} most frequent {kind} are scored.")
    return Counted(tokenised, vocabulary, texts, items, window, (*corpus.notes, *notes))


def tokenizer_of(tokenizer: Any) -> Tokenizer:
    """A function from a text to its tokens: our own by default, a function, or a Hugging Face tokenizer."""
    if tokenizer is None:
        return words
    split = getattr(tokenizer, "tokenize", tokenizer)
    require(
        callable(split),
        f"tokenizer must be a function from a text to a list of tokens, or have .tokenize; got {tokenizer!r}.",
    )

    def tokens(text: str) -> list[str]:
        result = split(text)
        listed = isinstance(result, list | tuple) and all(isinstance(token, str) for token in result)
        require(listed, f"The tokenizer must return a list of strings; it returned {type(result).__name__}.")
        return list(result)

    return tokens


def _require_classes(corpus: LabelledTexts) -> None:
    """Refuse labels that look like a column of numbers, names or texts: the forecast would take hours."""
    counts = corpus.class_counts
    place = f"{corpus.file}: " if corpus.file else ""
    require(
        len(counts) <= CLASSES,
        f"{place}there are {len(counts)} classes, and a forecast takes at most {CLASSES}; is --label the right column?",
    )
    single = int((counts == 1).sum())
    require(
        len(counts) <= FEW_CLASSES or 2 * single <= len(counts),
        f"{place}{single} of {len(counts)} classes have a single text; is --label the right column?",
    )


def _short_texts(corpus: LabelledTexts, lengths: Sequence[int], window: int | None) -> list[str]:
    """Notes on texts shorter than the window; an error if the user chose the window."""
    least = WINDOW if window is None else window
    require_whole("window", least, 1)
    notes = []
    for i, length in enumerate(lengths):
        if length < least:
            problem = f"{corpus.place(i)}: the text has {length} token{'' if length == 1 else 's'}"
            if window is not None:
                raise InputError(
                    f"{problem}, fewer than the window ({window}); make the window smaller or delete the row."
                )
            if length:  # reading the file has already noted empty texts
                notes.append(f"{problem}; networks that read windows of {least} see nothing of it.")
    return notes


def _long_text(corpus: LabelledTexts, lengths: Sequence[int]) -> list[str]:
    """A note if one text outweighs all others in squared length: it alone would then set the speed of the flow."""
    squares = np.square(np.array(lengths, dtype=np.float64))
    longest = int(squares.argmax())
    if len(lengths) < 4 or 2 * squares[longest] < squares.sum():
        return []
    return [
        f"{corpus.place(longest)}: the text has {lengths[longest]:,} tokens, while half of the texts have at most "
        f"{int(np.median(lengths)):,}; it outweighs all others, so shorten or delete it."
    ]


def _least(asked: int | None, counts: Int[Array, "item"]) -> int:
    """How often an item must occur: `asked` if given, else 5, or less if fewer than 50 items occur that often."""
    if asked is not None or not len(counts):
        return LEAST if asked is None else asked
    return int(np.clip(np.sort(counts)[-min(FEWEST, len(counts))], 1, LEAST))


def _rare_items(items: dict[int, Items], window: int, asked: int) -> list[str]:
    """Notes for when too few items occur often enough."""
    notes = []
    for order, scored_items in items.items():
        name = "token" if order == 1 else f"{order}-gram"
        least = scored_items.least
        if not len(scored_items):
            without = ", ".join(k for k, kind in architectures(window).items() if kind.order == order)
            notes.append(f"No {name} occurs {least} times or more; there is no forecast for {without}.")
        elif least < asked:
            which = f"those that occur {least} times or more" if least > 1 else "all"
            notes.append(f"Few {name}s occur {asked} times, so {which} are scored.")
    return notes


def _ngrams(
    vocabulary: Vocabulary, texts: TokenTexts, corpus: LabelledTexts, order: int, asked: int | None, most: int
) -> Items:
    """The frequent n-grams that contain no rare token."""
    grams, counts = replace(texts).ngrams(order)  # of a copy, so that the n-grams are not cached
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
    classes = len(corpus.classes)
    lean = leaning(counts, corpus.labels, classes)
    return Items(
        names=tuple(" ".join(vocabulary.tokens[k] for k in gram) for gram in grams[kept]),
        tokens=grams[kept],
        by_class=np.asarray(counts.T @ np.eye(classes)[corpus.labels])[kept],
        lean=Lean(lean.texts[kept], lean.class_counts),
        least=least,
    )
