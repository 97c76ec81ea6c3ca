"""Finds what looks wrong in a corpus: scores due to class sizes, and bigrams that contradict their parts.

All counts are of texts, not of occurrences: a token that one text repeats a hundred times is still evidence from one
text. An item leans to a class if it occurs there more often than chance explains; chance is controlled over all
candidates together (Benjamini and Hochberg).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array
from scipy.stats import binom, false_discovery_control

# English words without content of their own: a high score on one says more about the corpus than about the text.
_FUNCTION_WORDS = """
a an the and or of to in on at by for from with as is are was were be been am it its it's this that these
those he she they we you i me him her them us my his their our your who whom which what there here do does did
have has had will would can could shall should may might if then than so such into over under about up out
also when where i'm i've i'd i'll
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
FALSE_DISCOVERIES = 0.05  # expected share of the items found to lean that do so by chance only
STRONG = 0.1  # a score is high if it is at least this share of the architecture's largest score
ERRORS = 3  # a bigram's parts are undecided if their sum is within this many standard errors of 0
CONTENT = 1 / 3  # a score is due to class sizes if what they do not explain is at most this share of what they do
IMBALANCE = 0.1  # a corpus is imbalanced if a class differs from an equal share by at least this fraction of it


@dataclass(frozen=True)
class Lean:
    """How much items (tokens or bigrams) lean to classes, beyond what the class sizes alone explain."""

    texts: Float[Array, "item class"]  # texts that contain the item
    class_counts: Float[Array, "class"]  # all texts of each class

    @property
    def share(self) -> Float[Array, "class"]:
        return self.class_counts / self.class_counts.sum()

    @property
    def log_odds(self) -> Float[Array, "item class"]:
        """Log-odds of each class against all others among texts with the item, minus those among all texts. One extra
        text, split among the classes like all texts, keeps them finite."""
        of_class, others = self._smoothed
        return np.log(of_class / others) - np.log(self.share / (1 - self.share))

    @property
    def variance(self) -> Float[Array, "item class"]:
        """Sampling variance of the log-odds."""
        of_class, others = self._smoothed
        return 1 / of_class + 1 / others

    @property
    def _smoothed(self) -> tuple[Float[Array, "item class"], Float[Array, "item class"]]:
        """Texts with the item that are of each class, and of all other classes, with the extra text."""
        of_class = self.texts + self.share
        return of_class, self.texts.sum(axis=1, keepdims=True) + 1 - of_class

    @property
    def chance(self) -> tuple[Float[Array, "item class"], Float[Array, "item class"]]:
        """P-values: that at least as many texts of the class contain the item by chance, and that at most as many do.

        Uses a binomial, which is never far below the exact hypergeometric. It counts texts with the item or, if those
        are more than half of all, texts without it.
        """
        count = self.texts.sum(axis=1, keepdims=True)
        common = 2 * count > self.class_counts.sum()
        drawn = np.where(common, self.class_counts - self.texts, self.texts)
        total = drawn.sum(axis=1, keepdims=True)
        as_many, as_few = binom.sf(drawn - 1, total, self.share), binom.cdf(drawn, total, self.share)
        return np.where(common, as_few, as_many), np.where(common, as_many, as_few)

    @property
    def two_sided(self) -> Float[Array, "item class"]:
        """Two-sided p-values."""
        return np.minimum(1, 2 * np.minimum(*self.chance))


def _beyond_chance(chances: Float[Array, "*items"]) -> Bool[Array, "*items"]:
    """Which of these p-values are more than chance, at the false discovery rate."""
    if not chances.size:
        return np.zeros(chances.shape, dtype=bool)
    return false_discovery_control(chances, axis=None).reshape(chances.shape) <= FALSE_DISCOVERIES


def strong(scores: Sequence[Float[Array, "token output"]]) -> Bool[Array, "token"]:
    """Tokens with a high score in any architecture."""
    sizes = [np.abs(values).max(axis=1) for values in scores]
    return np.any([(size >= STRONG * size.max()) & (size > 0) for size in sizes], axis=0)


def toward_larger(scores: Sequence[Float[Array, "token output"]], share: Float[Array, "class"]) -> Bool[Array, "token"]:
    """Tokens with a high score, in any architecture, for a class that is larger than an equal share."""
    larger = share > 1 / len(share)
    per_output = []
    for values in scores:
        favoured = (values[:, 0] > 0).astype(np.int64) if len(share) == 2 else values.argmax(axis=1)
        per_output.append(strong([values]) & larger[favoured])
    return np.any(per_output, axis=0)


def from_imbalance(lean: Lean) -> Bool[Array, "token"]:
    """Tokens that occur more in one class only because that class has more texts: class sizes explain how their texts
    are distributed, up to a share of `CONTENT`."""
    excess = lean.share - 1 / len(lean.share)
    if np.abs(excess).max() < IMBALANCE / len(lean.share):
        return np.zeros(len(lean.texts), dtype=bool)
    from_sizes = lean.texts.sum(axis=1, keepdims=True) * excess
    difference = lean.texts - lean.texts.mean(axis=1, keepdims=True)
    return np.abs(difference - from_sizes).max(axis=1) <= CONTENT * np.abs(from_sizes).max(axis=1)


def _says_nothing(token: str) -> bool:
    return token in FUNCTION_WORDS or not any(c.isalnum() for c in token)


def contradictions(
    names: Sequence[str], grams: Int[Array, "bigram 2"], tokens: Lean, bigrams: Lean, classes: Sequence[str]
) -> list[dict[str, Any]]:
    """Bigrams that lean to a class by more than chance, while the sum of their parts does not.

    A network that adds up tokens gets such a bigram "wrong" if the sum leans away from the class. It is "undecided" if
    the sum is within its error of 0 and the bigram leans by more than that error allows. The wrong ones come first, the
    least likely by chance at the top; then the undecided ones, those whose parts lean away most clearly at the top.
    Bigrams with a function word or a punctuation mark ("of the", "online -") are left out: they say little themselves.
    """
    empty = np.array([any(_says_nothing(part) for part in name.split(" ")) for name in names], dtype=bool)
    odds, parts = bigrams.log_odds, tokens.log_odds[grams].sum(axis=1)
    error = ERRORS * np.sqrt(tokens.variance[grams].sum(axis=1))
    rows, columns = np.nonzero((odds > 0) & (parts <= error) & ~empty[:, None])
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
