"""Equality patterns: all the kernel sees of a pair of strings is which of their tokens are equal.

Positions may be permuted jointly and tokens renamed, so a pair is a multiset of token pairs: a directed graph
whose nodes are tokens and whose edges are positions. Its connected pieces are the components to contract.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from foretrain.errors import require
from foretrain.kernels.contraction import Component


def components(x: Sequence[object], y: Sequence[object]) -> tuple[Component, ...]:
    """The connected pieces of the graph of token pairs, each in canonical form, in sorted order."""
    edges = Counter(zip(x, y, strict=True))
    owner: dict[object, set[object]] = {}
    for t, u in edges:
        joined = owner.get(t, {t}) | owner.get(u, {u})
        for token in joined:
            owner[token] = joined
    pieces: dict[int, list[tuple[object, object, int]]] = {}
    for (t, u), m in edges.items():
        pieces.setdefault(id(owner[t]), []).append((t, u, m))
    return tuple(sorted(canonical(piece) for piece in pieces.values()))


def canonical(piece: Sequence[tuple[object, object, int]]) -> Component:
    """The least renaming of a connected graph; equal for two pieces that differ by names only."""
    tokens = list(dict.fromkeys(t for edge in piece for t in edge[:2]))
    number = {t: i for i, t in enumerate(tokens)}
    edges = [(number[t], number[u], m) for t, u, m in piece]
    best, _ = _search(edges, _refine(edges, [0] * len(tokens)), _BRANCHES)
    return best


_BRANCHES = 500  # past this many trials a form need not be least: more patterns are computed, none wrongly


def _refine(edges: list[tuple[int, int, int]], colours: list[int]) -> list[int]:
    """Tell tokens apart by the colours around them until nothing changes."""
    while True:
        seen: list[list[tuple[int, int, int]]] = [[] for _ in colours]
        for t, u, m in edges:
            seen[t].append((0 if t != u else 2, m, colours[u]))
            seen[u].append((1 if t != u else 2, m, colours[t]))
        keys = [(colour, tuple(sorted(around))) for colour, around in zip(colours, seen, strict=True)]
        rank = {key: i for i, key in enumerate(sorted(set(keys)))}
        new = [rank[key] for key in keys]
        if len(rank) == len(set(colours)):
            return new
        colours = new


def _search(edges: list[tuple[int, int, int]], colours: list[int], budget: int) -> tuple[Component, int]:
    """The least form over all ways to break the ties that refinement leaves."""
    sizes = Counter(colours)
    tied = [c for c in sorted(sizes) if sizes[c] > 1]
    if not tied:
        return tuple(sorted((colours[t], colours[u], m) for t, u, m in edges)), budget - 1
    best: Component | None = None
    twins = set()
    for token in [t for t, c in enumerate(colours) if c == tied[0]]:
        around = frozenset((t == token, t if u == token else u, m) for t, u, m in edges if token in (t, u))
        if around in twins:  # the same neighbours: swapping the two changes nothing
            continue
        twins.add(around)
        split = [2 * c + (c == tied[0] and t != token) for t, c in enumerate(colours)]
        form, budget = _search(edges, _refine(edges, split), budget)
        best = form if best is None or form < best else best
        if budget <= 0:
            break
    assert best is not None
    return best, budget


def pair_patterns(
    X: Sequence[Sequence[Hashable]], Y: Sequence[Sequence[Hashable]]
) -> tuple[NDArray[np.int64], list[tuple[Sequence[Hashable], Sequence[Hashable]]]]:
    """For every pair (x, y) the number of its equality pattern, and one pair of each pattern."""
    strings = [tuple(s) for s in (*X, *Y)]
    lengths = sorted({len(s) for s in strings})
    require(
        len(lengths) == 1 and lengths[0] > 0,
        f"All strings must have one length of at least 1; got lengths {', '.join(map(str, lengths))}: pad them.",
    )
    names = {t: i for i, t in enumerate(dict.fromkeys(t for s in strings for t in s))}
    codes = np.array([[names[t] for t in s] for s in strings])
    x, y = codes[: len(X)], codes[len(X) :]
    own_x, own_y = (np.unique(_first_places(c), axis=0, return_inverse=True)[1] for c in (x, y))
    random = np.random.default_rng(0x5EED)
    salt = random.integers(1, 1 << 62, size=(lengths[0], lengths[0]), dtype=np.uint64)
    keys = (own_x[:, None].astype(np.uint64) << np.uint64(32)) * salt[0, 0] + own_y[None, :].astype(np.uint64) * salt[
        0, -1
    ]
    for i in range(lengths[0]):
        for j in range(lengths[0]):
            keys += (x[:, i, None] == y[None, :, j]) * salt[i, j]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    pairs = [(strings[place // len(Y)], strings[len(X) + place % len(Y)]) for place in first]
    return inverse.reshape(keys.shape), pairs


def _first_places(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per string, where each of its tokens stands first: the string's own equality pattern."""
    return (codes[:, :, None] == codes[:, None, :]).argmax(axis=2)
