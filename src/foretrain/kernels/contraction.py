"""The expectation over token scores: a small tensor contraction over the graph of token pairs.

A component is a connected piece of that graph: `((t, u, m), ...)` means that m positions have token t in x and token u
in y. The numerator of the kernel puts two marks, "x" and "y", into the product over positions. So every factor has
grades (bit 1: has mark x, bit 2: has mark y), and a product adds the grades of its factors.

If a token occurs in only one of the two strings, and none of its neighbours has been summed over yet, one sum serves
all values of its neighbours' a + βζ. The other tokens take one sum per (a, b).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from foretrain.kernels.patterns import Component, canonical, count_tokens
from foretrain.kernels.quadrature import Array, QuadratureGrid

Graded = dict[int, Array]
Axis = tuple[int, int | None]  # side (0: x, 1: y) and token; no token: the axis runs over a or b itself

BLOCK = 1 << 17  # numbers in memory at once, in one product
LARGEST_TABLE = 1 << 24  # numbers kept for a sum over a token with two neighbours


@dataclass(frozen=True)
class Table:
    """A graded array whose axes run over a + βζ_t, b + βζ_t, a or b."""

    axes: tuple[Axis, ...]
    values: Graded


@dataclass(frozen=True)
class Factor:
    """A graded array at a block of (a, b): axes a, b, then one for each of the tokens."""

    tokens: tuple[int, ...]
    values: Graded


@dataclass(frozen=True)
class Step:
    """One sum, over the score of `token`, of a product with `width` token axes."""

    token: int
    width: int
    once: bool


def contract(component: Component, grid: QuadratureGrid, identity: float = 0.0) -> tuple[Array, Array]:
    """At every (a, b): the mean of the product of T over the component, without and with the kernel's two marks.

    The marks are at positions with equal tokens (the XYᵀ term, token by token) or at the same position (the γ²I term).
    """
    counts = count_tokens(component, 0), count_tokens(component, 1)
    plan = elimination(component, grid)
    plain, marked = np.zeros((2, *grid.shape))
    for index, (token, copies) in enumerate(_marked_tokens(component) or [(-1, 1)]):
        tables = []
        for t, u, m in component:
            T, T_x, T_y, T_xy = grid.table(identity * counts[0][t], identity * counts[1][u])
            graded = {0: T}
            if t == token:
                graded[1] = T_x
            if u == token:
                graded[2] = T_y
            both = (t == u == token) + (grid.gamma**2 / copies if index == 0 else 0.0)
            if both:
                graded[3] = both * T_xy
            tables.append(Table(((0, t), (1, u)), _power(graded, m)))
        once = [step for step in plan if step.once]
        for step in once:
            tables = _sum_once(step.token, tables, grid)
        _sum_everywhere(plan[len(once) :], tables, grid, plain, marked, copies)
    return plain, marked


def _sum_once(token: int, tables: list[Table], grid: QuadratureGrid) -> list[Table]:
    """Sum over a token of only one string, for all values of its neighbours' axes."""
    touching = [t for t in tables if any(axis[1] == token for axis in t.axes)]
    side = next(axis[0] for axis in touching[0].axes if axis[1] == token)
    skip = grid.stride * (grid.row_step if side == 0 else 1)
    factors = []
    for table in touching:  # axes: neighbour, then the token's windows over a or b
        (neighbour,) = [axis for axis in table.axes if axis[1] != token]
        turn = table.axes.index(neighbour)
        moved = {g: np.moveaxis(v, turn, 0) for g, v in table.values.items()}
        shape = (len(grid.scores), grid.shape[side], grid.nodes)
        factors.append((neighbour, {g: _view(v, shape, _strides(v, skip, grid.dilation)) for g, v in moved.items()}))
    neighbours = list(dict.fromkeys(neighbour for neighbour, _ in factors))
    merged: list[Graded] = []
    for name in neighbours:
        product = None
        for neighbour, windows in factors:
            if neighbour == name:
                product = windows if product is None else _times(product, windows)
        assert product is not None
        merged.append(product)
    if len(merged) == 1:
        values = {g: v @ grid.weights for g, v in merged[0].items()}
    else:  # [neighbour, b, ζ] and [neighbour, b, ζ] to [neighbour, neighbour, b]
        left = {g: np.swapaxes(v * grid.weights, 0, 1) for g, v in merged[0].items()}
        right = {g: np.moveaxis(v, 0, 2) for g, v in merged[1].items()}
        values = {g: np.moveaxis(v, 0, 2) for g, v in _times(left, right, np.matmul).items()}
    axes: tuple[Axis, ...] = (*neighbours, (side, None))
    return [t for t in tables if all(axis[1] != token for axis in t.axes)] + [Table(axes, values)]


