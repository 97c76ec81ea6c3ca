"""Section 5: the order in which attention finds the tokens of a latent hierarchy, and layers find its latents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, get_args

import numpy as np
import torch
import xarray as xr
from pydantic import Field
from torch import Tensor

from foretrain.core.errors import require_known, require_whole
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.data.latent_tree import LatentTree
from foretrain.dynamics.flow import integrate
from foretrain.dynamics.optimizers import Adam
from foretrain.dynamics.train import train
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Seeds, about
from foretrain.measures import half_time, level_time, mean_alignment, spearman
from foretrain.models.causal_transformer import CausalTransformer, LabelledSequences
from foretrain.papers.joma import theory
from foretrain.papers.joma.experiments.parameters import Correlations, Objective, Objectives, TrainingSteps
from foretrain.papers.joma.setting import OrderModel

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
MODEL = OrderModel()
EVALUATED = 128  # sequences on which NCorr is measured


def order_flow(
    rho: float = 0.9, depth: int = 6, p_zero: float = 0.9, salience: float = 3.0, until: float = 12.0
) -> xr.Dataset:
    """Eq. 6 with targets μ_l = `salience`·P[y_l = 1 | y_m = 1], the co-occurrence with a query token m (Theorem 5).

    For every other token it gives the layer of the latent ancestor shared with m, and the time at which its logit v²/2
    is half way to its limit. The root has one child, so that every pair of tokens has a latent in common.
    """
    tree = LatentTree.regular(depth, [1] + [2] * (depth - 1), rho, p_zero=p_zero)
    query, *others = tree.tokens.tolist()
    mu = salience * tree.cooccurrence([query])[0, others]
    flow = integrate(
        lambda t, s: {"v": theory.attention_flow(s["v"], mu)},
        {"v": xr.DataArray(np.zeros(len(mu)), dims="token")},
        until=until,
        save_at=np.linspace(0, until, 2401),
    )
    logits = flow["v"].transpose("token", "time").values ** 2 / 2
    ancestor = np.array([tree.common_ancestor_layer(query, other) for other in others])
    times = half_time(logits, flow["time"].values)
    # the targets of one layer agree only up to rounding, and ties must stay ties
    return trajectory(
        {
            "half_time": ("token", times),
            "ancestor": ("token", ancestor),
            "rank_correlation": spearman(np.round(times, 6), ancestor.astype(float)),
            "logit": (("token", "time"), logits[:, ::40]),
        },
        {"time": flow["time"].values[::40]},
        units={"half_time": "time"},
        rho=rho,
        depth=depth,
        p_zero=p_zero,
        salience=salience,
    )


class TreeSequences:
    """Sequences over the tokens of an HBLT(ρ): context tokens in any order, then a query token.

    "class": the label is the class, and the query is one more token that occurs.
    "match": the label says whether the query was drawn together with its context or comes from another draw. The query
    is not in the context itself, so the answer depends on which tokens co-occur with it, as in section 5.
    """

    def __init__(self, tree: LatentTree, objective: Objective, length: int) -> None:
        require_known("objective", objective, OBJECTIVES)
        self.tree, self.objective, self.length = tree, objective, length

    @property
    def labels(self) -> int:
        return 2 if self.objective == "match" else len(self.tree.class_weights)

    def sample(self, n: int, generator: np.random.Generator) -> LabelledSequences:
        return self.with_latents(n, generator)[0]

    def with_latents(self, n: int, generator: np.random.Generator) -> tuple[LabelledSequences, np.ndarray]:
        drawn = self.tree.sample(n, generator)
        present, labels = drawn.token_sets, drawn.classes
        context, source = present, present
        if self.objective == "match":
            labels = generator.integers(2, size=n)
            source = np.where(labels[:, None] == 1, present, self.tree.sample(n, generator).token_sets)
        query = _draw_tokens(source, 1, generator)
        if self.objective == "match":
            context = present & (np.arange(self.tree.vocab) != query)
        tokens = np.concatenate([_draw_tokens(context, self.length - 1, generator), query], axis=1)
        batch = LabelledSequences(torch.from_numpy(tokens), torch.from_numpy(labels), torch.zeros(tokens.shape))
        return batch, drawn.values


def _draw_tokens(present: np.ndarray, count: int, draw: np.random.Generator) -> np.ndarray:
    """`count` tokens of each row, drawn uniformly from those that occur; the pad if none does."""
    total = present.sum(axis=1, keepdims=True)
    listed = np.argsort(~present, axis=1, kind="stable")
    ranks = (draw.random((len(present), count)) * total).astype(np.int64)
    return np.where(total > 0, np.take_along_axis(listed, ranks, axis=1), present.shape[1])


class LayersInTurn(CausalTransformer):
    """A transformer that learns bottom-up: its lower MLP matrices start at 0, and layer 1 does not move for the first
    `wait` steps."""

    def __init__(self, wait: int, **sizes: Any) -> None:
        super().__init__(**sizes, lower_start=0.0)
        self.steps_to_wait = wait

    def gradient(self, parameters: dict[str, Tensor], batch: LabelledSequences, samples: int = 0) -> dict[str, Tensor]:
        gradient = super().gradient(parameters, batch, samples)
        if self.steps_to_wait > 0:
            self.steps_to_wait -= 1
            waiting = [name for name in gradient if name.endswith("_1")]
            gradient |= {name: torch.zeros_like(gradient[name]) for name in waiting}
        return gradient


@lru_cache(maxsize=8)
def order_training(
    rho: float = 0.9,
    objective: Objective = "match",
    seeds: tuple[int, ...] = (1, 2, 3),
    steps: int = MODEL.steps,
    setting: OrderModel = MODEL,
    in_turn: bool = False,
) -> xr.Dataset:
    """A small causal transformer trained on an HBLT(ρ); `in_turn` makes its layers learn one after the other.

    `logits` [seed, time, ancestor] are the first layer's attention logits from a query token to the other tokens,
    centred over the tokens and averaged over all pairs whose common latent ancestor is at the same layer. `ncorr`
    [seed, time, layer] is NCorr of MLP layer s with the latents at layer s + 1 of the tree. `attended_time` is when a
    logit passes the setting's level, `half_time` when it is half way to its end, and `layer_time` when an NCorr is.
    """
    require_whole("depth", setting.depth, 3)  # two layers of latents between the root and the tokens
    require_whole("steps", steps, 1)
    p_zero = np.full((setting.tops, setting.tops), 0.9)
    np.fill_diagonal(p_zero, 0.1)  # each class switches on one top latent
    branching = [setting.tops] + [2] * (setting.depth - 1)
    tree = LatentTree.regular(setting.depth, branching, rho, classes=setting.tops, p_zero=p_zero)
    task = TreeSequences(tree, objective, setting.length)
    sizes: dict[str, Any] = {
        "vocab": tree.vocab + 1,
        "classes": task.labels,
        "layers": setting.layers,
        "width": setting.width,
        "hidden": setting.hidden,
    }
    model = LayersInTurn(steps // 2, **sizes) if in_turn else CausalTransformer(**sizes)
    evaluated, values = task.with_latents(EVALUATED, stream("joma/order", 0, "evaluation"))
    latents = [torch.from_numpy(values[:, tree.level == setting.depth - 2 - s].astype(float)) for s in range(2)]
    pairs = torch.from_numpy(_ancestors(tree))

    def logits(parameters: Mapping[str, Tensor]) -> tuple[tuple[str, ...], Tensor]:
        query, key, _ = (parameters["embed"] @ parameters["qkv_0"]).chunk(3, dim=-1)
        z = (query @ key.mT / setting.width**0.5)[..., :-1, :-1]
        z = z - z.mean(-1, keepdim=True)
        means = [z[..., pairs == layer].mean(-1) for layer in range(1, setting.depth + 1)]
        return ("ancestor",), torch.stack(means, dim=-1)

    def alignment(parameters: Mapping[str, Tensor]) -> tuple[tuple[str, ...], Tensor]:
        hidden = model.forward(dict(parameters), evaluated)[1]
        parts = [mean_alignment(latents[s].expand(*hidden[s].shape[:2], -1, -1), hidden[s].amax(-2)) for s in range(2)]
        return ("layer",), torch.stack(parts, dim=-1)

    run = train(
        model,
        task,
        optimizer=Adam(setting.rate),
        steps=steps,
        batch=setting.batch,
        seeds=seeds,
        seeds_at_once=len(seeds),
        record={"logits": logits, "ncorr": alignment},
        save_at=np.linspace(0, steps, 31).astype(int).tolist(),
        experiment=f"joma/order/{objective}",
    )
    run = run.drop_vars("diverged_at").assign_coords(ancestor=range(1, setting.depth + 1), layer=range(2))
    time = run["time"].values.astype(float)
    curves = run["logits"].transpose("seed", "ancestor", "time").values.astype(float)
    halves = half_time(run["ncorr"].transpose("seed", "layer", "time").values.astype(float), time)
    times = {"half": half_time(curves, time), "attended": level_time(curves, time, setting.level)}
    return run.assign(
        {f"{name}_time": (("seed", "ancestor"), value) for name, value in times.items()}
        | {"layer_time": (("seed", "layer"), halves)}
    )


def _ancestors(tree: LatentTree) -> np.ndarray:
    """Layer of the common ancestor of every pair of tokens; 0 on the diagonal."""
    tokens = tree.tokens.tolist()
    return np.array([[0 if a == b else tree.common_ancestor_layer(a, b) for b in tokens] for a in tokens])


def order(
    rhos: Correlations = (0.9, 0.0),
    objectives: Objectives = OBJECTIVES,
    seeds: Seeds = 5,
    steps: TrainingSteps = MODEL.steps,
    depth: Annotated[
        int, Field(ge=3, le=10**9), about("Layers of the latent tree; the root is at this layer.", unit="layers")
    ] = MODEL.depth,
) -> xr.Dataset:
    """Section 5: the flow of eq. 6 and a trained transformer for every ρ; the transformer for every objective too."""
    numbers = tuple(seed_list(seeds))
    require_whole("depth", depth, 3)
    setting = replace(MODEL, depth=depth)
    parts = []
    for rho in rhos:
        flow = order_flow(float(rho), depth=depth + 2).rename(time="flow_time", half_time="flow_half_time")
        runs = [order_training(float(rho), objective, numbers, steps, setting) for objective in objectives]
        trained = xr.concat(runs, xr.IndexVariable("objective", list(objectives)))
        parts.append(trained.merge(flow.rename(ancestor="token_ancestor", rank_correlation="flow_order")))
    joined = xr.concat(parts, xr.IndexVariable("rho", [float(r) for r in rhos]))
    variables = {str(name): value for name, value in joined.data_vars.items()}
    return trajectory(variables, setting=setting, steps=steps)


EXPERIMENTS = [
    Experiment(
        "joma/order",
        "Order in which attention finds the tokens of a latent hierarchy: JoMA flow and a trained transformer",
        order,
        batched={"rhos": "rho", "objectives": "objective"},
        settings={"fast": {"seeds": 2, "steps": 20, "depth": 3, "objectives": ("match",)}, "full": {}},
    )
]
