"""Where in a text a phrase stands, and whether the sentence decides that.

Grammar decides where a word with content stands: in the middle of a sentence, next to some words and not to others.
The place of a marker is decided by something else. Either it is always the same (a signature, a dateline, a template),
or any place will do (a tag that was inserted), and then the text reads on as if the marker were not there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy.stats import binom

from foretrain.data.tokens import TokenTexts

SAME_PLACE = 0.15  # of the text: most occurrences are within a stretch no longer than this
MOST = 0.8  # share of the occurrences that counts as most
CHANCE = 1e-4  # that so many occurrences fall that close together; hundreds of candidates are tried
COMMON = 12  # neighbours are told apart if they are among this many most frequent tokens, or the end of the text
READS_ON = 0.9  # the text reads on if its halves fit as often as this share of all pairs of neighbours in the corpus
LIKE_ANY = 1.8  # neighbours are like any tokens if their shares differ by at most this many times the sampling error
ANYWHERE_TEXTS = 40  # with fewer occurrences chance hides where a word can stand


@dataclass(frozen=True)
class Position:
    """Where a phrase stands; `kind` is "start", "end", "same place", "anywhere", or empty if grammar decides."""

    kind: str
    stretch: float  # the shortest part of the text that has most occurrences
    reads_on: float  # how often the text fits together without it, relative to all pairs of neighbours
    unlike: float  # how far its neighbours are from any tokens, in sampling errors


class Neighbours:
    """Which tokens stand next to each other in these texts."""

    def __init__(self, texts: TokenTexts) -> None:
        flat, lengths = texts.flat, texts.lengths
        self.text = np.repeat(np.arange(len(texts)), lengths)
        self.offset = np.arange(len(flat)) - texts.starts[self.text]
        self.lengths = lengths
        self._flat, self._texts, self._edge = flat, len(texts), texts.vocab
        left = np.where(self.offset > 0, flat[np.maximum(np.arange(len(flat)) - 1, 0)], self._edge)
        last = np.flatnonzero(self.offset == lengths[self.text] - 1)
        pairs = np.concatenate([self._pair(left, flat), self._pair(flat[last], np.full(len(last), self._edge))])
        in_text = np.concatenate([self.text, self.text[last]])
        self._seen, self._times = np.unique(np.unique(pairs * self._texts + in_text) // self._texts, return_counts=True)
        self.usual = float((self._in_texts(pairs) >= 2).mean())  # how often a pair of neighbours is in another text too
        counts = np.bincount(flat, minlength=texts.vocab)
        self._group = np.full(texts.vocab + 1, COMMON)
        self._group[np.argsort(-counts, kind="stable")[:COMMON]] = np.arange(min(COMMON, texts.vocab))
        self._group[self._edge] = COMMON + 1
        shares = np.bincount(self._group[flat], minlength=COMMON + 2).astype(np.float64)
        shares[COMMON + 1] = len(texts)
        self._shares = shares / shares.sum()

    def _pair(self, first: Array, second: Array) -> Int[Array, "pair"]:
        return first.astype(np.int64) * (self._edge + 1) + second

    def _in_texts(self, pairs: Int[Array, "pair"]) -> Int[Array, "pair"]:
        place = np.minimum(np.searchsorted(self._seen, pairs), len(self._seen) - 1)
        return np.where(self._seen[place] == pairs, self._times[place], 0)

    def place(self, occurrences: Int[Array, "occurrence"], order: int) -> Position:
        """Where a phrase of `order` tokens stands that starts at these places of the flattened texts."""
        text = self.text[occurrences]
        length, start = self.lengths[text], self.offset[occurrences]
        end = length - order - start
        stretches = {
            "start": shortest(start) / length.mean(),
            "end": shortest(end) / length.mean(),
            "same place": shortest(start / np.maximum(length - order, 1)),
        }
        narrowest = min(stretches, key=lambda k: stretches[k])
        left = np.where(start > 0, self._flat[np.maximum(occurrences - 1, 0)], self._edge)
        right = np.where(end > 0, self._flat[np.minimum(occurrences + order, len(self._flat) - 1)], self._edge)
        reads_on = float((self._in_texts(self._pair(left, right)) >= 1).mean()) / max(self.usual, 1e-9)
        unlike = max(self._unlike(left), self._unlike(right))
        stretch = float(stretches[narrowest])
        kind = ""
        if stretch <= SAME_PLACE and by_chance(len(occurrences), stretch + 1 / length.mean()) <= CHANCE:
            edge = {"start": start, "end": end}.get(narrowest)
            near = edge is not None and np.quantile(edge, MOST) <= SAME_PLACE * length.mean()
            kind = narrowest if near else "same place"
        elif len(occurrences) >= ANYWHERE_TEXTS and reads_on >= READS_ON and unlike <= LIKE_ANY:
            kind = "anywhere"
        return Position(kind, stretch, reads_on, unlike)

    def _unlike(self, tokens: Int[Array, "occurrence"]) -> float:
        """Total variation between the shares of these tokens and of all, over what sampling alone would give."""
        shares, n = self._shares, len(tokens)
        seen = np.bincount(self._group[tokens], minlength=COMMON + 2) / n
        expected = np.sqrt(2 * shares * (1 - shares) / (np.pi * n)).sum()
        return float(np.abs(seen - shares).sum() / max(expected, 1e-12))


def shortest(values: Float[Array, "value"] | Int[Array, "value"], share: float = MOST) -> float:
    """Length of the shortest interval that holds this share of the values."""
    ordered = np.sort(values)
    held = int(np.ceil(share * len(ordered)))
    return float((ordered[held - 1 :] - ordered[: len(ordered) - held + 1]).min())


def by_chance(occurrences: int, stretch: float) -> float:
    """At most how likely it is that some stretch of this length holds most of the occurrences, if any place will do:
    each of them may be its first, and the others follow within it independently."""
    held = int(np.ceil(MOST * occurrences))
    return float(min(1.0, occurrences * binom.sf(held - 2, occurrences - 1, min(1.0, stretch))))


def is_mark(token: str) -> bool:
    """Whether a token is a single punctuation mark."""
    return len(token) == 1 and not token.isalnum()


def begins_and_ends_with_words(gram: Int[Array, "gram order"], marks: Bool[Array, "vocab"]) -> Bool[Array, "gram"]:
    """Phrases framed by words: "said ." stands at the end only because the full stop does."""
    return (gram.shape[1] == 1) | ~(marks[gram[:, 0]] | marks[gram[:, -1]])
