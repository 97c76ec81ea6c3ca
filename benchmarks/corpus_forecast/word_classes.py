"""Lists of suspicious tokens by word class: what the forecast used before it judged shortcuts by place and effect.

Kept as a baseline. A token is listed if it leans to a class by more than chance although it has no content: markup,
an address, a punctuation mark, a number, a function word or a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray as Array
from scipy.stats import false_discovery_control

from foretrain.data.tokens import ADDRESS, ENTITY, words
from foretrain.forecast.corpora.leans import FALSE_DISCOVERIES, FUNCTION_WORDS, Lean

_MARKUP = re.compile(f"(?:<|&lt;).+|{ENTITY}", re.DOTALL)
_ADDRESS = re.compile(ADDRESS)
_CAPITAL = re.compile(r"\b[A-Z]\w*(?:['’]\w+)*")
_CAPITALS = re.compile(r"(?:^|\s)[a-z][\w'’]*[,;]? ((?:[A-Z][\w'’]*(?: |\b))+)")
NAME = 0.6  # a name has a capital in at least this share of the places where a capital means something
TELLING = 3  # and in at least this many such places


def _beyond_chance(chances: Array) -> Array:
    return false_discovery_control(chances, axis=None).reshape(chances.shape) <= FALSE_DISCOVERIES


def spurious(
    tokens: Sequence[str],
    lean: Lean,
    candidates: Array,
    names: Collection[str],
) -> dict[str, str]:
    """Candidates that lean to a class by more than chance although they have no content, with their kind: markup,
    address, punctuation mark, number, function word or name. Those least likely by chance come first."""
    kinds: tuple[tuple[str, Callable[[str], Any]], ...] = (
        ("markup", _MARKUP.fullmatch),
        ("address", _ADDRESS.fullmatch),
        ("punctuation mark", lambda token: not any(c.isalnum() for c in token)),
        ("number", str.isdigit),
        ("function word", FUNCTION_WORDS.__contains__),
        ("name", names.__contains__),
    )
    kind_of = {i: next((kind for kind, applies in kinds if applies(token)), None) for i, token in enumerate(tokens)}
    # Many words with content lean; testing them too would relax the threshold for the others.
    empty = np.array([i for i, kind in kind_of.items() if kind is not None], dtype=np.int64)
    chances = lean.two_sided[empty]
    chosen = np.flatnonzero(candidates[empty] & _beyond_chance(chances).any(axis=1))
    order = chosen[np.argsort(chances[chosen].min(axis=1), kind="stable")]
    return {tokens[i]: str(kind_of[i]) for i in empty[order].tolist()}


def names_among(tokens: Sequence[str], occurrences: Array, texts: Sequence[str]) -> set[str]:
    """Tokens mostly written with a capital inside sentences. At the start of a sentence and in titles a capital means
    nothing, so those places do not count."""
    inside, spellings = capitals(texts), Counter[str]()
    for text in texts:
        spellings.update(_CAPITAL.findall(text))
    anywhere: Counter[str] = Counter()  # with a capital
    for word, count in spellings.items():
        anywhere[word.lower()] += count
    return {
        token
        for token, count in zip(tokens, occurrences.tolist(), strict=True)
        if len(token) > 1 and inside[token] >= max(TELLING, NAME * (inside[token] + count - anywhere[token]))
    }


def capitals(texts: Iterable[str]) -> Counter[str]:
    """How often each token, in lower case, is part of a run of capitalised words that follows a word without a capital.
    Such a run is inside a sentence, and not in a title where every word has a capital."""
    runs: Counter[str] = Counter()
    for text in texts:
        runs.update(_CAPITALS.findall(text))
    counts: Counter[str] = Counter()
    for run, count in runs.items():
        for token in words(run):
            counts[token] += count
    return counts
