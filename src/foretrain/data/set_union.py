"""The deterministic set-union hierarchy behind JoMA's Table 1. Unlike in HBLT(ρ), only the class is random.

A latent of the lowest layer is a fixed set of tokens, a latent of the next layer is a fixed set of those latents, and
a class is a fixed set of top latents. A class switches on its latents, these switch on theirs, and so on down to the
tokens. So there are exactly as many sequences as classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import comb

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray as Array

from foretrain.core.errors import require, require_whole


@dataclass(frozen=True)
class SetUnionBatch:
    classes: Int[Array, "sample"]
    sequences: Int[Array, "sample length"]


class SetUnionHierarchy:
    """`classes` sequences over `vocab` tokens; the last token is the pad.

    latents   number of latents per layer, (N_0, N_1, …) from the lowest up
    children  N_ch: the size of every set; no two sets of a layer are the same
    length    tokens per sequence: pads first, then the sequence's tokens in rising order
    """

    def __init__(
        self,
        *,
        classes: int = 20,
        latents: Sequence[int] = (10, 20),
        children: int = 2,
        vocab: int = 100,
        length: int = 30,
        generator: np.random.Generator | int = 0,
    ) -> None:
        for name, count, least in (
            ("classes", classes, 1),
            ("children", children, 1),
            ("vocab", vocab, 2),
            ("length", length, 1),
            *(("latents", count, 1) for count in latents),
        ):
            require_whole(name, count, least)
        require(len(latents) >= 1, "latents must name the number of latents of at least one layer; got none.")
        draw = np.random.default_rng(generator)
        self.vocab, self.length, self.classes = int(vocab), int(length), int(classes)
        self.members: list[Int[Array, "latent child"]] = []  # per layer up to the classes, the members one layer down
        sizes = [vocab - 1, *latents, classes]
        for below, count in pairwise(sizes):
            require(
                count <= comb(below, children),
                f"{count} different sets of {children} out of {below} do not exist; ask for at most "
                f"{comb(below, children)}.",
            )
            self.members.append(_different_sets(count, children, below, draw))
        longest = int(self.token_sets.sum(axis=1).max())
        require(longest <= length, f"length must be at least {longest}, the size of the largest union; got {length}.")

    @cached_property
    def active(self) -> list[Bool[Array, "class latent"]]:
        """Which latents each class switches on, layer by layer from the lowest (s = 0) up."""
        layers = [_indicator(self.members[-1], len(self.members[-2]))]
        for layer in reversed(range(len(self.members) - 2)):
            layers.append((layers[-1] @ _indicator(self.members[layer + 1], len(self.members[layer]))) > 0)
        return layers[::-1]

    @cached_property
    def token_sets(self) -> Bool[Array, "class token"]:
        """Which tokens each class contains, without the pad."""
        return (self.active[0] @ _indicator(self.members[0], self.vocab - 1)) > 0

    @cached_property
    def sequences(self) -> Int[Array, "class length"]:
        """The one sequence of each class."""
        tokens = np.where(self.token_sets, np.arange(self.vocab - 1), -1)
        last = np.sort(tokens, axis=1)[:, -self.length :]
        return np.where(last >= 0, last, self.vocab - 1)

    def sample(self, n: int, generator: np.random.Generator | int) -> SetUnionBatch:
        """n classes, drawn uniformly, and their sequences. `generator` may be a seed."""
        require_whole("n", n, 1)
        classes = np.random.default_rng(generator).integers(self.classes, size=n)
        return SetUnionBatch(classes, self.sequences[classes])


def _different_sets(count: int, size: int, out_of: int, draw: np.random.Generator) -> Int[Array, "set member"]:
    sets: dict[tuple[int, ...], None] = {}
    while len(sets) < count:
        sets[tuple(sorted(draw.choice(out_of, size, replace=False).tolist()))] = None
    return np.array(list(sets), dtype=np.int64)


def _indicator(members: Int[Array, "set member"], below: int) -> Bool[Array, "set below"]:
    table = np.zeros((len(members), below), dtype=bool)
    np.put_along_axis(table, members, True, axis=1)
    return table
