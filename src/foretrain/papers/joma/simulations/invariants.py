"""Theorem 1 on random layers: the flow of eq. 2 under changing batches, and gradient descent along it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import require_known
from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.dynamics.flow import integrate
from foretrain.dynamics.optimizers import SGD
from foretrain.dynamics.train import train
from foretrain.models.joint import Joint, JointBatch
from foretrain.models.parameters import start_keys
from foretrain.papers.joma.setting import RandomProblems
from foretrain.papers.joma.theory import attention_from_mlp_exp

PROBLEMS = RandomProblems()
SAVED = 4  # times per batch
DRIVES = ("signal", "labels")  # a fixed back-propagated gradient, or cross-entropy on the hidden nodes


def random_batch(size: RandomProblems, drive: str, draw: np.random.Generator) -> JointBatch:
    """The samples of one problem: frequencies, queries, and either labels or a fixed back-propagated gradient."""
    x = draw.random((size.samples, size.contexts))
    query = torch.from_numpy(draw.integers(size.queries, size=size.samples))
    frequencies = torch.from_numpy(x / x.sum(axis=1, keepdims=True))
    if drive == "labels":
        return JointBatch(frequencies, query, labels=torch.from_numpy(draw.integers(size.nodes, size=size.samples)))
    signal = draw.standard_normal((size.samples, size.nodes)) * size.strength
    return JointBatch(frequencies, query, signal=torch.from_numpy(signal))


def batches_of_problems(size: RandomProblems, drive: str, number: int = 0) -> JointBatch:
    """Batch `number` of every problem, along the leading axis."""
    draws = [stream("joma/theorem1", problem, drive, number) for problem in range(size.problems)]
    return JointBatch.stack([random_batch(size, drive, draw) for draw in draws])


def equal_samples(batch: JointBatch) -> JointBatch:
    """The batch with equal frequencies in all samples of a problem: b is then constant and correlates with nothing."""
    return replace(batch, x=batch.x[..., :1, :].expand_as(batch.x))


def layer(size: RandomProblems, attention: str, activation: str, **kwargs: object) -> Joint:
    return Joint(
        attention,
        activation,
        nodes=size.nodes,
        contexts=size.contexts,
        queries=size.queries,
        start=size.start,
        **kwargs,  # type: ignore[arg-type]
    )


@lru_cache(maxsize=8)
def invariant_flow(
    attention: str = "exp",
    activations: tuple[str, ...] = ("linear", "relu", "leaky_relu", "square"),
    size: RandomProblems = PROBLEMS,
    until: float = 1.0,
    batches: int = 2,
) -> xr.Dataset:
    """Theorem 1: the flow of eq. 2 for every activation and drive; the batch changes `batches` − 1 times on the way.

    It ends at t = 1, because with a fixed signal φ = u² makes weights infinite in a finite time: of 100 random layers
    with exp attention the first gets there between t = 1.1 and 1.3 (between .75 and 1 if the batch never changes).

    Gives v [activation, drive, problem, time, node, context] and z [activation, drive, problem, time, query, context].
    """
    parts = [[_flow(attention, a, drive, size, until, batches) for drive in DRIVES] for a in activations]
    joined = xr.concat([xr.concat(row, "drive") for row in parts], "activation")
    coords = {"activation": list(activations), "drive": list(DRIVES), "problem": np.arange(size.problems)}
    return joined.assign_coords(coords)


def _flow(attention: str, activation: str, drive: str, size: RandomProblems, until: float, batches: int) -> xr.Dataset:
    """The flow for one activation and drive.

    A φ′ that jumps is evaluated at every saved time and held fixed in between: a solver would get stuck at every jump,
    and a true flow may slide along one. The proof of Theorem 1 requires nothing of h′.
    """
    model = layer(size, attention, activation)
    times = np.linspace(0, until / batches, SAVED + 1)
    spans = np.stack([times[:-1], times[1:]], axis=1) if model.activation.kinked else times[None]
    state = {name: value.numpy() for name, value in _start(model, size).items()}
    saved = [{name: value[None] for name, value in state.items()}]
    for number in range(batches):
        batch = batches_of_problems(size, drive, number)
        for span in spans:
            slopes = None
            if model.activation.kinked:
                slopes = model.slopes({name: torch.from_numpy(value) for name, value in state.items()}, batch)
            later = span[1:] - span[0]
            piece = integrate(model.field(batch, slopes), state, until=later[-1], save_at=later)
            saved.append({name: piece[name].values for name in state})
            state = {name: value[-1] for name, value in saved[-1].items()}
    W, z = (np.concatenate([s[name] for s in saved]) for name in ("W", "Z"))
    v = model.context_weights(torch.from_numpy(W)).numpy()
    return trajectory(
        {"v": (("time", "problem", "node", "context"), v), "z": (("time", "problem", "query", "context"), z)},
        {"time": np.linspace(0, until, batches * SAVED + 1)},
        attention=attention,
        activation=activation,
    )


class RandomTask:
    """A fresh random batch at every step: Theorem 1 holds for any batches."""

    def __init__(self, size: RandomProblems) -> None:
        self.size = size

    def sample(self, n: int, generator: np.random.Generator) -> JointBatch:
        return random_batch(self.size, "labels", generator)


@lru_cache(maxsize=8)
def invariant_descent(attention: str = "exp", size: RandomProblems = PROBLEMS) -> xr.Dataset:
    """Theorem 1: stochastic gradient descent with ReLU up to rate·steps = 4 at several rates: v and z at both ends."""
    runs, until, steps = [], 4.0, (20, 40, 80, 160)
    for count in steps:
        run = train(
            layer(size, attention, "relu"),
            RandomTask(size),
            optimizer=SGD(until / count),
            steps=count,
            batch=size.samples,
            seeds=range(1, size.problems + 1),
            seeds_at_once=size.problems,
            record={
                # every token has an axis to itself, so the first columns of W are v
                "v": lambda p: (("node", "context"), p["W"][..., : size.contexts]),
                "z": lambda p: (("query", "context"), p["Z"]),
            },
            experiment="joma/theorem1_descent",
        )
        runs.append(run[["v", "z"]].assign_coords(time=[0.0, until]))
    return xr.concat(runs, xr.IndexVariable("rate", until / np.asarray(steps)))


@lru_cache(maxsize=4)
def short_flow(attention: str = "softmax", size: RandomProblems = PROBLEMS, until: float = 2e-3) -> xr.Dataset:
    """Softmax attention where both assumptions of Theorem 1 hold: equal samples, and a flow so short that b̄ stays put.

    Gives v, z and b̄ along the flow, and how far each assumption is from true.
    """
    model = layer(size, attention, "leaky_relu")
    batch = equal_samples(batches_of_problems(size, "signal"))
    start = {name: value.numpy() for name, value in _start(model, size).items()}
    flow = integrate(model.field(batch), start, until=until, save_at=np.linspace(0, until, 5))
    states = {name: torch.from_numpy(flow[name].values) for name in start}
    b = model.scores(states["Z"], batch).mean(-2).numpy()
    per_node, _ = condition_residuals(model, states, batch)
    return trajectory(
        {
            "v": (("time", "problem", "node", "context"), model.context_weights(states["W"]).numpy()),
            "z": (("time", "problem", "context"), flow["Z"].values[:, :, 0]),
            "mean_attention": (("time", "problem", "context"), b),
            "attention_drift": (("time", "problem"), np.abs(b - b[0]).sum(-1) / 2),
            "condition_residual": (("time", "problem"), per_node.numpy()),
        },
        {"time": flow["time"].values},
    )


def condition_residuals(model: Joint, state: dict[str, Tensor], batch: JointBatch) -> tuple[Tensor, Tensor]:
    """How far E[g_h h′ bbᵀ] = b̄·E[g_h h′ b]ᵀ, the second condition of Theorem 1 for softmax attention, is from true.

    A residual is the largest entry of the difference of both sides over the largest entry of the left side. The first
    is node by node, as eq. 17 needs it; the second is summed over the nodes, as printed. If the signals of a sample
    cancel over the nodes, both sides of the sum are 0, and so is its residual.
    """
    b = model.scores(state["Z"], batch)
    s = model.signal(model.hidden(state, batch), batch) * model.slopes(state, batch) / batch.x.shape[-2]
    left = torch.einsum("...ik,...il,...im->...klm", s, b, b)
    right = torch.einsum("...l,...ik,...im->...klm", b.mean(-2), s, b)
    size = left.abs().amax((-3, -2, -1))
    return (left - right).abs().amax((-3, -2, -1)) / size, (left - right).sum(-3).abs().amax((-2, -1)) / size


def softmax_speed(condition: str = "summed", size: RandomProblems = PROBLEMS) -> xr.Dataset:
    """Theorem 1, eq. 17: ż of softmax attention as measured and as predicted, over the largest ż, in random states.

    "summed": linear φ and cross-entropy, whose signals g_h sum to 0 over the nodes in every sample, so that the
    condition as printed holds for any b. "per node": equal samples, so that it holds for every node.
    """
    require_known("condition", condition, ("summed", "per node"))
    model = layer(size, "softmax", "linear")
    batch = batches_of_problems(size, "labels")
    batch = batch if condition == "summed" else equal_samples(batch)
    state = _start(model, size)
    speed = model.ascent(state, batch)
    v, v_speed = model.context_weights(state["W"]), model.context_weights(speed["W"])
    b = model.scores(state["Z"], batch).mean(-2)
    predicted = (v_speed * v).sum(-2) - b * (v_speed * v).sum((-2, -1), keepdim=True)[..., 0]
    fastest = speed["Z"].abs().amax((-2, -1))[:, None]
    per_node, summed = condition_residuals(model, state, batch)
    return trajectory(
        {
            "measured": (("problem", "context"), (speed["Z"][:, 0] / fastest).numpy()),
            "predicted": (("problem", "context"), (predicted / fastest).numpy()),
            "residual_per_node": ("problem", per_node.numpy()),
            "residual_summed": ("problem", summed.numpy()),
        },
        {"problem": np.arange(size.problems)},
    )


def almost_orthogonal_flow(
    attention: str = "exp",
    epsilons: tuple[float, ...] = (1e-3, 1e-2, 1e-1),
    size: RandomProblems = PROBLEMS,
    until: float = 2.0,
) -> xr.Dataset:
    """Section 7: drift of z − ½Σv² if products of two embeddings are as large as ε: UᵀU = I + εS with |S| ≤ 1."""
    tokens = size.contexts + size.queries
    draw = stream("joma/almost_orthogonal", 0)
    S = np.triu(draw.uniform(-1, 1, (size.problems, tokens, tokens)), 1)
    gram = np.eye(tokens) + np.asarray(epsilons)[:, None, None, None] * (S + S.swapaxes(-1, -2))
    U = torch.from_numpy(np.linalg.cholesky(gram)).mT.contiguous()  # [epsilon, problem, dimension, token]
    model = layer(size, attention, "linear", embeddings=U)
    batch = batches_of_problems(size, "labels")
    start = {name: value.expand(len(epsilons), *value.shape).numpy() for name, value in _start(model, size).items()}
    flow = integrate(model.field(batch), start, until=until, save_at=[0.0, until])
    v = model.context_weights(torch.from_numpy(flow["W"].values)).numpy()
    invariant = flow["Z"].values[..., 0, :] - attention_from_mlp_exp(v)
    drift = np.abs(invariant[1] - invariant[0]).max(-1)
    return trajectory(
        {"drift": (("epsilon", "problem"), drift)},
        {"epsilon": list(epsilons), "problem": np.arange(size.problems)},
        attention=attention,
    )


def _start(model: Joint, size: RandomProblems) -> dict[str, Tensor]:
    return model.start(start_keys("joma/theorem1", range(size.problems)))


def random_coherence(epsilon: float = 0.3, tokens: int = 100, draws: int = 20) -> xr.Dataset:
    """Section 7: the largest |uᵀu′| of random unit vectors in 8ε⁻²ln M dimensions."""
    dimension = int(np.ceil(8 * np.log(tokens) / epsilon**2))
    largest = []
    for number in range(draws):
        u = stream("joma/coherence", number).standard_normal((tokens, dimension))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        largest.append(np.abs(u @ u.T - np.eye(tokens)).max())
    return trajectory({"coherence": ("draw", largest)}, {"draw": np.arange(draws)}, dimension=dimension)
