"""Equality patterns: of a pair of strings, the kernel only sees which of their tokens are equal.

Permuting the positions of both strings and renaming tokens changes nothing. So a pair is a multiset of token pairs: a
directed graph with tokens as nodes and positions as edges. Its connected pieces are the components to contract.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Int
from numpy import ndarray as Array

from foretrain.core.errors import require

String = Sequence[Hashable]
Edge = tuple[int, int, int]  # token of x, token of y, number of positions that have both
Component = tuple[Edge, ...]

MOST_BRANCHES = (
    500  # after this many trials a form may not be the least one: then more patterns are computed, none wrongly
)


def encoded(X: Sequence[String], Y: Sequence[String]) -> tuple[Int[Array, "x position"], Int[Array, "y position"]]:
    """Two lists of strings, all of the same length, with a number for each token."""
    rows = [tuple(s) for strings in (X, Y) for s in strings]
    lengths = sorted({len(row) for row in rows})
    require(
        len(lengths) == 1 and lengths[0] >= 1 and len(X) >= 1 and len(Y) >= 1,
        f"All strings must have one length of at least 1; got lengths {lengths}: pad the shorter ones with a token.",
    )
    numbers: dict[Hashable, int] = {}
    codes = np.array([[numbers.setdefault(token, len(numbers)) for token in row] for row in rows])
    return codes[: len(X)], codes[len(X) :]


def pair_patterns(
    x: Int[Array, "x position"], y: Int[Array, "y position"]
) -> tuple[Int[Array, "x y"], Int[Array, "pattern"], Int[Array, "pattern"]]:
    """The number of each pair's equality pattern, and for each pattern the rows of one pair that has it.

    A pattern is identified by a sum of random 64-bit numbers, one for each common token, which depends on the sets of
    places it has in x and in y. Among a million patterns, two share a sum with probability 1e-7.
    """
    random = np.random.default_rng(0x5EED)
    places_x, places_y = _places(x), _places(y)
    names = {mask: i for i, mask in enumerate(dict.fromkeys([*places_x[2], *places_y[2]]))}
    salt = random.integers(0, 1 << 63, size=(len(names), len(names)), dtype=np.uint64)
    own_x, own_y = (_own_patterns(codes, random) for codes in (x, y))
    keys = own_x[:, None] * np.uint64(3) + own_y[None, :]
    masks_x, masks_y = (np.array([names[mask] for mask in places[2]]) for places in (places_x, places_y))
    rows_of, columns_of = (pd.Series(range(len(p[0]))).groupby(p[0]).indices for p in (places_x, places_y))
    for token in rows_of.keys() & columns_of.keys():
        i, j = rows_of[token], columns_of[token]
        added = salt[masks_x[i][:, None], masks_y[j][None, :]]
        if len(i) == len(x) and len(j) == len(y):  # a token of all strings, such as CLS, needs no look-up of rows
            keys += added
        else:
            keys[np.ix_(places_x[1][i], places_y[1][j])] += added
    labels, first = _factorize(keys)
    return labels, first // len(y), first % len(y)


def _factorize(keys: Array) -> tuple[Int[Array, "x y"], Int[Array, "pattern"]]:
    labels, uniques = pd.factorize(keys.ravel())
    first = np.empty(len(uniques), dtype=np.int64)
    first[labels[::-1]] = np.arange(len(labels))[
        ::-1
    ]  # written backwards, so that the first pair with the label remains
    return labels.reshape(keys.shape), first


def _places(codes: Int[Array, "string position"]) -> tuple[Array, Array, list[bytes]]:
    """Every token of every string once: (token, row, its places there)."""
    same = codes[:, :, None] == codes[:, None, :]
    rows, columns = np.nonzero(same.argmax(axis=2) == np.arange(codes.shape[1]))
    order = np.argsort(rows, kind="stable")
    rows, columns = rows[order], columns[order]
    packed = np.packbits(same[rows, columns], axis=1)
    return codes[rows, columns], rows, [mask.tobytes() for mask in packed]


def _own_patterns(codes: Int[Array, "string position"], random: np.random.Generator) -> Array:
    """One random number per equality pattern within a string."""
    first_places = (codes[:, :, None] == codes[:, None, :]).argmax(axis=2)
    known: dict[bytes, int] = {}
    labels = np.array([known.setdefault(row.tobytes(), len(known)) for row in first_places])
    return random.integers(0, 1 << 63, size=len(known), dtype=np.uint64)[labels]


def pattern_of(x: String, y: String) -> tuple[Component, ...]:
    """The pair up to names of tokens, order of positions and exchange of x and y, as its sorted components."""
    pieces = _connected(x, y)
    forward = tuple(sorted(canonical(piece) for piece in pieces))
    back = tuple(sorted(canonical([(u, t, m) for t, u, m in piece]) for piece in pieces))
    return min(forward, back)


def _connected(x: String, y: String) -> list[list[tuple[Hashable, Hashable, int]]]:
    edges = Counter(zip(x, y, strict=True))
    owner: dict[Hashable, set[Hashable]] = {}
    for t, u in edges:
        joined = owner.get(t, {t}) | owner.get(u, {u})
        owner.update(dict.fromkeys(joined, joined))
    pieces: dict[int, list[tuple[Hashable, Hashable, int]]] = {}
    for (t, u), m in edges.items():
        pieces.setdefault(id(owner[t]), []).append((t, u, m))
    return list(pieces.values())


def canonical(piece: Sequence[tuple[Hashable, Hashable, int]]) -> Component:
    """The least renaming of a connected graph, which is the same for pieces that differ only in names."""
    number: dict[Hashable, int] = {}
    edges = [(number.setdefault(t, len(number)), number.setdefault(u, len(number)), m) for t, u, m in piece]
    return _search(edges, _refine(edges, [0] * len(number)), MOST_BRANCHES)[0]


def _refine(edges: list[Edge], colours: list[int]) -> list[int]:
    """Tell tokens apart by the colours of their neighbours, until nothing changes."""
    while True:
        seen: list[list[tuple[int, int, int]]] = [[] for _ in colours]
        for t, u, m in edges:
            seen[t].append((0 if t != u else 2, m, colours[u]))
            seen[u].append((1 if t != u else 2, m, colours[t]))
        keys = [(colour, tuple(sorted(around))) for colour, around in zip(colours, seen, strict=True)]
        rank = {key: i for i, key in enumerate(sorted(set(keys)))}
        before, colours = len(set(colours)), [rank[key] for key in keys]
        if len(rank) == before:
            return colours


def _search(edges: list[Edge], colours: list[int], budget: int) -> tuple[Component, int]:
    """The least form over all ways to break the ties left by refinement, and how much of the budget remains."""
    sizes = Counter(colours)
    tied = next((colour for colour in sorted(sizes) if sizes[colour] > 1), None)
    if tied is None:
        return tuple(sorted((colours[t], colours[u], m) for t, u, m in edges)), budget - 1
    forms, twins = [], set()
    for token in (t for t, colour in enumerate(colours) if colour == tied):
        around = frozenset((t == token, t if u == token else u, m) for t, u, m in edges if token in (t, u))
        if around in twins:  # a token tried before has the same neighbours, so swapping the two changes nothing
            continue
        twins.add(around)
        split = [2 * colour + (colour == tied and t != token) for t, colour in enumerate(colours)]
        form, budget = _search(edges, _refine(edges, split), budget)
        forms.append(form)
        if budget <= 0:
            break
    return min(forms), budget


def count_tokens(component: Component, side: int) -> Counter[int]:
    """How many positions of the component have each token of x (side 0) or of y (side 1)."""
    counts: Counter[int] = Counter()
    for edge in component:
        counts[edge[side]] += edge[2]
    return counts
