"""A small text of made-up words that follow each other, to try things without a corpus."""

from __future__ import annotations

import numpy as np


def made_up_text(words: int, seed: int = 0) -> str:
    """Each word is followed by one of three others, whatever the seed; a line ends after every tenth."""
    rules, random = np.random.default_rng(0), np.random.default_rng([1, seed])
    names = np.array(["".join(rules.choice(list("abcdefgh"), 3)) for _ in range(40)])
    followers = rules.integers(0, len(names), (len(names), 3))
    word, chosen = 0, []
    for which in random.integers(0, 3, words):
        word = followers[word, which]
        chosen.append(names[word])
    return "".join(" ".join(chosen[k : k + 10]) + "\n" for k in range(0, words, 10))
