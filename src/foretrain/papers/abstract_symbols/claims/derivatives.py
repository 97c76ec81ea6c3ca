"""Appendix F.1 and F.2: the derivatives of K_attn at β = γ = 0, term by term."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import close, close_relative, every
from foretrain.ledger.tolerances import EXACT
from foretrain.papers.abstract_symbols import theory

# The table of appendix F.1 as printed: the terms of each derivative, by its orders in β and γ. "" is the constant term.
PRINTED_TERMS = {
    (0, 0): ("1 XY 1",),
    (2, 2): ("1 XY 1", "tr XY"),
    (4, 0): (
        "1 XY 1", "1 XX XY 1", "1 XY YY 1", "1 XX XX XY 1", "1 XY 1 * 1 XX 1", "1 XY YX XY 1", "1 XY 1 * 1 XY 1",
        "1 YX XY YY 1", "1 XY 1 * 1 YY 1", "1 XX XY 1 * 1 XX 1", "1 XY YY 1 * 1 XX 1", "1 XY 1 * 1 XX XY 1",
        "1 XY YY 1 * 1 XY 1", "1 XX XY 1 * 1 YY 1", "1 XY YY 1 * 1 YY 1", "1 XY 1 * 1 XX 1 * 1 XX 1",
        "1 XY 1 * 1 XX XX 1", "1 XY 1 * 1 XY 1 * 1 XX 1", "1 XY 1 * 1 XY 1 * 1 XY 1", "1 XY 1 * 1 XX 1 * 1 YY 1",
        "1 XY 1 * 1 XY 1 * 1 YY 1", "1 XY 1 * 1 YY 1 * 1 YY 1", "1 XY 1 * 1 YY YY 1",
    ),
    (4, 2): (
        "1 XY 1", "tr XY", "1 XX XY 1", "tr XX XY", "1 XY YY 1", "tr XY YY", "1 XY 1 * 1 XX 1", "tr XY * 1 XX 1",
        "1 XY 1 * 1 XY 1", "1 XY 1 * tr XY", "1 XY 1 * 1 YY 1", "1 XY XY 1", "tr XY * 1 YY 1", "1 YX YY 1",
        "1 XX YX 1", "1 XX YY 1", "1 YY 1 * 1 XX 1",
    ),
    (6, 4): (
        "1 XY 1", "tr XY", "1 XX XY 1", "tr XX XY", "1 XY YY 1", "tr XY YY", "1 XY 1 * 1 XX 1", "tr XY * 1 XX 1",
        "tr XY * 1 XY 1", "1 XY 1 * 1 YY 1", "1 XY 1 * 1 XY 1", "1 XY XY 1", "tr XY * 1 YY 1", "1 XX YX 1",
        "1 YX YY 1", "tr XY XY", "tr XY * tr XY", "", "1 XX 1", "1 XX XX 1", "1 XX YY 1", "1 YY 1", "1 XX 1 * 1 XX 1",
        "1 YY 1 * 1 XX 1", "tr XX YY", "1 YY YY 1", "1 YY 1 * 1 YY 1",
    ),
}  # fmt: skip
ROWS = [f"order {i} in β, {j} in γ" for i, j in PRINTED_TERMS]
PRINTED_CONSTANTS: dict[str, tuple[tuple[int, int], tuple[str, ...], Callable[[int], Fraction]]] = {
    "c1": ((0, 0), ("1 XY 1",), lambda k: Fraction(1, k**2)),
    "c2": ((2, 2), ("tr XY",), lambda k: Fraction(8, k**2)),
    "c20": ((4, 0), ("1 XY 1", "1 XX 1", "1 YY 1"), lambda k: Fraction(24, k**6)),
    "c16": ((4, 2), ("1 XX YY 1",), lambda k: Fraction(48, k**4)),
    "c25": ((6, 4), ("tr XX YY",), lambda k: Fraction(17280, k**4)),
}


def printed_invariants(orders: tuple[int, int]) -> set[theory.Invariant]:
    """The terms that appendix F.1 prints for a derivative."""
    return {theory.invariant(*term.split(" * ")) if term else () for term in PRINTED_TERMS[orders]}


def _printed_table(lengths: Sequence[int]) -> xr.Dataset:
    """The five printed constants for every k; every printed term is one of the expansion, and the other way round."""
    values = [[float(of_k(k)) for k in lengths] for _, _, of_k in PRINTED_CONSTANTS.values()]
    return _table(lengths, values, [0] * len(ROWS), [0] * len(ROWS))


def _expanded(lengths: Sequence[int], same_scores: bool = True) -> xr.Dataset:
    """The same from the exact Wick expansion: terms that are only in print, and terms that are not."""
    values = []
    for orders, words, _ in PRINTED_CONSTANTS.values():
        powers = theory.kernel_derivative(*orders, same_scores).get(theory.invariant(*words), {})
        values.append([float(sum(c * Fraction(k) ** p for p, c in powers.items())) for k in lengths])
    expanded = {orders: set(theory.kernel_derivative(*orders, same_scores)) for orders in PRINTED_TERMS}
    return _table(
        lengths,
        values,
        [len(printed_invariants(orders) - terms) for orders, terms in expanded.items()],
        [len(terms - printed_invariants(orders)) for orders, terms in expanded.items()],
    )


def _table(lengths: Sequence[int], values: list[list[float]], superfluous: list[int], missing: list[int]) -> xr.Dataset:
    return trajectory(
        {
            "constant": (("name", "length"), values),
            "superfluous": ("derivative", np.array(superfluous, dtype=np.float64)),
            "missing": ("derivative", np.array(missing, dtype=np.float64)),
        },
        {"name": list(PRINTED_CONSTANTS), "length": list(lengths), "derivative": ROWS},
    )


appendixF = Claim(
    id="abstract_symbols/appendixF",
    source="appendix F.1, table of derivatives",
    whose="a step of the paper's proof",
    says=(
        "At β = γ = 0 the kernel is 1ᵀXYᵀ1/k², and its four derivatives consist of exactly the 2, 23, 17 and 27 "
        "terms that are printed, with c2 = 8/k², c20 = 24/k⁶, c16 = 48/k⁴ and c25 = 17280/k⁴."
    ),
    predict=_printed_table,
    observe=_expanded,
    compare=every(
        close_relative("constant", EXACT, by="as printed", seen="by expansion"),
        close("superfluous", EXACT),
        close("missing", EXACT),
    ),
    settings={"fast": {"lengths": (2, 3, 5, 10, 20)}},
    control=Control("the two strings have independent scores, as appendix G.1 writes", {"same_scores": False}),
)


def _pairs(length: int) -> list[tuple[str, str]]:
    """Pairs of strings over {a, b, c} that have every token equally often, as F.2.1 assumes."""
    words = ["".join(w) for w in itertools.product("abc", repeat=length)]
    return [(x, y) for x in words for y in words if sorted(x) == sorted(y)]


def _trace_identities(length: int, printed: bool = False) -> xr.Dataset:
    """tr(XXᵀXYᵀ) counts token x_i only at positions with x_i = y_i; tr(XXᵀXXᵀ) = ‖1ᵀX‖².

    Printed: F.2.1 has tr(XXᵀXYᵀ) = tr(XYᵀYYᵀ) = ‖1ᵀX‖², and F.2.2 (for x = y) tr(XYᵀXYᵀ) = tr(XXᵀ).
    """
    if printed:
        squares = [_squared_counts(x) for x, _ in _pairs(length)]
        return _traces(squares, squares, [length] * 3**length, length)
    same = [sum(x.count(a) for a, b in zip(x, y, strict=True) if a == b) for x, y in _pairs(length)]
    words = ["".join(w) for w in itertools.product("abc", repeat=length)]
    return _traces(same, same, [_squared_counts(x) for x in words], length)


def _squared_counts(word: str) -> int:
    return sum(word.count(token) ** 2 for token in "abc")


def _traces_counted(length: int, other: str = "") -> xr.Dataset:
    """The traces themselves; in the control `other` replaces the last token of Y."""
    first, second = theory.invariant("tr XX XY"), theory.invariant("tr XY YY")
    third = theory.invariant("tr XY XY")
    pairs = [(x, y[: len(y) - len(other)] + other) for x, y in _pairs(length)]
    words = ["".join(w) for w in itertools.product("abc", repeat=length)]
    return _traces(
        [theory.invariant_value(first, x, y) for x, y in pairs],
        [theory.invariant_value(second, x, y) for x, y in pairs],
        [theory.invariant_value(third, x, x) for x in words],
        length,
    )


def _traces(first: list[int], second: list[int], third: list[int], length: int) -> xr.Dataset:
    return trajectory(
        {
            "tr_xxxy": ("pair", np.array(first, dtype=np.float64)),
            "tr_xyyy": ("pair", np.array(second, dtype=np.float64)),
            "tr_xyxy": ("word", np.array(third, dtype=np.float64)),
        },
        {
            "pair": ["-".join(p) for p in _pairs(length)],
            "word": ["".join(w) for w in itertools.product("abc", repeat=length)],
        },
    )


appendixF_traces = Claim(
    id="abstract_symbols/appendixF_traces",
    source="appendix F.2.1 and F.2.2, trace identities",
    whose="a step of the paper's proof",
    says=(
        "If x and y have every token equally often, tr(XXᵀXYᵀ) counts the token of each position with x_i = y_i; if "
        "x = y, tr(XYᵀXYᵀ) = ‖1ᵀX‖²."
    ),
    predict=_trace_identities,
    observe=_traces_counted,
    compare=every(
        close("tr_xxxy", EXACT, by="by the identity", seen="by multiplying"),
        close("tr_xyyy", EXACT, by="by the identity", seen="by multiplying"),
        close("tr_xyxy", EXACT, by="by the identity", seen="by multiplying"),
    ),
    settings={"fast": {"length": 3}, "full": {"length": 4}},
    control=Control("y ends with a token that x does not hold", {"other": "d"}),
    erratum=Erratum(
        changes={"printed": True},
        prints="If x and y have every token equally often, tr(XXᵀXYᵀ) = ‖1ᵀX‖²; if x = y, tr(XYᵀXYᵀ) = tr(XXᵀ).",
        says="The first identity needs equal positions, not only equal counts of tokens: for ab and ba the trace is "
        "0, not 2. The second should have ‖1ᵀX‖²: for aa the trace is 4, not 2.",
        formulas=(
            r"\mathrm{tr}(XX^\top XY^\top) = \|1^\top X\|^2, \quad \mathrm{tr}(XY^\top XY^\top) = \mathrm{tr}(XX^\top)",
            r"\mathrm{tr}(XX^\top XY^\top) = \sum_{i:\, x_i = y_i} (1^\top X)_{x_i}, \quad "
            r"\mathrm{tr}(XX^\top XX^\top) = \|1^\top X\|^2",
        ),
        consequence="None: both are used where positions agree, and there only to say that a trace depends on x alone.",
    ),
)

CLAIMS = [appendixF, appendixF_traces]
