"""From texts to tokens and counts: a vocabulary of the training texts, and sparse count matrices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array
from scipy import sparse

from foretrain.core.errors import require

# Markup and addresses become one token each, so that they are not mistaken for words: tags (also escaped ones),
# entities (also some that lost their &, since no word is written like that) and web addresses. Words keep their
# apostrophes; every other punctuation mark is a token of its own.
ENTITY = r"&(?:#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});|(?:&?#[0-9]{1,7}|quot|nbsp);"
ADDRESS = r"(?:https?://|www\.)[^\s<>\"'/?#:]*\w"  # up to the end of the host name
_TAG, _ESCAPED_TAG = r"<[/!?a-z][^<>]*>", r"&lt;[/!?a-z][^<>&]*&gt;"
_TOKEN = re.compile(rf"{_TAG}|{_ESCAPED_TAG}|{ENTITY}|{ADDRESS}|\w+(?:['’]\w+)*|[^\w\s]")
# Parts that differ from one occurrence to the next are dropped: attributes of tags, and everything after the host name.
_ATTRIBUTES = re.compile(r"(<|&lt;)([/!?a-z][^\s<>&]*)\s+[^\s<>/&][^<>]{0,2000}?(>|&gt;)")
_AFTER_HOST = re.compile(rf"\b({ADDRESS})(?::[0-9]+)?(?:[/?#](?:[^\s<>\"]*[\w/])?)?")

UNKNOWN = "<unk>"


def words(text: str) -> list[str]:
    """Split a raw text into lower-case words and punctuation marks. A tag (without attributes), an entity and the host
    of an address are one token each."""
    return _TOKEN.findall(_AFTER_HOST.sub(r"\1", _ATTRIBUTES.sub(r"\1\2\3", text.lower())))


def split_on_spaces(text: str) -> list[str]:
    """Tokens of a text that is already tokenised."""
    return text.split()


def token_counts(texts: Iterable[Sequence[str]]) -> Counter[str]:
    """How often every token occurs, without the token for unknown ones."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    del counts[UNKNOWN]
    return counts


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by number; the last one stands for every token not seen in training."""

    tokens: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], *, least: int = 1, most: int | None = None) -> Vocabulary:
        """The tokens that occur at least `least` times, most frequent first, and at most `most` of them."""
        return cls.of_counts(token_counts(texts), least=least, most=most)

    @classmethod
    def of_counts(cls, counted: Counter[str], *, least: int = 1, most: int | None = None) -> Vocabulary:
        """The same, from token counts."""
        require(least >= 1, f"least must be at least 1; got {least}.")
        kept = [token for token, count in counted.most_common(most) if count >= least]
        require(bool(kept), f"No token occurs {least} times or more; lower `least` or give more text.")
        return cls((*kept, UNKNOWN))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each token."""
        return {token: k for k, token in enumerate(self.tokens)}

    def encode(self, texts: Iterable[Sequence[str]]) -> TokenTexts:
        """Texts as token numbers."""
        unknown = len(self.tokens) - 1
        get = self.number.get
        return TokenTexts.of_lists([[get(token, unknown) for token in text] for text in texts], len(self.tokens))


@dataclass(frozen=True)
class TokenTexts:
    """Texts as token numbers without padding: text i is flat[starts[i]:starts[i+1]]."""

    flat: Int[Array, "token"]
    starts: Int[Array, "text_and_end"]
    vocab: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, text: int | np.integer) -> Int[Array, "position"]:
        return self.flat[self.starts[text] : self.starts[text + 1]]

    @classmethod
    def of_lists(cls, texts: Sequence[Sequence[int]], vocab: int) -> TokenTexts:
        """From one list of token numbers per text."""
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        flat = np.fromiter((k for text in texts for k in text), dtype=np.int64, count=int(lengths.sum()))
        return cls(flat, np.concatenate([[0], np.cumsum(lengths)]), vocab)

    @classmethod
    def of_rows(cls, rows: Int[Array, "text position"], vocab: int) -> TokenTexts:
        """Texts of equal length."""
        return cls(rows.ravel(), np.arange(len(rows) + 1) * rows.shape[1], vocab)

    def select(self, rows: Int[Array, "chosen"]) -> TokenTexts:
        """The given texts, in the given order."""
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return TokenTexts(self.flat[places], starts, self.vocab)

    def followed_by(self, others: TokenTexts) -> TokenTexts:
        """These texts followed by the others, which must have the same vocabulary."""
        require(self.vocab == others.vocab, f"The vocabularies differ: {self.vocab} and {others.vocab} tokens.")
        starts = np.concatenate([self.starts, self.starts[-1] + others.starts[1:]])
        return TokenTexts(np.concatenate([self.flat, others.flat]), starts, self.vocab)

    @property
    def lengths(self) -> Int[Array, "text"]:
        """How many tokens each text has."""
        return np.diff(self.starts)

    @cached_property
    def counts(self) -> sparse.csr_array:
        """n_i(e): how often token e occurs in text i."""
        return _counted(self.flat, self.starts, self.vocab)

    def ngrams(self, n: int) -> tuple[Int[Array, "ngram order"], sparse.csr_array]:
        """The distinct n-grams within texts, and how often each occurs in each text; computed once and cached."""
        require(n >= 1, f"n must be at least 1; got {n}.")
        if n not in self._cached_ngrams:
            self._cached_ngrams[n] = self._find_ngrams(n)
        return self._cached_ngrams[n]

    @cached_property
    def _cached_ngrams(self) -> dict[int, tuple[Int[Array, "ngram order"], sparse.csr_array]]:
        return {}

    def _find_ngrams(self, n: int) -> tuple[Int[Array, "ngram order"], sparse.csr_array]:
        within = np.maximum(self.lengths - n + 1, 0)
        starts = np.concatenate([[0], np.cumsum(within)])
        first = np.repeat(self.starts[:-1] - starts[:-1], within) + np.arange(starts[-1])
        # Sorting one number per n-gram is faster than sorting rows; the number fits while vocab**n < 2**63.
        require(self.vocab**n < 2**63, f"n = {n} is too large for a vocabulary of {self.vocab} tokens.")
        key = np.zeros(len(first), dtype=np.int64)
        for place in range(n):
            key *= self.vocab
            key += self.flat[first + place]
        distinct, inverse = np.unique(key, return_inverse=True)
        grams = distinct[:, None] // self.vocab ** np.arange(n - 1, -1, -1) % self.vocab
        return grams, _counted(inverse, starts, len(distinct))


def _counted(items: Int[Array, "item"], starts: Int[Array, "text_and_end"], width: int) -> sparse.csr_array:
    small = len(items) < 2**31 and width < 2**31  # int32 takes half the memory
    kind = np.int32 if small else np.int64
    ones = np.ones(len(items), dtype=kind)
    # astype copies: sum_duplicates changes its arrays in place.
    table = sparse.csr_array((ones, items.astype(kind), starts.astype(kind)), shape=(len(starts) - 1, width))
    table.sum_duplicates()
    return table
