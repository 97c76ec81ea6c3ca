"""What looks wrong in a corpus: scores from class sizes, tokens without content, bigrams against their parts.

All is counted in texts, not in occurrences: a token that one text repeats a hundred times says no more of a class than
that text. Who leans to a class is told from chance over all that could be listed at once, after Benjamini and Hochberg.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy.stats import binom, false_discovery_control

from foretrain.data.tokens import ADDRESS, ENTITY, words

# English words that carry no content of their own; a high score on one says more about the corpus than about the text.
_FUNCTION_WORDS = """
a an the and or of to in on at by for from with as is are was were be been am it its it's this that these
those he she they we you i me him her them us my his their our your who whom which what there here do does did
have has had will would can could shall should may might if then than so such into over under about up out
also when where i'm i've i'd i'll
"""
_MARKUP = re.compile(f"(?:<|&lt;).+|{ENTITY}", re.DOTALL)
_ADDRESS = re.compile(ADDRESS)
_CAPITAL = re.compile(r"\b[A-Z]\w*(?:['’]\w+)*")
_CAPITALS = re.compile(r"(?:^|\s)[a-z][\w'’]*[,;]? ((?:[A-Z][\w'’]*(?: |\b))+)")
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
FALSE_DISCOVERIES = 0.05  # of those in question, the share found to lean by chance; where none leans: how often any is
STRONG = 0.1  # of the largest score of an architecture: from there on a score is taken to be high
ERRORS = 3  # standard errors from 0, up to which the sum of the parts of a bigram says nothing
NAME = 0.6  # of the places that tell, those where a name has a capital
TELLING = 3  # such places with a capital, at least
CONTENT = 1 / 3  # of what class sizes give a token: with more of its own, its score is not from the sizes
IMBALANCE = 0.1  # of an equal share: a class that is so much larger or smaller makes the corpus imbalanced


@dataclass(frozen=True)
class Lean:
    """How items (tokens or bigrams) lean to classes, beyond what the class sizes alone would give."""

    texts: Float[Array, "item class"]  # that hold the item
    class_counts: Float[Array, "class"]  # all texts

    @property
    def share(self) -> Float[Array, "class"]:
        return self.class_counts / self.class_counts.sum()

    @property
    def log_odds(self) -> Float[Array, "item class"]:
        """Of a class against all others among texts with the item, less that of all texts. One more text, divided as
        all texts are, keeps it finite."""
        own, others = self._held
        return np.log(own / others) - np.log(self.share / (1 - self.share))

    @property
    def variance(self) -> Float[Array, "item class"]:
        """Of the log-odds, by chance."""
        own, others = self._held
        return 1 / own + 1 / others

    @property
    def _held(self) -> tuple[Float[Array, "item class"], Float[Array, "item class"]]:
        own = self.texts + self.share
        return own, self.texts.sum(axis=1, keepdims=True) + 1 - own

    @property
    def chance(self) -> tuple[Float[Array, "item class"], Float[Array, "item class"]]:
        """How likely as many texts of the class, or more, hold the item by chance; and as few, or fewer.

        Binomial, which is never far below the exact hypergeometric, for texts with the item or, where those are more
        than half, for texts without it.
        """
        count = self.texts.sum(axis=1, keepdims=True)
        common = 2 * count > self.class_counts.sum()
        drawn = np.where(common, self.class_counts - self.texts, self.texts)
        total = drawn.sum(axis=1, keepdims=True)
        as_many, as_few = binom.sf(drawn - 1, total, self.share), binom.cdf(drawn, total, self.share)
        return np.where(common, as_few, as_many), np.where(common, as_many, as_few)

    @property
    def two_sided(self) -> Float[Array, "item class"]:
        return np.minimum(1, 2 * np.minimum(*self.chance))


def _beyond_chance(chances: Float[Array, "*items"]) -> Bool[Array, "*items"]:
    """Who leans by more than chance."""
    if not chances.size:
        return np.zeros(chances.shape, dtype=bool)
    return false_discovery_control(chances, axis=None).reshape(chances.shape) <= FALSE_DISCOVERIES


def strong(scores: Sequence[Float[Array, "token output"]]) -> Bool[Array, "token"]:
    """Tokens of high score in any architecture."""
    sizes = [np.abs(values).max(axis=1) for values in scores]
    return np.any([(size >= STRONG * size.max()) & (size > 0) for size in sizes], axis=0)


def toward_larger(scores: Sequence[Float[Array, "token output"]], share: Float[Array, "class"]) -> Bool[Array, "token"]:
    """Tokens of high score for a class of more than an equal share, in any architecture."""
    larger = share > 1 / len(share)
    per_output = []
    for values in scores:
        favoured = (values[:, 0] > 0).astype(np.int64) if len(share) == 2 else values.argmax(axis=1)
        per_output.append(strong([values]) & larger[favoured])
    return np.any(per_output, axis=0)


def from_imbalance(lean: Lean) -> Bool[Array, "token"]:
    """Tokens whose texts are of one class more than of others because that class has more texts at all: what the
    sizes of the classes give any token explains the difference, up to a share of `CONTENT`."""
    excess = lean.share - 1 / len(lean.share)
    if np.abs(excess).max() < IMBALANCE / len(lean.share):
        return np.zeros(len(lean.texts), dtype=bool)
    from_sizes = lean.texts.sum(axis=1, keepdims=True) * excess
    whole = lean.texts - lean.texts.mean(axis=1, keepdims=True)
    return np.abs(whole - from_sizes).max(axis=1) <= CONTENT * np.abs(from_sizes).max(axis=1)


def spurious(
    tokens: Sequence[str],
    lean: Lean,
    candidates: Bool[Array, "token"],
    names: Collection[str],
) -> dict[str, str]:
    """Candidates that lean to a class by more than chance but have no content, and of which kind they are: markup,
    addresses, signs, numbers, function words, names. The least likely lean comes first."""
    kinds: tuple[tuple[str, Callable[[str], Any]], ...] = (
        ("markup", _MARKUP.fullmatch),
        ("address", _ADDRESS.fullmatch),
        ("sign", lambda token: not any(c.isalnum() for c in token)),
        ("number", str.isdigit),
        ("function word", FUNCTION_WORDS.__contains__),
        ("name", names.__contains__),
    )
    of = {i: next((kind for kind, applies in kinds if applies(token)), None) for i, token in enumerate(tokens)}
    # words with content, of which many lean, would make it easy for the others to be found
    empty = np.array([i for i, kind in of.items() if kind is not None], dtype=np.int64)
    chances = lean.two_sided[empty]
    chosen = np.flatnonzero(candidates[empty] & _beyond_chance(chances).any(axis=1))
    order = chosen[np.argsort(chances[chosen].min(axis=1), kind="stable")]
    return {tokens[i]: str(of[i]) for i in empty[order].tolist()}


def names_among(tokens: Sequence[str], occurrences: Int[Array, "token"], texts: Sequence[str]) -> set[str]:
    """Tokens mostly written with a capital within sentences. At the beginning of one, and in a title, a capital tells
    nothing either way."""
    within, every = capitals(texts), Counter[str]()
    for text in texts:
        every.update(_CAPITAL.findall(text))
    capital: Counter[str] = Counter()
    for word, count in every.items():
        capital[word.lower()] += count
    return {
        token
        for token, count in zip(tokens, occurrences.tolist(), strict=True)
        if len(token) > 1 and within[token] >= max(TELLING, NAME * (within[token] + count - capital[token]))
    }


def capitals(texts: Iterable[str]) -> Counter[str]:
    """How often each token, in lower case, stands in a run of words with capitals behind a word without one: within a
    sentence, but not in a title where every word has a capital."""
    runs: Counter[str] = Counter()
    for text in texts:
        runs.update(_CAPITALS.findall(text))
    counts: Counter[str] = Counter()
    for run, count in runs.items():
        for token in words(run):
            counts[token] += count
    return counts


def contradictions(
    names: Sequence[str], grams: Int[Array, "bigram 2"], tokens: Lean, bigrams: Lean, classes: Sequence[str]
) -> list[dict[str, Any]]:
    """Bigrams that lean to a class by more than chance while the sum of their parts does not, so that an additive
    network gets them "wrong", where the sum leans away from the class, or is "undecided", where it is within its own
    error of 0 while the bigram leans more than the sum may. Of the first, the least likely lean comes first; of the
    second, those whose parts lean away most surely."""
    odds, parts = bigrams.log_odds, tokens.log_odds[grams].sum(axis=1)
    error = ERRORS * np.sqrt(tokens.variance[grams].sum(axis=1))
    rows, columns = np.nonzero((odds > 0) & (parts <= error))
    odds, parts, error = odds[rows, columns], parts[rows, columns], error[rows, columns]
    chances = bigrams.two_sided[rows, columns]
    wrong = parts < -error
    chosen = np.flatnonzero(_beyond_chance(chances) & (wrong | (odds > np.abs(parts) + error)))
    order = chosen[np.lexsort((np.where(wrong, chances, parts / error)[chosen], ~wrong[chosen]))]
    return [
        {
            "bigram": names[rows[i]],
            "class": classes[columns[i]],
            "kind": "wrong" if wrong[i] else "undecided",
            "texts": int(bigrams.texts[rows[i]].sum()),
            "log_odds": float(odds[i]),
            "log_odds_of_parts": float(parts[i]),
        }
        for i in order.tolist()
    ]