def _strides(values: Array, skip: int, dilation: int) -> tuple[int, int, int]:
    """Strides in bytes: along the neighbour's axis, from one a or b to the next, and from one ζ to the next."""
    return values.strides[0], values.strides[1] * skip, values.strides[1] * dilation


def _view(values: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    return np.lib.stride_tricks.as_strided(values, shape, strides, writeable=False)


def _sum_everywhere(
    plan: list[Step], tables: list[Table], grid: QuadratureGrid, plain: Array, marked: Array, copies: int
) -> None:
    """Do the remaining sums, for one block of values of a and b at a time."""
    for part in _blocks(grid, max(step.width for step in plan)):
        factors = [_windows(table, grid, part) for table in tables]
        total: Graded = {0: np.ones(())}
        for step in plan:
            touching = [f for f in factors if step.token in f.tokens]
            factors = [f for f in factors if step.token not in f.tokens]
            summed = _eliminate(step.token, touching, grid.weights)
            if summed.tokens:
                factors.append(summed)
            else:
                total = _times(total, summed.values)
        plain[part] = total[0]
        if 3 in total:
            marked[part] += copies * total[3]


def _blocks(grid: QuadratureGrid, width: int) -> Iterator[tuple[slice, slice]]:
    """Pieces of the (a, b) plane whose products fit into the processor's cache."""
    rows, columns = grid.shape
    points = max(1, BLOCK // grid.nodes ** max(1, width - 1))
    wide = min(columns, points)
    high = max(1, points // wide)
    for i in range(0, rows, high):
        for j in range(0, columns, wide):
            yield slice(i, min(i + high, rows)), slice(j, min(j + wide, columns))


def _windows(table: Table, grid: QuadratureGrid, part: tuple[slice, slice]) -> Factor:
    """A view of the table at (a, b, scores of its tokens): an index on an axis is the index of a plus that of ζ."""
    tokens = tuple(sorted({t for _, t in table.axes if t is not None}))
    views = {}
    for grade, values in table.values.items():
        along = [0, 0]  # bytes from one a, or b, to the next
        within = dict.fromkeys(tokens, 0)  # bytes from one ζ of a token to the next
        for (side, token), size in zip(table.axes, values.strides, strict=True):
            along[side] += size if token is None else size * grid.stride * (grid.row_step if side == 0 else 1)
            if token is not None:
                within[token] += size * grid.dilation
        shape = grid.shape + (grid.nodes,) * len(tokens)
        strides = (*along, *within.values())
        views[grade] = _view(values, shape, strides)[part]
    return Factor(tokens, views)


def _eliminate(token: int, factors: list[Factor], weights: Array) -> Factor:
    """Multiply the factors that contain the token, and sum over its score. The last product is a matrix product."""
    merged: dict[tuple[int, ...], Factor] = {}
    for factor in sorted(factors, key=lambda f: len(f.tokens)):
        known = merged.get(factor.tokens)
        merged[factor.tokens] = factor if known is None else replace(known, values=_times(known.values, factor.values))
    left, *others = merged.values()
    axis = 2 + left.tokens.index(token)
    weighting = weights.reshape([-1] + [1] * (2 + len(left.tokens) - axis - 1))
    left = replace(left, values={g: v * weighting for g, v in left.values.items()})
    for other in others[:-1]:
        tokens = tuple(sorted({*left.tokens, *other.tokens}))
        left = Factor(tokens, _times(_spread(left, tokens), _spread(other, tokens)))
    if not others:
        rest = tuple(t for t in left.tokens if t != token)
        return Factor(rest, {g: v.sum(axis=2 + left.tokens.index(token)) for g, v in left.values.items()})
    return _matrix_product(token, left, others[-1])


def _matrix_product(token: int, left: Factor, right: Factor) -> Factor:
    """Σ over the token of left × right: tokens in both are batch axes, tokens in one are rows or columns."""
    both = tuple(t for t in left.tokens if t in right.tokens and t != token)
    rows = tuple(t for t in left.tokens if t not in right.tokens)
    columns = tuple(t for t in right.tokens if t not in left.tokens)
    lefts = {g: _arranged(v, left.tokens, both, rows, (token,)) for g, v in left.values.items()}
    rights = {g: _arranged(v, right.tokens, both, (token,), columns) for g, v in right.values.items()}
    n = next(iter(left.values.values())).shape[2]
    order = (*both, *rows, *columns)
    tokens = tuple(sorted(order))
    back = (0, 1, *(2 + order.index(t) for t in tokens))
    values = {}
    for g, v in _times(lefts, rights, np.matmul).items():
        values[g] = v.reshape(v.shape[:2] + (n,) * len(order)).transpose(back)
    return Factor(tokens, values)


def _arranged(
    values: Array, tokens: tuple[int, ...], both: tuple[int, ...], rows: tuple[int, ...], columns: tuple[int, ...]
) -> Array:
    """Axes a, b, the batch tokens, then two axes: all row tokens, all column tokens."""
    order = [2 + tokens.index(t) for t in (*both, *rows, *columns)]
    turned = values.transpose(0, 1, *order)
    if len(rows) == len(columns) == 1:
        return turned  # a view is enough for a matrix product
    head = turned.shape[: 2 + len(both)]
    n = values.shape[2]
    return turned.reshape(*head, n ** len(rows), n ** len(columns))


def _spread(factor: Factor, tokens: tuple[int, ...]) -> Graded:
    missing = tuple(2 + i for i, t in enumerate(tokens) if t not in factor.tokens)
    return {g: np.expand_dims(v, missing) for g, v in factor.values.items()}


def _times(left: Graded, right: Graded, product: np.ufunc = np.multiply) -> Graded:
    total: Graded = {}
    for g, v in left.items():
        for h, w in right.items():
            if g & h == 0:
                term = product(v, w)
                total[g | h] = total[g | h] + term if g | h in total else term
    return total


def _power(factor: Graded, exponent: int) -> Graded:
    power = factor
    for _ in range(exponent - 1):
        power = _times(power, factor)
    return power


def _marked_tokens(component: Component) -> list[tuple[int, int]]:
    """Tokens that occur in both strings: one of each kind, and how many there are of that kind."""
    shared = sorted(set(count_tokens(component, 0)) & set(count_tokens(component, 1)))
    kinds: dict[Component, list[int]] = {}
    for (
        token
    ) in shared:  # a loop of many positions singles the token out: tokens with equal forms then have equal roles
        single = canonical([*component, (token, token, 10_000)])
        kinds.setdefault(single, []).append(token)
    return [(tokens[0], len(tokens)) for tokens in kinds.values()]


def elimination(component: Component, grid: QuadratureGrid) -> list[Step]:
    """The order of summation: fewest neighbours first. Sums that serve all (a, b) at once come before the others."""
    neighbours: dict[int, set[int]] = {t: set() for edge in component for t in edge[:2]}
    for t, u, _ in component:
        if t != u:
            neighbours[t].add(u)
            neighbours[u].add(t)
    shared = set(count_tokens(component, 0)) & set(count_tokens(component, 1))
    touched = set(shared)  # these take a sum per (a, b): in both strings, or next to a token already summed over
    wide, rows = float(len(grid.scores)), grid.shape[0]

    def pays(neighbours: int) -> bool:
        """Whether one sum for all values of the neighbours' axes is less work than one sum per value of a or b."""
        fits = neighbours == 1 or wide**neighbours * grid.shape[1] <= LARGEST_TABLE
        return fits and neighbours in (1, 2) and wide**neighbours <= rows * float(grid.nodes) ** neighbours

    steps = []
    while neighbours:
        token = min(neighbours, key=lambda t: (len(neighbours[t]), t in touched, t))
        around = neighbours.pop(token)
        once = token not in touched and pays(len(around))
        steps.append(Step(token, len(around) + 1, once))
        touched |= around
        for t in around:
            neighbours[t] = (neighbours[t] | around) - {t, token}
    return sorted(steps, key=lambda step: not step.once)


def work(component: Component, grid: QuadratureGrid) -> float:
    """Roughly how many multiplications a contraction takes."""
    rows, columns = grid.shape
    n, wide = float(grid.nodes), float(len(grid.scores))
    passes = max(1, len(_marked_tokens(component)))
    return passes * sum(
        columns * n * wide ** (step.width - 1) if step.once else rows * columns * n**step.width
        for step in elimination(component, grid)
    )
