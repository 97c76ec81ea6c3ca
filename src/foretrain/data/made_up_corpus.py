"""An artificial labelled corpus with known statistics: token frequencies follow Zipf's law, polarities are given."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray as Array

from foretrain.core.errors import require, require_at_least
from foretrain.data.tokens import TokenTexts


class MadeUpCorpus:
    """Texts of two or more classes over `vocab` tokens; the last `unseen` tokens never occur.

    P(e|y) ∝ frequency(e)·exp(±polarity(e)/2). Polarities are normal with standard deviation `contrast`; 0 makes the
    labels independent of the tokens. `positive` is the share of positive texts; text lengths are uniform between two
    bounds. More than two `classes` are equally frequent, and each has its own normal polarities.
    """

    def __init__(
        self,
        draw: np.random.Generator,
        *,
        vocab: int = 400,
        unseen: int = 0,
        contrast: float = 1.0,
        positive: float = 0.5,
        lengths: tuple[int, int] = (6, 18),
        classes: int = 2,
    ) -> None:
        require_at_least("vocab", vocab, 2)
        require(0 <= unseen < vocab - 1, f"unseen must be at least 0 and below vocab - 1; got {unseen}.")
        require(0 < positive < 1, f"positive must lie between 0 and 1; got {positive}.")
        require(
            1 <= lengths[0] <= lengths[1],
            f"lengths must be (shortest, longest), with shortest at least 1; got {lengths}.",
        )
        require_at_least("classes", classes, 2)
        self.vocab, self.unseen, self.positive, self.lengths, self.classes = vocab, unseen, positive, lengths, classes
        seen = vocab - unseen
        frequency = 1 / (np.arange(seen) + 10.0)
        if classes == 2:
            tilt = np.outer([-0.5, 0.5], contrast * draw.standard_normal(seen))
        else:
            tilt = contrast * draw.standard_normal((classes, seen))
        weights = frequency * np.exp(tilt)
        self.probabilities: Float[Array, "class vocab"] = np.zeros((classes, vocab))
        self.probabilities[:, :seen] = weights / weights.sum(axis=1, keepdims=True)

    def sample(self, n: int, draw: np.random.Generator) -> tuple[TokenTexts, Int[Array, "text"]]:
        """n texts and their classes."""
        require_at_least("n", n, 1)
        if self.classes == 2:
            labels = (draw.random(n) < self.positive).astype(np.int64)
        else:
            labels = draw.integers(0, self.classes, n)
        lengths = draw.integers(self.lengths[0], self.lengths[1] + 1, n)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        class_of = np.repeat(labels, lengths)
        flat = np.empty(len(class_of), dtype=np.int64)
        for label in range(self.classes):
            of_class = class_of == label
            flat[of_class] = draw.choice(self.vocab, size=int(of_class.sum()), p=self.probabilities[label])
        return TokenTexts(flat, starts, self.vocab), labels
