"""Appendix F.1: derivatives of K_attn at β = γ = 0, exactly, for all strings at once.

With μ_r the mean of m_j^r, softmax(βm)_i = e^{βm_i}/(k·Σ_r β^r μ_r/r!) is a series in β of terms m_i^a·Πμ_r, and
Wick's theorem turns expectations of products into sums over pairings. Every pair contributes a covariance: tokens
equal, or γ² if positions are equal. What remains is a sum over positions of products of equalities: an invariant
of the two strings, such as 1ᵀXXᵀYYᵀ1, with a coefficient that is a rational number times a power of k.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

Symbol = tuple[int, int]  # side (0: x, 1: y) and position
Piece = tuple[tuple[Symbol, ...], ...]  # groups of symbols that hold equal tokens, linked by common positions
Invariant = tuple[Piece, ...]  # the product of its pieces, each summed over all positions
Coefficient = dict[int, Fraction]  # power of k to factor


@cache
def softmax_series(order: int) -> tuple[tuple[int, tuple[int, ...], Fraction], ...]:
    """The terms of k·softmax(βm)_i at β^order: (a, (r, r', …), c) stands for c·m_i^a·μ_r·μ_r'…"""
    terms = []
    for a in range(order + 1):
        for parts in _partitions(order - a):
            factor = Fraction((-1) ** len(parts) * math.factorial(len(parts)), math.factorial(a))
            for r, repeats in Counter(parts).items():
                factor /= math.factorial(repeats) * math.factorial(r) ** repeats
            terms.append((a, parts, factor))
    return tuple(terms)


def _partitions(total: int, most: int | None = None) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    for part in range(min(total, most or total), 0, -1):
        for rest in _partitions(total - part, part):
            yield (part, *rest)


@cache
def kernel_derivative(beta_order: int, gamma_order: int, same_scores: bool = True) -> dict[Invariant, Coefficient]:
    """Appendix F.1: ∂^i/∂β^i ∂^j/∂γ^j of κ_{X,Y} at (0, 0) as Σ coefficient(k) · invariant(X, Y).

    Without `same_scores` the two strings have independent scores ζ and ζ̃, as appendix G.1 writes.
    """
    total: dict[Invariant, Coefficient] = defaultdict(lambda: defaultdict(Fraction))
    if beta_order % 2 == 0 and gamma_order % 2 == 0:
        scale = math.factorial(beta_order) * math.factorial(gamma_order)
        for of_x in range(beta_order + 1):
            for left, right in itertools.product(softmax_series(of_x), softmax_series(beta_order - of_x)):
                _add_pairings(total, left, right, gamma_order // 2, scale, same_scores)
    nonzero = {form: {p: c for p, c in powers.items() if c} for form, powers in total.items()}
    return {form: powers for form, powers in nonzero.items() if powers}


def _add_pairings(
    total: dict[Invariant, Coefficient],
    left: tuple[int, tuple[int, ...], Fraction],
    right: tuple[int, tuple[int, ...], Fraction],
    gammas: int,
    scale: int,
    same_scores: bool,
) -> None:
    """Add E[left · right · (XYᵀ + γ²I)_ij] at γ^(2·gammas)."""
    degrees = [(0, left[0]), *((0, r) for r in left[1]), (1, right[0]), *((1, r) for r in right[1])]
    j = 1 + len(left[1])
    ends = [(side, node) for node, (side, degree) in enumerate(degrees) for _ in range(degree)]
    fresh = len(degrees) - 2
    for pairs, count in _pairings(tuple(ends)).items():
        weight = scale * count * left[2] * right[2]
        edges = (((0, 0), (1, j)), *pairs)  # the first is the entry of XYᵀ + γ²I itself
        across = {index for index, ((side, _), (other, _)) in enumerate(edges) if index and side != other}
        for chosen in itertools.combinations(range(len(edges)), gammas):
            if not same_scores and not across <= set(chosen):
                continue  # independent scores: tokens of the two strings have no covariance
            form, free = _simplified(edges, chosen, len(degrees))
            total[form][free - fresh - 2] += weight


@cache
def _pairings(ends: tuple[Symbol, ...]) -> Counter[tuple[tuple[Symbol, Symbol], ...]]:
    """All ways to pair up the ends, with how often each occurs."""
    if not ends:
        return Counter({(): 1})
    pairings: Counter[tuple[tuple[Symbol, Symbol], ...]] = Counter()
    first, rest = ends[0], ends[1:]
    for place, other in enumerate(rest):
        for pairs, count in _pairings(rest[:place] + rest[place + 1 :]).items():
            pairings[tuple(sorted(((first, other), *pairs)))] += count
    return pairings


def _simplified(edges: Sequence[tuple[Symbol, Symbol]], positional: Sequence[int], nodes: int) -> tuple[Invariant, int]:
    """The invariant of a pairing, and the number of free positions, each of which contributes a factor k."""
    place = list(range(nodes))
    for index in positional:  # γ²: the two positions are the same
        (_, a), (_, b) = edges[index]
        place = [place[a] if p == place[b] else p for p in place]
    group: dict[Symbol, int] = {}
    for number, node in enumerate(sorted(set(place))):
        group |= {(0, node): 2 * number, (1, node): 2 * number + 1}
    for index, ((side, a), (other, b)) in enumerate(edges):
        if index not in positional:  # the two tokens are equal
            kept, lost = group[side, place[a]], group[other, place[b]]
            group = {symbol: kept if g == lost else g for symbol, g in group.items()}
    members: dict[int, list[Symbol]] = defaultdict(list)
    for symbol, g in group.items():
        members[g].append(symbol)
    blocks = [tuple(sorted(block)) for block in members.values() if len(block) > 1]
    bound = {node for block in blocks for _, node in block}
    return _canonical(blocks), len(set(place)) - len(bound)


def _canonical(blocks: list[tuple[Symbol, ...]]) -> Invariant:
    """The connected pieces of the blocks, each in its standard form, in order."""
    pieces: list[list[tuple[Symbol, ...]]] = []
    for block in blocks:
        nodes = {node for _, node in block}
        linked = [p for p in pieces if nodes & {node for b in p for _, node in b}]
        pieces = [p for p in pieces if p not in linked] + [[block, *(b for p in linked for b in p)]]
    return tuple(sorted(_least(tuple(sorted(piece))) for piece in pieces))


@cache
def _least(piece: Piece) -> Piece:
    """The standard form of a piece: the first in order over all names of its positions."""
    nodes = sorted({node for block in piece for _, node in block})
    forms = []
    for order in itertools.permutations(range(len(nodes))):
        name = dict(zip(nodes, order, strict=True))
        forms.append(tuple(sorted(tuple(sorted((side, name[node]) for side, node in block)) for block in piece)))
    return min(forms)


def invariant(*words: str) -> Invariant:
    """An invariant as the paper writes it: "1 XX YY 1" is 1ᵀXXᵀYYᵀ1, "tr XY" is tr(XYᵀ); several are multiplied."""
    pieces: list[Piece] = []
    for word in words:
        factors = word.removesuffix(" 1").split(" ")
        closed, steps = factors[0] == "tr", factors[1:]
        last = len(steps) - 1
        edges = []
        for index, step in enumerate(steps):
            after = 0 if closed and index == last else index + 1
            edges.append((("XY".index(step[0]), index), ("XY".index(step[1]), after)))
        pieces += _simplified(edges, (), len(steps) if closed else len(steps) + 1)[0]
    return tuple(sorted(pieces))


def invariant_value(form: Invariant, x: Sequence[object], y: Sequence[object]) -> int:
    """The invariant of two strings: a whole number."""
    tokens = list(dict.fromkeys([*x, *y]))
    hot = [np.array([[token == other for other in tokens] for token in s], dtype=np.int64) for s in (x, y)]
    value = 1
    for piece in form:
        operands: list[object] = []
        for block_number, block in enumerate(piece):
            for side, node in block:
                operands += [hot[side], [node, 50 - block_number]]
        value *= int(np.einsum(*operands, [], optimize="greedy"))  # type: ignore[call-overload]
    return value


def derivative_value(beta_order: int, gamma_order: int, x: Sequence[object], y: Sequence[object]) -> Fraction:
    """Appendix F.1: ∂^i/∂β^i ∂^j/∂γ^j κ_{x,y}(0, 0), exactly; Claims F.2 to F.6 compare five of these."""
    k = len(x)
    return sum(
        (
            invariant_value(form, x, y) * sum((c * Fraction(k) ** p for p, c in powers.items()), Fraction(0))
            for form, powers in kernel_derivative(beta_order, gamma_order).items()
        ),
        Fraction(0),
    )
