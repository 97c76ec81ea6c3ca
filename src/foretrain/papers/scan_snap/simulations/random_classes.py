"""Random sequence classes with common and distinct tokens, many at once, for claims to be checked on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy import ndarray as Array

from foretrain.core.streams import stream
from foretrain.papers.scan_snap import theory


@dataclass(frozen=True)
class RandomClasses:
    """`instances` draws of P(l|n): every class has the `common` tokens and `distinct` tokens of its own.

    share     range from which P(common tokens|n) is drawn
    evenness  concentration of the Dirichlet distribution over the common tokens: 0.1 gives most to one of them
    shape     "random": every class has its own probabilities; "symmetric": all classes have the same (Corollary 2);
              "bare": the first class has only common tokens, and is the only class of its query; "half bare": it
              shares its query with classes that have distinct tokens
    """

    instances: int = 4
    queries: int = 2
    per_query: int = 2
    distinct: int = 3
    common: int = 1
    share: tuple[float, float] = (0.05, 0.15)
    evenness: float = 1.0
    shape: Literal["random", "symmetric", "bare", "half bare"] = "random"

    @property
    def classes(self) -> int:
        return self.queries * self.per_query

    @cached_property
    def query(self) -> Array:
        """ψ: the query of each class."""
        query = np.repeat(np.arange(self.queries), self.per_query)
        return np.where(np.arange(self.classes) == 0, self.queries, query) if self.shape == "bare" else query

    @cached_property
    def distinct_tokens(self) -> Array:
        """The distinct tokens of each class: [class, slot]."""
        return self.common + np.arange(self.classes * self.distinct).reshape(self.classes, self.distinct)

    @cached_property
    def probabilities(self) -> Array:
        """P(l|n): [instance, class, token]."""
        draw = stream("scan_snap/random_classes", repr(self))
        rows = 1 if self.shape == "symmetric" else self.classes
        share = draw.uniform(*self.share, (self.instances, rows, 1))
        if "bare" in self.shape:
            share[:, 0] = 1
        common = draw.dirichlet(np.full(self.common, self.evenness), (self.instances, rows)) * share
        distinct = draw.uniform(0.2, 1, (self.instances, rows, self.distinct))
        distinct *= (1 - share) / distinct.sum(axis=-1, keepdims=True)
        P = np.zeros((self.instances, self.classes, self.common + self.classes * self.distinct))
        P[..., : self.common] = common
        np.put_along_axis(
            P, np.broadcast_to(self.distinct_tokens, (self.instances, *self.distinct_tokens.shape)), distinct, axis=-1
        )
        return P

    def weak_correlations(self, vocab: int) -> tuple[bool, str]:
        """Whether Assumption 2 holds at the start: FᵀF = I + E with |λ1(E)| < 1/K and every |λ_i(E)| ≥ 6/√M."""
        f = theory.features(self.probabilities, np.zeros_like(self.probabilities))
        sizes = abs(np.linalg.eigvalsh(theory.overlaps(f)))
        low, high = theory.correlation_window(vocab=vocab, classes=self.classes)
        words = f"|λ| from {sizes.min():.3g} to {sizes.max():.3g}; allowed from 6/√M = {low:.3g} to 1/K = {high:.3g}"
        return bool(sizes.max() < high and sizes.min() >= low), words
