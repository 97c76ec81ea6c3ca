"""Fig 2 and 3: one softmax-attention layer trained on a sample per class."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, get_args

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import require_known, require_whole
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Seeds, about
from foretrain.measures import normalized_correlation
from foretrain.models.joint import Joint, JointBatch
from foretrain.papers.joma import theory
from foretrain.papers.joma.experiments.parameters import ClassKind, LayerActivation, Points, TrainingSteps
from foretrain.papers.joma.setting import LayerTraining
from foretrain.papers.joma.simulations.invariants import condition_residuals
from foretrain.papers.joma.simulations.training import once_per_stream, train_joint

KINDS: tuple[ClassKind, ...] = get_args(ClassKind)
FIG2 = LayerTraining()


class ClassFrequencies:
    """Token frequencies x given the class, drawn once per stream. Every batch is the same: one sample per class."""

    def __init__(self, kind: ClassKind, setting: LayerTraining, fixed_signal: bool = False) -> None:
        require_known("kind", kind, KINDS)
        self.kind, self.setting, self.fixed_signal = kind, setting, fixed_signal

    @once_per_stream
    def sample(self, n: int, draw: np.random.Generator) -> JointBatch:
        classes, contexts, patterned = self.setting.classes, self.setting.contexts, self.setting.patterned
        x = draw.random((classes, contexts)) / 2
        if self.kind == "smooth":  # a bump over the first tokens, which moves with the class
            centre = patterned * np.arange(classes)[:, None] / classes
            x[:, :patterned] = np.exp(-((np.arange(patterned) - centre) ** 2) / 30)
        frequencies = torch.from_numpy(x / x.sum(axis=1, keepdims=True))
        query = torch.zeros(classes, dtype=torch.long)
        if self.fixed_signal:  # label minus softmax of equal logits
            return JointBatch(frequencies, query, signal=torch.eye(classes, dtype=torch.float64) - 1 / classes)
        return JointBatch(frequencies, query, labels=torch.arange(classes))


@lru_cache(maxsize=8)
def train_layer(
    kind: ClassKind,
    activation: LayerActivation,
    setting: LayerTraining,
    seeds: tuple[int, ...],
    times: tuple[int, ...],
    dimension: int | None = None,
    fixed_signal: bool = False,
) -> tuple[Joint, JointBatch, dict[str, Tensor]]:
    """The model, its batch [seed, …], and W and Z at `times`: [time, seed, …].

    By default every token has an axis to itself; with `dimension`, tokens have random embeddings in that many
    dimensions. With `fixed_signal` the back-propagated gradient stays what it is for h = 0, as in Assumption 1.
    """
    tokens = setting.contexts + 1
    embeddings = None
    if dimension is not None:
        require_whole("dimension", dimension, 1)
        drawn = stream("joma/layer", dimension, "embeddings").standard_normal((dimension, tokens))
        embeddings = torch.from_numpy(drawn / np.linalg.norm(drawn, axis=0))
    model = Joint(
        "softmax",
        activation,
        nodes=setting.classes,
        contexts=setting.contexts,
        embeddings=embeddings,
        temperature=setting.temperature,
        start=setting.start,
    )
    task = ClassFrequencies(kind, setting, fixed_signal)
    _, states = train_joint(
        model, task, rate=setting.rate, steps=setting.steps, samples=setting.classes, seeds=seeds, save_at=times,
        experiment="joma/layer",
    )  # fmt: skip
    batch = JointBatch.stack([task.sample(0, stream("joma/layer", seed, "data")) for seed in seeds])
    return model, batch, states


def estimate_along_training(
    kind: Annotated[
        ClassKind,
        about("How token frequencies differ between classes: a bump that moves with the class, or random numbers."),
    ],
    seeds: Seeds = 3,
    steps: TrainingSteps = FIG2.steps,
    points: Points = 41,
    dimension: Annotated[
        Count | None, about("Dimensions of random token embeddings; none gives every token an axis to itself.")
    ] = None,
    fixed_signal: Annotated[
        bool, about("Whether the back-propagated gradient stays what it is at the first step (Assumption 1).")
    ] = False,
) -> xr.Dataset:
    """Fig 2: how Theorem 1's ẑ and its two parts correlate with the true logits z along training.

    Correlations are given twice: `cosine…` is the centred cosine, `plain_cosine…` the one of the vectors as they are.
    It also gives the slope of z on ẑ, which would be 1 if ẑ had the right size, and how far three assumptions are from
    true: the total variation between b̄ and its first value, the residual of the theorem's condition node by node, and
    for Assumption 1 `pull_size` and `pull_cosine`, the size of all E[g_hk x] over that at the start and the cosine with
    it.
    """
    numbers, times, setting = tuple(seed_list(seeds)), even_times(steps, points), LayerTraining(steps=steps)
    model, batch, states = train_layer(kind, "linear", setting, numbers, times, dimension, fixed_signal)
    z, v = states["Z"][..., 0, :].numpy(), model.context_weights(states["W"]).numpy()
    b = model.scores(states["Z"], batch).mean(-2).numpy()  # [time, seed, context]
    first = theory.attention_from_mlp_exp(v) / setting.temperature  # ½Σv²
    whole = theory.attention_from_mlp_softmax(v, b[:1]) / setting.temperature
    estimate = whole - whole[:1] + z[:1]
    condition, _ = condition_residuals(model, states, batch)
    centred, spread = (a - a.mean(-1, keepdims=True) for a in (z, estimate))
    hidden = model.hidden(states, batch)
    signal = model.signal(hidden, batch).expand_as(hidden)  # a fixed one has no time
    pull = torch.einsum("...ik,...il->...kl", signal, batch.x).flatten(-2).numpy()  # [time, seed, node and context]
    parts = {"": estimate, "_first": first, "_second": whole - first}
    measures = {
        **{f"cosine{part}": normalized_correlation(values, z) for part, values in parts.items()},
        **{f"plain_cosine{part}": plain_cosine(values, z) for part, values in parts.items()},
        "pull_size": np.linalg.norm(pull, axis=-1) / np.linalg.norm(pull[:1], axis=-1),
        "pull_cosine": plain_cosine(pull, pull[:1]),
        "slope": (centred * spread).sum(-1) / (spread**2).sum(-1),
        "attention_drift": np.abs(b - b[:1]).sum(-1) / 2,
        "condition_residual": condition.numpy(),
    }
    return trajectory(
        {name: (("time", "seed"), value) for name, value in measures.items()},
        {"time": list(times), "seed": list(numbers)},
        {"time": "steps"},
        setting=setting,
        dimension=dimension,
    )


def plain_cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cosine of two vectors as they are, along the last axis."""
    return np.asarray((a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)))


