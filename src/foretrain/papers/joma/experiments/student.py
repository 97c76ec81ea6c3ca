"""Section 4 in training: does attention become sparse and then dense again, and what brings it back?

One node of the layer of eq. 1 learns a teacher whose weights are the targets of Fig 4, with softmax attention.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, get_args

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import require_known
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Seeds, about
from foretrain.measures import entropy
from foretrain.models.joint import Joint, JointBatch
from foretrain.models.parameters import Parameters
from foretrain.papers.joma.experiments.layer import even_times
from foretrain.papers.joma.experiments.parameters import Activation, Loss, TrainingSteps
from foretrain.papers.joma.experiments.theory import FIG4_TARGETS
from foretrain.papers.joma.setting import StudentTraining
from foretrain.papers.joma.simulations.training import once_per_stream, train_joint

LOSSES: tuple[Loss, ...] = get_args(Loss)
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
STUDENT = StudentTraining()
RECORDS = 101


class Student(Joint):
    """The layer of eq. 1 as it learns real numbers. The batch's `signal` holds what its nodes should say, y.

    "squared": the back-propagated gradient is g = y − h, which vanishes once the node has learned y.
    "fixed": it is g = y for ever, as in Assumption 1. "logistic": the label is whether y is above 0, and g is the label
    minus the logistic function of h, which vanishes only for infinite h. With `learns` off, attention stays uniform.
    """

    def __init__(self, loss: Loss, activation: Activation, *, learns: bool = True, **sizes: Any) -> None:
        require_known("loss", loss, LOSSES)
        super().__init__(activation=activation, **sizes)
        self.loss_name, self.learns = loss, learns

    def _start(self, draw: np.random.Generator) -> Parameters:
        """Weights above 0, since a ReLU that is silent in every sample never learns; attention starts uniform."""
        W = np.abs(draw.standard_normal((self.nodes, self.dimension))) * self.start_size
        return {"W": torch.from_numpy(W), "Z": torch.zeros(self.queries, self.contexts, dtype=torch.float64)}

    def signal(self, h: Tensor, batch: JointBatch) -> Tensor:
        assert batch.signal is not None
        if self.loss_name == "fixed":
            return batch.signal
        if self.loss_name == "squared":
            return batch.signal - h
        return (batch.signal > 0).to(h.dtype) - torch.sigmoid(h)

    def gradient(self, parameters: Parameters, batch: JointBatch, samples: int = 0) -> Parameters:
        gradient = super().gradient(parameters, batch, samples)
        return gradient if self.learns else {**gradient, "Z": torch.zeros_like(gradient["Z"])}


class TeacherTask:
    """Samples in which every token occurs with probability .3, and what the teacher says of them; drawn once.

    The teacher has uniform attention: y = φ(μᵀx − E[μᵀx]) with μ = `gain`·(targets of Fig 4). So the student can learn
    it exactly.
    """

    def __init__(self, activation: Activation, setting: StudentTraining) -> None:
        self.activation, self.setting = activation, setting

    @once_per_stream
    def sample(self, n: int, draw: np.random.Generator) -> JointBatch:
        tokens = len(FIG4_TARGETS)
        occurs = draw.random((n, tokens)) < self.setting.share
        occurs[np.arange(n), draw.integers(tokens, size=n)] = True  # no sample is empty
        x = occurs / occurs.sum(axis=1, keepdims=True)
        y = x @ (self.setting.gain * np.array(FIG4_TARGETS))
        y = y - y.mean()
        y = np.maximum(y, 0) if self.activation == "relu" else y
        query = torch.zeros(n, dtype=torch.long)
        return JointBatch(torch.from_numpy(x), query, signal=torch.from_numpy(y)[:, None])


@lru_cache(maxsize=16)
def train_student(
    loss: Loss,
    activation: Activation,
    seeds: tuple[int, ...],
    steps: int = STUDENT.steps,
    learns: bool = True,
    setting: StudentTraining = STUDENT,
) -> xr.Dataset:
    """Theorem 4 and Fig 4 in training: v, the attention logits z, their entropy and the mean of g² along training.

    `pull` is Δ_l = E[g·h′·x_l], less its mean over the tokens: at the start it says how salient a token is, and later
    how much of it is still to be learned.
    """
    task = TeacherTask(activation, setting)
    model = Student(loss, activation, learns=learns, nodes=1, contexts=len(FIG4_TARGETS), start=setting.start)
    run, states = train_joint(
        model, task, rate=setting.rate, steps=steps, samples=setting.samples, seeds=seeds,
        save_at=even_times(steps, RECORDS), experiment="joma/student",
    )  # fmt: skip
    batch = JointBatch.stack([task.sample(setting.samples, stream("joma/student", seed, "data")) for seed in seeds])
    z, v = states["Z"][..., 0, :].numpy(), model.context_weights(states["W"])[..., 0, :].numpy()
    g = model.signal(model.hidden(states, batch), batch) * model.slopes(states, batch)  # [time, seed, sample, 1]
    pull = torch.einsum("tsik,sil->tsl", g, batch.x) / setting.samples
    axes = ("time", "seed", "context")
    return trajectory(
        {
            "v": (axes, v),
            "z": (axes, z),
            "entropy": (("time", "seed"), entropy(torch.softmax(states["Z"][..., 0, :], -1).numpy())),
            "error": (("time", "seed"), (g**2).mean((-2, -1)).numpy()),
            "pull": (axes, (pull - pull.mean(-1, keepdim=True)).numpy()),
        },
        {"time": run["time"].values, "seed": list(seeds), "context": range(z.shape[-1])},
        units={"time": "steps", "entropy": "nats"},
        setting=setting,
    )


def sparse_dense(
    activation: Annotated[Activation, about("Activation of the node.")],
    loss: Annotated[Loss, about("What the node is trained on, which decides how its gradient ends.")],
    seeds: Seeds = 5,
    steps: TrainingSteps = STUDENT.steps,
) -> xr.Dataset:
    """Section 4 in training: the entropy of attention, and the error, for one activation and one loss."""
    return train_student(loss, activation, tuple(seed_list(seeds)), steps)[["entropy", "error"]]


EXPERIMENTS = [
    Experiment(
        "joma/sparse_dense",
        "Entropy of attention while one node learns a teacher: with three losses, with and without ReLU",
        sparse_dense,
        axes={"activation": ACTIVATIONS, "loss": LOSSES},
        settings={"fast": {"steps": 200, "seeds": 2}, "full": {}},
    )
]
