"""How many unrelated patterns a neuron fires for, told from the contexts that make it fire most.

A context is a token together with the tokens it attends to. Two contexts are alike if both parts are, half alike if
one part is, and unrelated if neither is. Contexts are joined into groups, nearest first, as long as two groups are
related on average. A group is a pattern if it passes two tests against chance:

    related     more alike than 95 % of the pairs of random positions of the same text
    size        the group is larger than any group in 95 % of random draws of as many positions
    attention   what its contexts attend to is more alike than in 99 draws of other positions with the same tokens

The last test is what makes a pattern a combination of tokens. In an untrained network a neuron also fires for a few
unrelated tokens, whose embeddings happen to point its way, but whatever they attend to. Two patterns of one neuron are
unrelated: otherwise they would have been joined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.cluster.hierarchy import fcluster, linkage

# With 0.99, groups are so fine that attention alone decides who belongs to them, and contexts that are replaced by the
# same tokens elsewhere pass the test of attention too (13 % of the neurons in layer 2 of stories260K; with 0.95 none).
RELATED, LARGE = 0.95, 0.95
DRAWS = 400  # random draws of positions, for the least size of a pattern
PAIRS = 20_000  # random pairs, for what is related
REDRAWS = 99  # draws of positions with the same tokens: a group passes by chance one time in 100
POOL = 1000  # positions with the same token to draw from, at most
NO_PATTERN = -1


@dataclass(frozen=True)
class Positions:
    """Every position of a text that can make a neuron fire, as one layer of a model sees it."""

    tokens: Int[ndarray, "position"]
    own: Float[ndarray, "position dimension"]  # vectors of the tokens, of length 1
    attended: Float[ndarray, "position dimension"]  # vectors of what they attend to, of length 1

    @classmethod
    def of(
        cls,
        tokens: Int[ndarray, "position"],
        own: Float[ndarray, "position dimension"],
        attended: Float[ndarray, "position dimension"],
    ) -> Positions:
        return cls(tokens, _unit(own.astype(np.float32)), _unit(attended.astype(np.float32)))

    @cached_property
    def by_token(self) -> dict[int, np.ndarray]:
        """The positions of every token, of which a frequent one has `POOL` spread over the text."""
        order = np.argsort(self.tokens, kind="stable")
        tokens, starts = np.unique(self.tokens[order], return_index=True)
        return {
            int(token): places[np.linspace(0, len(places) - 1, min(POOL, len(places))).astype(np.int64)]
            for token, places in zip(tokens, np.split(order, starts[1:]), strict=True)
        }

    def similarity(self, chosen: Int[ndarray, "context"]) -> Float[ndarray, "context context"]:
        """Between −1 and 1: the mean of the cosine of the tokens and of the cosine of what they attend to."""
        own, attended = self.own[chosen], self.attended[chosen]
        return (own @ own.T + attended @ attended.T) / 2


@dataclass(frozen=True)
class Scale:
    """What counts as related and as a large group in one layer of one model on one text."""

    related: float  # least similarity
    large: int  # least number of contexts


@dataclass(frozen=True)
class Grouping:
    """The contexts of one neuron, sorted."""

    groups: Int[ndarray, "context"]  # the large group each context belongs to, from 0 for the largest; -1 for none
    patterns: Int[ndarray, "context"]  # the same for the groups that pass the test of attention

    @property
    def count(self) -> int:
        return int(self.patterns.max(initial=NO_PATTERN)) + 1

    @property
    def superposed(self) -> bool:
        """Whether the neuron fires for two or more unrelated patterns."""
        return self.count > 1

    @property
    def score(self) -> float:
        """The chance that two of the contexts, drawn at random with replacement, belong to two different patterns.

        0 for a neuron with one pattern or none, 1/2 for two patterns that share its contexts equally, 2/3 for three.
        """
        sizes = np.bincount(self.patterns[self.patterns >= 0])
        shares = sizes / max(1, len(self.patterns))
        return float(shares.sum() ** 2 - (shares**2).sum())


def scale_of(positions: Positions, contexts: int, random: np.random.Generator) -> Scale:
    """The scale for neurons with so many contexts, from random positions of the text."""
    total = len(positions.tokens)
    one, other = random.integers(0, total, (2, PAIRS))
    one, other = one[one != other], other[one != other]
    dots = [np.einsum("pd,pd->p", part[one], part[other]) for part in (positions.own, positions.attended)]
    related = float(np.quantile(sum(dots) / 2, RELATED))
    draws = random.integers(0, total, (DRAWS, contexts))
    largest = [np.bincount(joined(positions.similarity(draw), related)).max() for draw in draws]
    return Scale(related, int(np.quantile(largest, LARGE)) + 1)


def grouping(
    positions: Positions, chosen: Int[ndarray, "context"], scale: Scale, random: np.random.Generator
) -> Grouping:
    """Sort the contexts of one neuron, given as positions, into groups and patterns."""
    names = joined(positions.similarity(chosen), scale.related)
    sizes = np.bincount(names)
    large = [name for name in np.argsort(-sizes, kind="stable") if sizes[name] >= scale.large]
    passed = [name for name in large if attends_alike(positions, chosen[names == name], random)]
    return Grouping(_numbered(names, large), _numbered(names, passed))


def joined(similarity: Float[ndarray, "context context"], related: float) -> Int[ndarray, "context"]:
    """Average linkage: two groups are joined as long as the mean similarity between them is at least `related`."""
    if len(similarity) < 2:
        return np.zeros(len(similarity), dtype=np.int64)
    distances = np.maximum(1.0 - similarity[np.triu_indices(len(similarity), 1)], 0.0)
    tree = linkage(distances, method="average")
    return fcluster(tree, 1.0 - related, criterion="distance").astype(np.int64) - 1


def attends_alike(positions: Positions, members: Int[ndarray, "member"], random: np.random.Generator) -> bool:
    """Whether the members attend to more similar tokens than positions that are drawn with the same tokens.

    If the text has no other positions with these tokens, nothing can be told, and the answer is no.
    """
    draws = same_tokens_elsewhere(positions, members, REDRAWS, random)
    alike = _mean_similarity(positions.attended[members[None]])[0]
    return bool(alike > _mean_similarity(positions.attended[draws]).max() + 1e-6)


def same_tokens_elsewhere(
    positions: Positions, members: Int[ndarray, "member"], draws: int, random: np.random.Generator
) -> Int[ndarray, "draw member"]:
    """Positions that have the same tokens as the members, drawn without replacement from the whole text."""
    drawn = np.empty((draws, len(members)), dtype=np.int64)
    tokens = positions.tokens[members]
    for token in np.unique(tokens):
        places, pool = np.flatnonzero(tokens == token), positions.by_token[int(token)]
        order = random.random((draws, len(pool)))
        drawn[:, places] = pool[order.argpartition(len(places) - 1, axis=1)[:, : len(places)]]
    return drawn


def _mean_similarity(vectors: Float[ndarray, "draw member dimension"]) -> Float[ndarray, "draw"]:
    """Mean cosine over all pairs of members."""
    members = vectors.shape[1]
    squares = np.einsum("dme,dme->d", vectors, vectors)
    together = (vectors.sum(axis=1) ** 2).sum(axis=1)
    return (together - squares) / max(1, members * (members - 1))


def _numbered(names: np.ndarray, kept: list[np.intp]) -> np.ndarray:
    number = {int(name): index for index, name in enumerate(kept)}
    return np.array([number.get(int(name), NO_PATTERN) for name in names], dtype=np.int64)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
