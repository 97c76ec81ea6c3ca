"""Section 3.1, Claim E.2 and appendices F.1, F.2: the kernel as a limit, its closed forms and its derivatives at 0."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import xarray as xr

from foretrain.core.trajectory import trajectory
from foretrain.kernels.activations import Cosine
from foretrain.kernels.attention import attention_matrix
from foretrain.ledger.claim import Claim, Control, erratum_pair
from foretrain.ledger.comparators import close, close_relative, converges, every
from foretrain.ledger.tolerances import EXACT, SLOPE
from foretrain.papers.abstract_symbols import theory
from foretrain.papers.abstract_symbols.experiments.kernel import LAYERS, STRINGS, independent_scores, network_kernels
from foretrain.papers.abstract_symbols.tolerances import NETWORK_KERNEL

OTHER_BETA = 4.0  # of the networks in the control


def _kernel_trajectory(strings: Sequence[str], attention: np.ndarray) -> xr.Dataset:
    own = np.diag(attention)
    transformer = Cosine().expectation(own[:, None], own[None, :], attention)
    return trajectory(
        {"kernel": (("layer", "x", "y"), np.stack([attention, transformer]))},
        {"layer": list(LAYERS), "x": list(strings), "y": list(strings)},
    )


def _exact_kernel(strings: Sequence[str], beta: float, gamma: float) -> xr.Dataset:
    return _kernel_trajectory(strings, attention_matrix(strings, strings, beta=beta, gamma=gamma).values)


def _independent_scores(strings: Sequence[str], beta: float, gamma: float) -> xr.Dataset:
    """The kernel where ζ of one string is independent of ζ̃ of the other, as appendix G.1 writes it."""
    return _kernel_trajectory(strings, independent_scores(strings, beta, gamma))


def _networks(
    strings: Sequence[str],
    beta: float,
    gamma: float,
    widths: Sequence[int],
    seeds: int,
    network_beta: float | None = None,
) -> xr.Dataset:
    measured = network_kernels(tuple(strings), (beta, OTHER_BETA), gamma, tuple(widths), seeds)
    return measured.sel(beta=beta if network_beta is None else network_beta, drop=True)


kernel = erratum_pair(
    printed=_independent_scores,
    corrected=_exact_kernel,
    id="abstract_symbols/kernel",
    prints="K_attn and K_trans, with ζ̃ independent of ζ as in appendix G, are limits of a transformer's random "
    "features as all widths grow, at rate width^(−1/2).",
    source="eq. 4, appendices G and H.1–H.3",
    says="K_attn and K_trans are limits of a transformer's random features as all widths grow, at rate width^(−1/2).",
    observe=_networks,
    compare=converges("kernel", "width", SLOPE, NETWORK_KERNEL),
    settings={
        "fast": {"strings": STRINGS, "beta": 1.5, "gamma": 0.7, "widths": (12, 24, 48, 96), "seeds": 40},
        "full": {"strings": STRINGS, "beta": 1.5, "gamma": 0.7, "widths": (12, 24, 48, 96, 192), "seeds": 100},
        "paper": {"strings": STRINGS, "beta": 1.5, "gamma": 0.7, "widths": (16, 32, 64, 128, 256), "seeds": 200},
    },
    control=Control("the networks' softmax has another temperature than the kernel's", {"network_beta": OTHER_BETA}),
    erratum=(
        "Appendix G writes m(X̃) = X̃ζ̃ + γp with ζ̃ independent of ζ; eq. 4's covariance XYᵀ + γ²I between m(X) and "
        "m(Y) needs the same ζ for both. At β = 1.5, γ = .7 the printed K_attn(AB*, AB*) is .618, the limit of "
        "networks .929, and the distance to it stops falling with width."
    ),
)


def _closed_cosine(cases: int) -> xr.Dataset:
    arguments = _cosine_cases(cases)
    a, b, rho, k, c = arguments
    return trajectory({"expectation": ("case", theory.cosine_expectation(a, b, rho, k=k, c=c))})


def _integrated_cosine(cases: int, sign: float = 1.0) -> xr.Dataset:
    """Gauss–Hermite over U = √a·s, V = ρ/√a·s + √(b − ρ²/a)·t; `sign` = −1 flips the correlation."""
    a, b, rho, k, c = (v[:, None, None] for v in _cosine_cases(cases))
    rho = sign * rho
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    s, t = nodes[None, :, None], nodes[None, None, :]
    product = np.cos(k * np.sqrt(a) * s + c) * np.cos(k * (rho / np.sqrt(a) * s + np.sqrt(b - rho**2 / a) * t) + c)
    weights = weights / weights.sum()
    return trajectory({"expectation": ("case", np.einsum("nst,s,t->n", product, weights, weights))})


def _cosine_cases(cases: int) -> tuple[np.ndarray, ...]:
    """Variances up to 2, any correlation, k up to 1.5, any phase; every third case has c = π/4, as in Lemma E.1."""
    draw = np.random.default_rng(5)
    a, b = draw.uniform(0.1, 2.0, size=(2, cases))
    rho = np.sqrt(a * b) * draw.uniform(-0.99, 0.99, size=cases)
    c = np.where(np.arange(cases) % 3 == 0, np.pi / 4, draw.uniform(0, 2 * np.pi, size=cases))
    return a, b, rho, draw.uniform(0.2, 1.5, size=cases), c


claimE2 = Claim(
    id="abstract_symbols/claimE2",
    source="Claim E.2",
    says="E[cos(kU + c)cos(kV + c)] = ½e^{−k²(a+b)/2}(e^{−k²ρ}cos 2c + e^{k²ρ}).",
    predict=_closed_cosine,
    observe=_integrated_cosine,
    compare=close("expectation", EXACT, relative=False),
    settings={"fast": {"cases": 60}, "full": {"cases": 600}},
    control=Control("the integral has the opposite correlation", {"sign": -1.0}),
)


PRINTED_TERMS = {(0, 0): 1, (2, 2): 2, (4, 0): 23, (4, 2): 17, (6, 4): 27}
PRINTED_CONSTANTS: dict[str, tuple[tuple[int, int], tuple[str, ...], Callable[[int], Fraction]]] = {
    "c1": ((0, 0), ("1 XY 1",), lambda k: Fraction(1, k**2)),
    "c2": ((2, 2), ("tr XY",), lambda k: Fraction(8, k**2)),
    "c20": ((4, 0), ("1 XY 1", "1 XX 1", "1 YY 1"), lambda k: Fraction(24, k**6)),
    "c16": ((4, 2), ("1 XX YY 1",), lambda k: Fraction(48, k**4)),
    "c25": ((6, 4), ("tr XX YY",), lambda k: Fraction(17280, k**4)),
}


def _printed_table(lengths: Sequence[int]) -> xr.Dataset:
    """Appendix F.1: the five printed constants for every k, and the number of terms in each row of the table."""
    values = [[float(of_k(k)) for k in lengths] for _, _, of_k in PRINTED_CONSTANTS.values()]
    return _table(lengths, values, list(PRINTED_TERMS.values()))


def _expanded(lengths: Sequence[int], same_scores: bool = True) -> xr.Dataset:
    """The same numbers from the exact Wick expansion."""
    values = []
    for orders, words, _ in PRINTED_CONSTANTS.values():
        powers = theory.kernel_derivative(*orders, same_scores).get(theory.invariant(*words), {})
        values.append([float(sum(c * Fraction(k) ** p for p, c in powers.items())) for k in lengths])
    return _table(lengths, values, [len(theory.kernel_derivative(*orders, same_scores)) for orders in PRINTED_TERMS])


def _table(lengths: Sequence[int], values: list[list[float]], terms: list[int]) -> xr.Dataset:
    return trajectory(
        {"constant": (("name", "length"), values), "terms": ("derivative", np.array(terms, dtype=np.float64))},
        {"name": list(PRINTED_CONSTANTS), "length": list(lengths), "derivative": [str(o) for o in PRINTED_TERMS]},
    )


appendixF = Claim(
    id="abstract_symbols/appendixF",
    source="appendix F.1, table of derivatives",
    says=(
        "At β = γ = 0 the kernel is 1ᵀXYᵀ1/k²; its derivatives have 2, 23, 17 and 27 terms, with "
        "c2 = 8/k², c20 = 24/k⁶, c16 = 48/k⁴ and c25 = 17280/k⁴."
    ),
    predict=_printed_table,
    observe=_expanded,
    compare=every(close_relative("constant", EXACT), close("terms", EXACT)),
    settings={"fast": {"lengths": (2, 3, 5, 10, 20)}},
    control=Control("the two strings have independent scores, as appendix G.1 writes", {"same_scores": False}),
)


def _pairs(length: int) -> list[tuple[str, str]]:
    """Pairs of strings over {a, b, c} that have every token equally often, as F.2.1 assumes."""
    words = ["".join(w) for w in itertools.product("abc", repeat=length)]
    return [(x, y) for x in words for y in words if sorted(x) == sorted(y)]


def _traces_printed(length: int) -> xr.Dataset:
    """F.2.1: tr(XXᵀXYᵀ) = tr(XYᵀYYᵀ) = ‖1ᵀX‖²; F.2.2 (for x = y): tr(XYᵀXYᵀ) = tr(XXᵀ)."""
    squares = [sum(x.count(t) ** 2 for t in "abc") for x, _ in _pairs(length)]
    return _traces(squares, squares, [length] * 3**length, length)


def _traces_right(length: int) -> xr.Dataset:
    """tr(XXᵀXYᵀ) counts token x_i only at positions with x_i = y_i; tr(XXᵀXXᵀ) = ‖1ᵀX‖²."""
    same = [sum(x.count(a) for a, b in zip(x, y, strict=True) if a == b) for x, y in _pairs(length)]
    words = ["".join(w) for w in itertools.product("abc", repeat=length)]
    return _traces(same, same, [sum(x.count(t) ** 2 for t in "abc") for x in words], length)


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


appendixF_traces = erratum_pair(
    printed=_traces_printed,
    corrected=_traces_right,
    id="abstract_symbols/appendixF_traces",
    prints="If x and y have every token equally often, tr(XXᵀXYᵀ) = ‖1ᵀX‖²; if x = y, tr(XYᵀXYᵀ) = tr(XXᵀ).",
    source="appendix F.2.1 and F.2.2, trace identities",
    says=(
        "If x and y have every token equally often, tr(XXᵀXYᵀ) counts the token of each position with x_i = y_i; if "
        "x = y, tr(XYᵀXYᵀ) = ‖1ᵀX‖²."
    ),
    observe=_traces_counted,
    compare=every(close("tr_xxxy", EXACT), close("tr_xyyy", EXACT), close("tr_xyxy", EXACT)),
    settings={"fast": {"length": 3}, "full": {"length": 4}},
    control=Control("y ends with a token that x does not hold", {"other": "d"}),
    erratum=(
        "F.2.1 prints tr(XXᵀXYᵀ) = ‖1ᵀX‖² where only the counts of tokens agree: for ab and ba it is 0, not 2; it "
        "needs equal positions. F.2.2 prints tr(XYᵀXYᵀ) = tr(XXᵀ): for aa it is 4, not 2; it is ‖1ᵀX‖². Both are used "
        "only where positions agree, and there only that they depend on x alone: nothing else changes."
    ),
)

CLAIMS = [*kernel, claimE2, appendixF, *appendixF_traces]
