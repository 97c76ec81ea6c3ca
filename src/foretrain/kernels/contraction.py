"""The expectation over token scores: a small tensor contraction over the graph of token pairs.

A component is a connected piece of that graph: `((t, u, m), ...)` says that m positions hold token t in x and
token u in y. The numerator of the kernel inserts two marks, "x" and "y", into the product over positions; so
every factor carries grades (bit 1: has mark x, bit 2: has mark y) and products add grades.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from foretrain.kernels.quadrature import Array, Grid

Edge = tuple[int, int, int]
Component = tuple[Edge, ...]
Graded = dict[int, Array]

BLOCK = 1 << 21  # numbers held at once in one product


def contract(component: Component, grid: Grid, identity: float = 0.0) -> tuple[Array, Array]:
    """At every (a, b): E of the product of T over the component, and the same with the kernel's two marks in it.

    The marks stand at positions with equal tokens (the XYᵀ term, token by token) or at the same position
    (the γ²I term).
    """
    x_counts, y_counts = _counts(component, 0), _counts(component, 1)
    shared = sorted(set(x_counts) & set(y_counts))
    plan = elimination_order(component)
    plain, marked = np.zeros((2, len(grid.a), len(grid.a)))
    for index, token in enumerate(shared or [None]):
        tables = []
        for t, u, m in component:
            T, T_x, T_y, T_xy = grid.table(identity * x_counts[t], identity * y_counts[u])
            factor = {0: T}
            if t == token:
                factor[1] = T_x
            if u == token:
                factor[2] = T_y
            both = (t == u == token) + (grid.gamma**2 if index == 0 else 0.0)
            if both:
                factor[3] = both * T_xy
            tables.append(((t, u), _power(factor, m)))
        _run(tables, plan, grid, plain if index == 0 else None, marked)
    return plain, marked


def _run(
    tables: list[tuple[tuple[int, int], Graded]],
    plan: list[tuple[int, int]],
    grid: Grid,
    plain: Array | None,
    marked: Array,
) -> None:
    n, count = grid.nodes, len(grid.a)
    rows = max(1, BLOCK // (count * n ** max(width for _, width in plan)))
    for start in range(0, count, rows):
        part = slice(start, min(start + rows, count))
        factors = [_window(pair, table, grid, part) for pair, table in tables]
        result: Graded = {0: np.ones(())}
        for token, _ in plan:
            touching = [f for f in factors if token in f[0]]
            factors = [f for f in factors if token not in f[0]]
            tokens, summed = _eliminate(token, touching, grid.weights)
            if tokens:
                factors.append((tokens, summed))
            else:
                result = _times(result, summed)
        if plain is not None:
            plain[part] = result[0]
        if 3 in result:
            marked[part] += result[3]


def _window(pair: tuple[int, int], table: Graded, grid: Grid, part: slice) -> tuple[tuple[int, ...], Graded]:
    """The factor at all (a, b) of a block of rows: axes a, b, then one per token."""
    t, u = pair
    windows = {}
    for grade, values in table.items():
        view = np.lib.stride_tricks.sliding_window_view(values, (grid.nodes, grid.nodes))
        view = view[:: grid.stride, :: grid.stride][part]
        windows[grade] = np.einsum("abss->abs", view) if t == u else view if t < u else view.swapaxes(2, 3)
    return tuple(sorted({t, u})), windows


def _eliminate(
    token: int, factors: list[tuple[tuple[int, ...], Graded]], weights: Array
) -> tuple[tuple[int, ...], Graded]:
    """Multiply the factors that hold the token and sum over its score."""
    tokens = tuple(sorted({t for names, _ in factors for t in names}))
    axis = 2 + tokens.index(token)
    product: Graded = {}
    for names, graded in factors:
        spread = {g: _expand(v, names, tokens) for g, v in graded.items()}
        product = _times(product, spread) if product else spread
    rest = tuple(t for t in tokens if t != token)
    return rest, {g: np.tensordot(v, weights, axes=(axis, 0)) for g, v in product.items()}


def _expand(values: Array, names: tuple[int, ...], tokens: tuple[int, ...]) -> Array:
    return np.expand_dims(values, tuple(2 + i for i, t in enumerate(tokens) if t not in names))


def _times(left: Graded, right: Graded) -> Graded:
    product: Graded = {}
    for g, v in left.items():
        for h, w in right.items():
            if g & h == 0:
                term = v * w
                product[g | h] = product[g | h] + term if g | h in product else term
    return product


def _power(factor: Graded, exponent: int) -> Graded:
    power = factor
    for _ in range(exponent - 1):
        power = _times(power, factor)
    return power


def elimination_order(component: Component) -> list[tuple[int, int]]:
    """Tokens in the order they are summed over (fewest neighbours first), with the axes of each product."""
    neighbours: dict[int, set[int]] = {t: set() for edge in component for t in edge[:2]}
    for t, u, _ in component:
        if t != u:
            neighbours[t].add(u)
            neighbours[u].add(t)
    order = []
    while neighbours:
        token = min(neighbours, key=lambda t: (len(neighbours[t]), t))
        around = neighbours.pop(token)
        order.append((token, len(around) + 1))
        for t in around:
            neighbours[t] = (neighbours[t] | around) - {t, token}
    return order


def work(components: Iterable[Component], grid: Grid) -> float:
    """Roughly how many multiplications the contractions take."""
    total = 0.0
    for component in components:
        passes = max(1, len(set(_counts(component, 0)) & set(_counts(component, 1))))
        total += passes * sum(
            len(grid.a) ** 2 * float(grid.nodes) ** width for _, width in elimination_order(component)
        )
    return total


def _counts(component: Component, side: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    for edge in component:
        counts[edge[side]] += edge[2]
    return counts