def fig3(
    activation: Annotated[LayerActivation, about("Activation φ of the hidden nodes.")] = "linear",
    seeds: Seeds = 3,
    steps: TrainingSteps = FIG2.steps,
    points: Points = 41,
) -> xr.Dataset:
    """Fig 3: the components of v_k along training on the smooth classes, and Δ_l = E[g_hk h′_k x_l] at the start.

    k is the first node that is alive at the end, that is active in at least one sample. With a linear activation this
    is node 0; with ReLU some nodes are dead from the start.
    """
    numbers, times = tuple(seed_list(seeds)), even_times(steps, points)
    setting = LayerTraining(steps=steps)
    model, batch, states = train_layer("smooth", activation, setting, numbers, times, None)
    first, last = ({name: value[index] for name, value in states.items()} for index in (0, -1))
    alive = (model.slopes(last, batch) != 0).any(-2)  # [seed, node]
    node = alive.to(torch.int8).argmax(-1)
    runs = torch.arange(len(numbers))
    signal = model.signal(model.hidden(first, batch), batch) * model.slopes(first, batch)
    pull = torch.einsum("si,sil->sl", signal[runs, :, node], batch.x) / setting.classes
    return trajectory(
        {
            "v": (("time", "seed", "context"), model.context_weights(states["W"])[:, runs, node].numpy()),
            "pull": (("seed", "context"), pull.numpy()),
            "node": ("seed", node.numpy()),
            "dead": ("seed", (~alive).sum(-1).numpy()),
        },
        {"time": ("time", list(times), {"units": "steps"}), "seed": list(numbers), "context": range(setting.contexts)},
        setting=setting,
        activation=activation,
    )


def even_times(steps: int, points: int) -> tuple[int, ...]:
    """This many steps at which to save, evenly spaced from the start to the end."""
    require_whole("steps", steps, 1)
    require_whole("points", points, 2)
    return tuple(np.unique(np.linspace(0, steps, points).astype(int)).tolist())


fig2 = Experiment(
    "joma/fig2",
    "Theorem 1's estimate of the attention logits, and its two parts, against the logits of a trained layer",
    estimate_along_training,
    axes={"kind": KINDS},
    settings={"fast": {"steps": 100, "seeds": 2}, "full": {}},
)

EXPERIMENTS = [
    fig2,
    Experiment(
        "joma/fig3",
        "Growth of the components of v_0 along training, and what pulled at them at the start",
        fig3,
        batched={"seeds": "seed"},
        together=8,
        settings={"fast": {"steps": 100, "seeds": 2}, "full": {}},
    ),
]
