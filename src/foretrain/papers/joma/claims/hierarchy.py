"""Section 5: co-occurrence in latent trees (Lemmas 8 and 9, Theorem 5, eq. 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.data import LatentTree
from foretrain.ledger.claim import Claim, Control, Erratum
from foretrain.ledger.comparators import close, every, same_mean
from foretrain.ledger.tolerances import ALGEBRA, EXACT, SLOPE
from foretrain.papers.joma import theory

# Lemmas 8 and 9


def _chains(chains: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """ρ along chains [chain, edge], and the ρ of the vector that each chain acts on [chain]."""
    draw = stream("joma/lemma8_9", chains, length)
    return draw.uniform(-1, 1, (chains, length)), draw.uniform(-1, 1, chains)


def _products_on_paper(chains: int, length: int) -> xr.Dataset:
    rho, start = _chains(chains, length)
    whole = theory.chain_correlation(rho)
    return trajectory(
        {
            "chain": (("chain", "row", "column"), theory.transition(whole)),
            "image": (("chain", "row"), theory.distribution(whole * start)),
            "row_sum": (("chain", "row"), np.ones((chains, 2))),
        }
    )


def _products(chains: int, length: int, skew: float = 0.0) -> xr.Dataset:
    """Matrix products; `skew` makes P[1|1] differ from P[0|0], so that edges are no longer of the form M(ρ)."""
    rho, start = _chains(chains, length)
    edges = theory.transition(rho) + skew * np.array([[0.0, 1.0], [0.0, -1.0]])
    product = edges[:, 0]
    for edge in range(1, length):
        product = product @ edges[:, edge]
    return trajectory(
        {
            "chain": (("chain", "row", "column"), product),
            "image": (("chain", "row"), np.einsum("cij,cj->ci", product, theory.distribution(start))),
            "row_sum": (("chain", "row"), product.sum(axis=2)),
        }
    )


lemma8_9 = Claim(
    id="joma/lemma8_9",
    whose="the paper's statement",
    source="Lemmas 8 and 9, eq. 90 and 91",
    says="M(ρ1)M(ρ2) = M(ρ1ρ2), M(ρ1)p(ρ2) = p(ρ1ρ2) and M(ρ)1 = 1: along a chain of the tree correlations multiply.",
    predict=_products_on_paper,
    observe=_products,
    compare=every(close("chain", EXACT), close("image", EXACT), close("row_sum", EXACT)),
    settings={"fast": {"chains": 1000, "length": 6}, "full": {"chains": 100_000, "length": 12}},
    control=Control("edges with P[1|1] ≠ P[0|0]", {"skew": 0.05}),
)


# Theorem 5

CLASS_WEIGHTS = (0.5, 0.3, 0.2)
P_ZERO = (1.0, 0.9, 0.65)  # P[y = 0 | class] of the root's child; .9 on average


def caterpillar(
    rho: float | np.ndarray, depth: int, ancestor: int, p_zero: Sequence[float], weights: Sequence[float]
) -> LatentTree:
    """The smallest tree with two tokens whose common ancestor is at layer `ancestor`: a stem and two branches.

    The tokens are the two leaves. If the ancestor is itself a token (layer 0), there is only the stem, and its end is
    both of them.
    """
    stem = list(range(-1, depth - ancestor - 1))
    fork = len(stem) - 1
    parents = list(stem)
    for _ in range(2 if ancestor else 0):
        parents += [fork, *range(len(parents), len(parents) + ancestor - 1)]
    return LatentTree(parents, rho, p_zero=np.array([p_zero]), class_weights=weights)


def _conditional(tree: LatentTree, ways: Sequence[str]) -> list[float]:
    """P[y_l = 1 | y_m = 1] of the two tokens, by enumeration and by message passing."""
    first, last = tree.tokens[0], tree.tokens[-1]
    by_messages = float(tree.cooccurrence([first])[0, last])
    states, probability = tree.enumerate_states()
    total = probability.sum(axis=0)
    by_states = total @ (states[:, first] & states[:, last]) / (total @ states[:, first])
    return [{"enumeration": float(by_states), "messages": by_messages}[way] for way in ways]


WAYS = ("enumeration", "messages")


def _cases(depths: Sequence[int]) -> list[tuple[int, int]]:
    return [(depth, ancestor) for depth in depths for ancestor in range(1, depth)]


def _cooccurrence_on_paper(
    rhos: Sequence[float], depths: Sequence[int], formula: Callable[..., np.ndarray] = theory.cooccurrence
) -> xr.Dataset:
    L, H = np.array(_cases(depths)).T
    p_zero = float(np.dot(CLASS_WEIGHTS, P_ZERO))
    exact = formula(np.array(rhos)[:, None], L, H, p_zero)
    return trajectory(
        {
            "cooccurrence": (("way", "rho", "case"), np.stack([exact] * len(WAYS))),
            "sampled": ("rho", formula(np.array(rhos), 5, 2, p_zero)),
            "sampled_std": ("rho", np.zeros(len(rhos))),
            "sampled_seeds": 1,
        },
        {"rho": list(rhos), "way": list(WAYS)},
    )


def _cooccurrence_measured(
    rhos: Sequence[float], depths: Sequence[int], batches: int, samples: int, spread: float = 0.0
) -> xr.Dataset:
    """Exact values on the smallest trees, and samples of a full binary tree of depth 5 (tokens 0 and 2, with H = 2).

    For the control, ρ differs from edge to edge by up to the share `spread`.
    """
    draw = stream("joma/theorem5", batches, samples)

    def uneven(rho: float, nodes: int) -> np.ndarray:
        return rho * (1 - spread * draw.random(nodes))

    exact = np.empty((len(WAYS), len(rhos), len(_cases(depths))))
    sampled = np.empty((batches, len(rhos)))
    for i, rho in enumerate(rhos):
        for j, (depth, ancestor) in enumerate(_cases(depths)):
            edges = uneven(rho, depth + ancestor)
            exact[:, i, j] = _conditional(caterpillar(edges, depth, ancestor, P_ZERO, CLASS_WEIGHTS), WAYS)
        tree = LatentTree.regular(
            5, (1, 2, 2, 2, 2), uneven(rho, 31), p_zero=np.array([P_ZERO]), class_weights=CLASS_WEIGHTS
        )
        for batch in range(batches):
            tokens = tree.sample(samples, draw).token_sets
            sampled[batch, i] = (tokens[:, 0] & tokens[:, 2]).sum() / tokens[:, 0].sum()
    return trajectory(
        {"cooccurrence": (("way", "rho", "case"), exact), "sampled": (("seed", "rho"), sampled)},
        {"rho": list(rhos), "way": list(WAYS)},
    )


theorem5 = Claim(
    id="joma/theorem5",
    whose="the paper's statement",
    source="Theorem 5",
    says="Tokens whose common latent ancestor is at layer H of L have P[y_l = 1 | y_m = 1] = "
    "½(1 + ρ^{2H} − 2ρ^{L−1}ρ0)/(1 − ρ^{L−1}ρ0) with ρ0 = 2P[y = 0] − 1 of the root's children.",
    predict=_cooccurrence_on_paper,
    observe=_cooccurrence_measured,
    compare=every(close("cooccurrence", ALGEBRA, by="by the formula", seen="exactly"), same_mean("sampled")),
    settings={
        "fast": {"rhos": (-0.5, 0.3, 0.9), "depths": (2, 3, 4, 5), "batches": 20, "samples": 1000},
        "full": {
            "rhos": tuple(np.linspace(-0.95, 0.95, 9).tolist()),
            "depths": (2, 3, 4, 5, 6, 7),
            "batches": 50,
            "samples": 5000,
        },
    },
    control=Control("ρ differs from edge to edge by up to 20 %", {"spread": 0.2}),
    erratum=Erratum(
        changes={"formula": theory.cooccurrence_printed},
        prints="Tokens whose common latent ancestor is at layer H of L have P[y_l = 1 | y_m = 1] = ½(1 + ρ^{2H} − "
        "2ρ^{L−1}ρ0)/(1 − ρ^{L−1}ρ0) with ρ0 = P[y = 0] of the root's children.",
        says="Printed, ρ0 = p_{·|0}ᵀp_0 is P[y = 0] itself; eq. 95 and 102 need 2P[y = 0] − 1. For ρ = .9, L = 5, H = "
        "2 and P[y = 0] = .9 enumeration gives .6381, the printed form .5801. (In our copy eq. 103 has M for p: a "
        "matrix where a vector is meant.)",
        formulas=(r"\rho_0=p_{\cdot|0}^\top p_0=\mathbb{P}[y=0]", r"\rho_0=2\,\mathbb{P}[y=0]-1"),
        consequence="Co-occurrence comes out too low, the more so the less certain the root's children are.",
    ),
)


# Theorem 5 with its own ρ on every edge


def _edges(trees: int, depth: int, ancestor: int) -> tuple[np.ndarray, np.ndarray]:
    """ρ of every node of a caterpillar [tree, node], and P[y = 0] of its top node [tree]."""
    draw = stream("joma/theorem5_edges", trees, depth, ancestor)
    return draw.uniform(-0.95, 0.95, (trees, depth + ancestor)), draw.uniform(0.05, 0.95, trees)


def _edges_on_paper(trees: int, depth: int, ancestor: int, edges: str = "each its own") -> xr.Dataset:
    """The closed form from the products of ρ along the chains; for the control, with every |ρ| of a tree averaged."""
    rho, p_zero = _edges(trees, depth, ancestor)
    if edges == "averaged":
        rho = np.broadcast_to(np.abs(rho).mean(axis=1, keepdims=True), rho.shape)
    stem = depth - ancestor  # nodes of the stem; the first is the root's child, whose own ρ does not count
    above = theory.chain_correlation(rho[:, 1:stem]) if stem > 1 else np.ones(trees)
    branches = (slice(start, start + ancestor) for start in (stem, stem + ancestor))
    first, last = (theory.chain_correlation(rho[:, branch]) for branch in branches)
    formula = theory.cooccurrence_by_edge(last, first, above * (2 * p_zero - 1))
    return trajectory({"cooccurrence": (("way", "tree"), np.stack([formula] * 2))}, {"way": list(WAYS)})


def _edges_measured(trees: int, depth: int, ancestor: int) -> xr.Dataset:
    rho, p_zero = _edges(trees, depth, ancestor)
    exact = [_conditional(caterpillar(r, depth, ancestor, [p], [1.0]), WAYS) for r, p in zip(rho, p_zero, strict=True)]
    return trajectory({"cooccurrence": (("way", "tree"), np.array(exact).T)}, {"way": list(WAYS)})


by_edge = Claim(
    id="joma/theorem5_edges",
    source="Proof of Theorem 5, eq. 98",
    whose="a step of the paper's proof",
    says="With a ρ of its own on every edge P[y_l = 1 | y_m = 1] = ½(1 + ρ_lρ_m − (ρ_l + ρ_m)ρ_c)/(1 − ρ_mρ_c), where "
    "ρ_l and ρ_m are the products of ρ from the common ancestor c down to the tokens and ρ_c = 2P[y_c = 0] − 1.",
    predict=_edges_on_paper,
    observe=_edges_measured,
    compare=close("cooccurrence", ALGEBRA, by="by the formula", seen="exactly"),
    settings={"fast": {"trees": 20, "depth": 5, "ancestor": 2}, "full": {"trees": 200, "depth": 7, "ancestor": 3}},
    control=Control("every edge gets the tree's mean |ρ|", {"edges": "averaged"}),
)


# Eq. 8

SMALL = np.geomspace(1e-5, 1e-3, 5)  # ε


def _order_measured(cases: Sequence[tuple[int, int]]) -> xr.Dataset:
    """The slope of ln|P − (1 − H/L)| in ln ε for ρ = ρ0 = 1 − ε, with P by message passing."""
    orders = []
    for depth, ancestor in cases:
        exact = [_conditional(caterpillar(1 - e, depth, ancestor, [1 - e / 2], [1.0]), ["messages"])[0] for e in SMALL]
        off = np.abs(np.array(exact) - theory.cooccurrence_limit(depth, ancestor))
        orders.append(np.polyfit(np.log(SMALL), np.log(off), 1)[0])
    return trajectory({"order_of_error": ("case", orders)})


eq8 = Claim(
    id="joma/eq8",
    whose="the paper's statement",
    source="Section 5, eq. 8",
    says="For ρ = ρ0 = 1 − ε the co-occurrence is 1 − H/L up to O(ε), unless L = 2H.",
    predict=lambda cases, order=1.0: trajectory({"order_of_error": ("case", np.full(len(cases), order))}),
    observe=_order_measured,
    compare=close("order_of_error", SLOPE, relative=False, by="as printed", seen="exactly"),
    settings={"fast": {"cases": ((5, 2), (6, 1), (7, 2), (5, 4))}},
    control=Control("L = 2H, where the first order cancels", {"cases": ((4, 2), (6, 3))}),
    erratum=Erratum(
        changes={"order": 2.0},
        prints="For ρ = ρ0 = 1 − ε the co-occurrence is 1 − H/L up to O(ε²).",
        says="The error of eq. 8 is printed as O(ε²); it is −(H/L)(L − 2H)·ε/2, first order unless L = 2H: −.2ε for L "
        "= 5, H = 2.",
        formulas=(
            r"\mathbb{P}[y_l=1|y_m=1]=1-\frac HL+O(\epsilon^2)",
            r"\mathbb{P}[y_l=1|y_m=1]=1-\frac HL-\frac{H(L-2H)}{2L}\,\epsilon+O(\epsilon^2)",
        ),
        consequence="The limit is reached more slowly than printed; its value is right.",
    ),
)

CLAIMS = [lemma8_9, theorem5, by_edge, eq8]
