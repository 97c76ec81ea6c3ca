"""The negation task: NOT flips an adjective, VERY does not, and no single token reveals the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array

from foretrain.core.errors import require, require_at_least
from foretrain.data.tokens import TokenTexts


@dataclass(frozen=True)
class Negation:
    """Tokens in this order: NOT, VERY, positive adjectives, negative adjectives, fillers.

    A text is a modifier and the adjective after it, at a random place among fillers. Its label is the adjective's
    polarity, flipped by NOT. Both modifiers are equally likely, so every token co-occurs equally with both labels.
    `held_out` adjectives of each polarity never follow NOT in training.
    """

    adjectives: int = 10  # per polarity
    fillers: int = 20
    length: int = 8
    held_out: int = 0

    def __post_init__(self) -> None:
        require_at_least("length", self.length, 2)
        require(0 <= self.held_out < self.adjectives, f"held_out must be at least 0 and below {self.adjectives}.")

    @property
    def vocab(self) -> int:
        """How many tokens there are."""
        return 2 + 2 * self.adjectives + self.fillers

    @property
    def held_out_adjectives(self) -> Int[Array, "adjective"]:
        """Adjectives that never follow NOT in training, numbered from 0 for the first positive one."""
        return np.concatenate([np.arange(self.held_out), self.adjectives + np.arange(self.held_out)])

    def sample(
        self, n: int, draw: np.random.Generator, *, only_held_out: bool = False
    ) -> tuple[TokenTexts, Int[Array, "text"]]:
        """n texts and their labels, 0 or 1. With `only_held_out`, every text is NOT with a held-out adjective."""
        require_at_least("n", n, 1)
        adjective = draw.integers(0, 2 * self.adjectives, n)
        negated = draw.random(n) < 0.5
        if only_held_out:
            require(self.held_out > 0, "No adjectives are held out; make the task with held_out above 0.")
            adjective, negated = draw.choice(self.held_out_adjectives, n), np.ones(n, dtype=bool)
        elif self.held_out:
            negated &= ~np.isin(adjective, self.held_out_adjectives)
        table = draw.integers(2 + 2 * self.adjectives, self.vocab, (n, self.length))
        place = draw.integers(0, self.length - 1, n)
        rows = np.arange(n)
        table[rows, place] = np.where(negated, 0, 1)
        table[rows, place + 1] = 2 + adjective
        labels = ((adjective < self.adjectives) != negated).astype(np.int64)
        return TokenTexts.of_rows(table, self.vocab), labels
