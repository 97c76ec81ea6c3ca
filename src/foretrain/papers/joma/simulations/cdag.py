"""Multi-layer analysis: correlations C1 to C4 in random computational graphs fed by latent trees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import numpy as np
import xarray as xr
from pydantic import Field

from foretrain.core.errors import require, require_positive, require_whole
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.data import LatentTree
from foretrain.ledger.parameters import Count, Seeds, WholeNumber, about

if TYPE_CHECKING:
    from foretrain.models.computational_graph import ComputationalGraph

EDGE = ("graph", "j", "k", "beta")


@lru_cache(maxsize=8)
def graph_correlations(
    graphs: int = 40,
    samples: int = 256,
    hidden: int = 8,
    rho: float = 0.8,
    steps: tuple[int, ...] = (0,),
    rate: float = 0.2,
    seed: int = 1,
) -> xr.Dataset:
    """Multi-layer Theorem 1: C1 to C4 of every edge k → j and every pair of latents, after each number of `steps`.

    Inputs are the leaves, as ±1, of a tree with two latents at the top, four below them and eight leaves; the outputs
    learn the top latents. A correlation is Σ_i x[i]y[i] over samples, with x and y scaled to length 1. `C4` uses the
    weight that the gradient rule gives, w_jk = corr(f_k, σ′_jg_j); `C4_actual` uses the graph's own weight.
    """
    require(len(steps) >= 1 and min(steps) >= 0, f"steps must name whole numbers of at least 0; got {steps}.")
    require(list(steps) == sorted(set(steps)), f"steps must grow; got {steps}.")
    require_positive("rate", rate)
    for name, count in (("graphs", graphs), ("samples", samples), ("hidden", hidden)):
        require_whole(name, count, 1)
    graph, signs, x, targets = _random_graphs(graphs, samples, hidden, rho, seed)
    latents, rows = _unit(signs), []
    for step in range(max(steps) + 1):
        state = graph.run(x, targets)
        if step in steps:
            pushed, values = _unit(state.slopes * state.gradients), _unit(state.values)
            weight = np.where(graph.edges, np.einsum("gsj,gsk->gjk", pushed, values), np.nan)
            c1 = np.einsum("gsz,gsj->gjz", latents, pushed)
            rows.append(
                {
                    "C1": c1,
                    "C2": np.einsum("gsz,gsk->gkz", latents, values),
                    "C4": weight[..., None] * c1[:, :, None],
                    "C4_actual": np.where(graph.edges, np.sign(graph.weights), np.nan)[..., None] * c1[:, :, None, :],
                }
            )
        graph = graph.stepped(state, rate)
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return trajectory(
        {
            "C1": (("step", "graph", "j", "alpha"), stacked["C1"]),
            "C2": (("step", "graph", "k", "beta"), stacked["C2"]),
            "C3": (("graph", "alpha", "beta"), np.einsum("gsa,gsb->gab", latents, latents)),
            "C4": (("step", "graph", "j", "k", "beta"), stacked["C4"]),
            "C4_actual": (("step", "graph", "j", "k", "beta"), stacked["C4_actual"]),
        },
        {"step": list(steps)},
        rho=rho,
    )


def _random_graphs(
    graphs: int, samples: int, hidden: int, rho: float, seed: int
) -> tuple[ComputationalGraph, np.ndarray, np.ndarray, np.ndarray]:
    """Random graphs, the nodes of the latent tree as ±1 [graph, sample, node], and which are inputs and targets."""
    from foretrain.models.computational_graph import ComputationalGraph  # its package loads torch, which takes seconds

    tree = LatentTree.regular(3, 2, rho)
    drawn = tree.sample(graphs * samples, stream("joma/cdag", seed, "data")).values
    signs = 2.0 * drawn.reshape(graphs, samples, -1) - 1
    graph = ComputationalGraph.random(
        stream("joma/cdag", seed, "graph"), graphs=graphs, inputs=tree.vocab, hidden=hidden, outputs=len(tree.top)
    )
    return graph, signs, signs[..., tree.tokens], signs[..., tree.top]


def _unit(signal: np.ndarray) -> np.ndarray:
    """Scaled to length 1 over samples; a signal that is 0 everywhere becomes nan."""
    length = np.linalg.norm(signal, axis=1, keepdims=True)
    return signal / np.where(length > 0, length, np.nan)


def premise_met(correlations: xr.Dataset, threshold: float) -> xr.DataArray:
    """Which (j, k, β) have an α with C1, C2 and |C3| all above the threshold."""
    by_alpha = (correlations["C1"] > threshold) & (abs(correlations["C3"]) > threshold)
    return by_alpha.any("alpha") & (correlations["C2"] > threshold) & correlations["C4"].notnull()


def angle_sum(correlations: xr.Dataset) -> xr.DataArray:
    """Sum of the angles between σ′_jg_j, z_α, z_β and f_k in degrees, for the best α; beyond 90 there is no promise."""

    def angle(name: str) -> xr.DataArray:
        return xr.apply_ufunc(np.arccos, correlations[name].clip(-1, 1))

    between = xr.apply_ufunc(np.arccos, abs(correlations["C3"]).clip(0, 1))
    angles = ((angle("C1") + between).min("alpha") + angle("C2")) * 180 / np.pi
    return angles.where(correlations["C4"].notnull())


def signals_at_angles(draws: int = 4000, largest: float = 120.0, dimensions: int = 3, seed: int = 1) -> xr.Dataset:
    """Multi-layer Theorem 1: C4 of four signals with prescribed angles, otherwise as they come.

    The angles A (of σ′_jg_j and z_α), B (of z_β and f_k) and C (of z_α and z_β) are drawn so that their sum, in
    degrees, is uniform up to `largest`. Every other draw lies in a plane, with the angles adding up: the worst case.
    Signals over samples span at most as many dimensions as there are signals.
    """
    require_whole("draws", draws, 2)
    draw = stream("joma/cdag", seed, "signals")
    total = np.deg2rad(draw.uniform(0, largest, draws))
    A, B, C = (total[:, None] * draw.dirichlet(np.ones(3), draws)).T
    flat = np.arange(draws) % 2 == 0

    def turned(of: np.ndarray, side: np.ndarray, angle: np.ndarray) -> np.ndarray:
        side = side - (side * of).sum(1, keepdims=True) * of
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        return np.cos(angle)[:, None] * of + np.sin(angle)[:, None] * side

    basis = np.linalg.qr(draw.standard_normal((draws, dimensions, 2)))[0]
    first, second = basis[..., 0], basis[..., 1]
    pushed, signals, angle = first, [], np.zeros(draws)  # σ′_jg_j, then z_α, z_β and f_k
    at = pushed
    for step in (A, C, B):
        angle = angle + step
        in_plane = np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * second
        at = np.where(flat[:, None], in_plane, turned(at, draw.standard_normal(at.shape), step))
        signals.append(at)
    _, z_beta, f = signals
    return trajectory(
        {
            "C1": ("draw", np.cos(A)),
            "C2": ("draw", np.cos(B)),
            "C3": ("draw", np.cos(C)),
            "C4": ("draw", (f * pushed).sum(1) * (z_beta * pushed).sum(1)),
            "angle": ("draw", np.rad2deg(total)),
        },
        units={"angle": "degrees"},
    )


def summed_over_parents(
    graphs: int = 40, samples: int = 256, hidden: int = 8, rho: float = 0.8, threshold: float = 0.1, seed: int = 1
) -> xr.Dataset:
    """Multi-layer analysis, g_k = Σ_j g_{j→k}: the gradient that a node receives from all that read it.

    With the weights of the gradient rule, w_jk = corr(f_k, σ′_jg_j), and corr(x, y) = Σ_i x[i]y[i] as printed, not
    scaled. For nodes k and latents β: `whole` is corr(z_β, g_k) and `parts` is Σ_j corr(z_β, g_{j→k}), both over the
    largest |part|, and `largest_part` is that part. `met` says that every parent meets the premise of Theorem 1 with
    this threshold, and `next` is the scaled corr(z_β, σ′_kg_k), which the recursion needs.
    """
    graph, signs, x, targets = _random_graphs(graphs, samples, hidden, rho, seed)
    state = graph.run(x, targets)
    pushed = state.slopes * state.gradients  # σ′_jg_j [graph, sample, j]
    rule = np.where(graph.edges, np.einsum("gsk,gsj->gjk", state.values, pushed), 0.0)
    received = np.einsum("gjk,gsj->gsk", rule, pushed)  # g_k by the gradient rule
    parts = rule[..., None] * np.einsum("gsz,gsj->gjz", signs, pushed)[:, :, None]  # corr(z_β, g_{j→k}) [g, j, k, β]
    correlations = graph_correlations(graphs, samples, hidden, rho, seed=seed).isel(step=0, drop=True)
    premise = premise_met(correlations, threshold).transpose(*EDGE).values
    edges = graph.edges[..., None]
    met = (premise | ~edges).all(1) & edges.any(1)
    largest = np.abs(parts).max(1)
    known = largest > 0
    sent = _unit(state.slopes * received)
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = np.einsum("gsz,gsk->gkz", signs, received) / largest
        summed = parts.sum(1) / largest
        biggest = np.take_along_axis(parts, np.abs(parts).argmax(1)[:, None], axis=1)[:, 0] / largest
    onward = np.einsum("gsz,gsk->gkz", _unit(signs), sent)
    return trajectory(
        {
            "whole": ("node", whole[known]),
            "parts": ("node", summed[known]),
            "largest_part": ("node", biggest[known]),
            "met": ("node", met[known]),
            "next": ("node", onward[known]),
        }
    )


def cdag(
    seeds: Seeds = 5,
    thresholds: Annotated[
        Sequence[float], Field(min_length=1), about("Correlations that C1, C2 and |C3| must exceed.")
    ] = tuple(np.round(np.arange(0, 0.9, 0.05), 2).tolist()),
    steps: Annotated[
        Sequence[WholeNumber],
        Field(min_length=1),
        about("Numbers of training steps after which C1 to C4 are measured.", unit="steps"),
    ] = (0, 1, 3, 10, 30, 100, 300),
    graphs: Annotated[Count, about("Random graphs per seed.")] = 40,
    samples: Annotated[Count, about("Samples per graph.")] = 256,
) -> xr.Dataset:
    """Among the edges that meet the premise, the share whose C4 is positive, by threshold and by steps of training.

    For untrained graphs also the share whose C4 is negative, by the sum of the three angles.
    """
    bins = np.arange(0, 271, 10)
    rows = []
    for seed in seed_list(seeds):
        every_step = graph_correlations(graphs=graphs, samples=samples, steps=tuple(sorted({0, *steps})), seed=seed)
        untrained, correlations = every_step.sel(step=0, drop=True), every_step.sel(step=list(steps))
        met = [premise_met(correlations, threshold) for threshold in thresholds]
        count = xr.concat([m.sum(EDGE) for m in met], "threshold")
        with np.errstate(invalid="ignore"):
            shares = {
                name: xr.concat([((correlations[name] > 0) & m).sum(EDGE) for m in met], "threshold")
                / count.where(count > 0)
                for name in ("C4", "C4_actual")
            }
        angle, c4 = (a.transpose(*EDGE).values.ravel() for a in (angle_sum(untrained), untrained["C4"]))
        known = np.isfinite(angle)
        bin_of, values = np.digitize(angle[known], bins) - 1, c4[known]
        by_bin = [values[bin_of == b] for b in range(len(bins) - 1)]
        rows.append(
            trajectory(
                {
                    "edges": count,
                    "positive": shares["C4"],
                    "positive_actual": shares["C4_actual"],
                    "negative_by_angle": ("angle", [float((v < 0).mean()) if v.size else np.nan for v in by_bin]),
                },
                {"threshold": list(thresholds), "step": list(steps), "angle": bins[:-1] + 5},
                units={"angle": "degrees"},
            )
        )
    return xr.concat(rows, xr.IndexVariable("seed", seed_list(seeds)))
