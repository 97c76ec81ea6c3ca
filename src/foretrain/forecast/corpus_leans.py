"""What looks wrong in a corpus: scores from class sizes, tokens without content, bigrams against their parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array

# English words that carry no content of their own; a high score on one says more about the corpus than about the text.
_FUNCTION_WORDS = """
a an the and or of to in on at by for from with as is are was were be been am it its it's this that these
those he she they we you i me him her them us my his their our your who whom which what there here do does did
have has had will would can could shall should may might if then than so such into over under about up out
also when where
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
LEANS = 2.0  # standard errors from which on an item is taken to lean to a class
SIGNIFICANT = 3.0  # standard errors from which on a bigram is taken to differ from the sum of its parts
IMBALANCE = 0.05  # a class that is so much larger or smaller than an equal share makes the corpus imbalanced


@dataclass(frozen=True)
class Lean:
    """How items (tokens or bigrams) lean to classes, beyond what the class sizes alone would give."""

    by_class: Float[Array, "item class"]  # occurrences
    log_odds: Float[Array, "item class"]  # against all other classes, less that of the whole corpus
    z: Float[Array, "item class"]  # standard errors of the share from that of the whole corpus

    @classmethod
    def of(cls, by_class: Float[Array, "item class"], totals: Float[Array, "class"]) -> Lean:
        totals = np.maximum(totals, 1.0)  # a class without any such item would have infinite odds
        share = totals / totals.sum()
        count = by_class.sum(axis=1, keepdims=True)
        base = np.log(share / (1 - share))
        odds = np.log((by_class + share) / (count - by_class + 1 - share)) - base
        z = (by_class - count * share) / np.sqrt(np.maximum(count, 1) * share * (1 - share))
        return cls(by_class, odds, z)

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


def strong(scores: Sequence[Float[Array, "token output"]]) -> Bool[Array, "token"]:
    """Tokens of largest score in any architecture: a tenth of all, but at least thirty and at most five hundred."""
    found = np.zeros(len(scores[0]), dtype=bool)
    count = min(500, max(30, len(found) // 10))
    for values in scores:
        size = np.abs(values).max(axis=1)
        largest = np.argsort(-size, kind="stable")[:count]
        found[largest[size[largest] > 0]] = True
    return found


def from_imbalance(lean: Lean) -> Bool[Array, "token"]:
    """Tokens that lean to no class, so that what the classes' sizes give makes up most of their co-occurrence."""
    totals = lean.by_class.sum(axis=0)
    excess = totals / totals.sum() - 1 / len(totals)
    if np.abs(excess).max() < IMBALANCE:
        return np.zeros(len(lean.z), dtype=bool)
    from_sizes = lean.by_class.sum(axis=1, keepdims=True) * excess
    whole = lean.by_class - lean.by_class.mean(axis=1, keepdims=True)
    largest = np.arange(len(whole)), np.abs(whole).argmax(axis=1)
    # a share above half, written without division: a token equally often in every class has no difference to share
    most = from_sizes[largest] * np.sign(whole[largest]) > 0.5 * np.abs(whole[largest])
    return (np.abs(lean.z).max(axis=1) < LEANS) & most & (whole[largest] != 0)


def spurious(
    tokens: Sequence[str], candidates: Bool[Array, "token"], lean: Lean, capital: Mapping[str, int]
) -> dict[str, str]:
    """Candidates without content, and of which kind: markup, signs, numbers, function words, names."""
    kinds: tuple[tuple[str, Callable[[str, int], bool]], ...] = (
        ("markup", lambda token, _: token.startswith("<") and len(token) > 1),
        ("sign", lambda token, _: not any(c.isalnum() for c in token)),
        ("number", lambda token, _: token.isdigit()),
        ("function word", lambda token, _: token in FUNCTION_WORDS),
        ("name", lambda token, count: capital.get(token, 0) >= 0.6 * count and len(token) > 1),
    )
    counts = lean.occurrences
    found = {}
    for i in np.flatnonzero(candidates).tolist():
        why = next((kind for kind, applies in kinds if applies(tokens[i], int(counts[i]))), None)
        if why is not None:
            found[tokens[i]] = why
    return found


def capitals(found: Counter[str]) -> Counter[str]:
    """How often each token, in lower case, was seen with a capital."""
    lower: Counter[str] = Counter()
    for token, count in found.items():
        lower[token.lower()] += count
    return lower


def contradictions(
    names: Sequence[str], grams: Int[Array, "bigram 2"], lean: Lean, gram_lean: Lean, classes: Sequence[str]
) -> list[dict[str, Any]]:
    """Bigrams that lean against the sum of their parts: an additive network gives them the wrong sign."""
    if not len(names):
        return []
    parts = lean.log_odds[grams[:, 0]] + lean.log_odds[grams[:, 1]]
    against = (np.sign(parts) != np.sign(gram_lean.log_odds)) & (np.abs(parts) > 0.1)
    against &= np.abs(gram_lean.z) >= LEANS
    totals = gram_lean.by_class.sum(axis=0)
    share = totals / totals.sum()
    precision = np.sqrt(gram_lean.by_class.sum(axis=1, keepdims=True) * share * (1 - share))  # one over the error
    against &= np.abs(gram_lean.log_odds - parts) * precision >= SIGNIFICANT
    if len(classes) == 2:
        against[:, 0] = False  # the other class says the same with the sign turned
    rows, columns = np.nonzero(against)
    order = np.argsort(-np.abs(gram_lean.z[rows, columns]), kind="stable")
    return [
        {
            "bigram": names[i],
            "class": classes[k],
            "occurrences": int(gram_lean.by_class[i].sum()),
            "log_odds": float(gram_lean.log_odds[i, k]),
            "log_odds_of_parts": float(parts[i, k]),
            "z": float(gram_lean.z[i, k]),
        }
        for i, k in zip(rows[order].tolist(), columns[order].tolist(), strict=True)
    ]
