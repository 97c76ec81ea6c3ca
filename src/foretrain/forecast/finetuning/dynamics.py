"""The real optimizers on the linearised network: AdamW on sampled coordinates, SGD with momentum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.core.errors import require, require_positive, require_whole
from foretrain.core.streams import stream
from foretrain.forecast.finetuning.tangent import Tangent

OptimizerName = Literal["adamw", "sgd"]
ScheduleName = Literal["constant", "linear", "cosine"]
OPTIMIZERS, SCHEDULES = ("adamw", "sgd"), ("constant", "linear", "cosine")


@dataclass(frozen=True)
class FinetuneSetting:
    """How a model is fine-tuned. All weights move, dropout is off, and the head starts at the linear probe."""

    optimizer: OptimizerName = "adamw"
    rate: float = 2e-5
    steps: int = 48
    batch: int = 16
    schedule: ScheduleName = "constant"  # after the warm-up; linear falls to 0, cosine to 0
    warm_up: int = 0  # steps
    weight_decay: float = 0.0
    momentum: float = 0.0  # of sgd
    betas: tuple[float, float] = (0.9, 0.999)
    seed: int = 1  # of the order of the rows

    def __post_init__(self) -> None:
        require(self.optimizer in OPTIMIZERS, f"optimizer must be adamw or sgd; got {self.optimizer!r}.")
        require(self.schedule in SCHEDULES, f"schedule must be one of {', '.join(SCHEDULES)}; got {self.schedule!r}.")
        require_positive("rate", self.rate)
        require_whole("steps", self.steps, 1)
        require_whole("batch", self.batch, 1)
        require(0 <= self.warm_up <= self.steps, f"warm_up must lie between 0 and {self.steps}; got {self.warm_up}.")
        require(0 <= self.momentum < 1, f"momentum must be at least 0 and below 1; got {self.momentum}.")
        require(
            self.optimizer == "sgd" or self.momentum == 0,
            "momentum is for sgd; adamw has betas. Leave it out, or use sgd.",
        )
        decay = self.weight_decay
        require(0 <= decay < math.inf, f"weight_decay must be finite and not negative; got {decay}.")
        fine = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        require(fine, f"betas must be two numbers of at least 0 and below 1; got {self.betas}.")

    def learning_rate(self, step: int) -> float:
        """The rate of the update after `step` updates."""
        if step < self.warm_up:
            return self.rate * (step + 1) / self.warm_up
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        left = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[self.schedule]
        return self.rate * left

    def batches(self, rows: int, keep: Int[np.ndarray, "kept"] | None = None) -> list[Int[np.ndarray, "row"]]:
        """The rows of every step: epochs in random order, the last batch of an epoch may be smaller.

        With `keep` only these rows are used, in the order that they would have among all, so that leaving out one row
        does not shuffle the others.
        """
        used = np.ones(rows, bool) if keep is None else np.isin(np.arange(rows), keep)
        order = stream("forecast/finetune", "order", self.seed)
        batches: list[np.ndarray] = []
        while len(batches) < self.steps:
            epoch = order.permutation(rows)
            epoch = epoch[used[epoch]]
            batches += [epoch[k : k + self.batch] for k in range(0, len(epoch), self.batch)]
        return batches[: self.steps]

    @classmethod
    def of(cls, **given: Any) -> FinetuneSetting:
        """The setting with these values; a name that it does not have is refused in a sentence."""
        known = [each.name for each in fields(cls)]
        for name in given:
            require(name in known, f"There is no setting {name!r}; the settings are {', '.join(known)}.")
        return cls(**given)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def residuals(logits: Float[Tensor, "row output"], labels: Int[Tensor, "row"]) -> Float[Tensor, "row output"]:
    """The gradient of the mean cross-entropy with respect to the logits."""
    labels = labels.to(logits.device)
    if logits.shape[1] == 1:
        return (logits.sigmoid() - labels[:, None]) / len(labels)
    return (logits.softmax(1) - F.one_hot(labels, logits.shape[1])) / len(labels)


def forecast_outputs(
    tangent: Tangent,
    labels: Int[Tensor, "train"],
    setting: FinetuneSetting,
    record_at: list[int],
    *,
    middle: Tangent | None = None,
    reach: float = 1.0,
    keep: Int[np.ndarray, "kept"] | None = None,
) -> Float[Tensor, "time row output"]:
    """Outputs of all rows at the recorded steps; the first rows of the tangent are the training rows, with `labels`.

    With the gradients in the `middle` of a path, those of every step lie on the line through both points: at the start
    they are those of the start, and at the end of a path `reach` times as long, `reach` times as far beyond the middle.
    `keep` trains on these rows only.
    """
    batches = setting.batches(len(labels), keep)
    rates = np.array([setting.learning_rate(step) for step in range(setting.steps)])
    done = np.concatenate([[0.0], np.cumsum(rates)[:-1]]) / rates.sum()
    travelled = 2 * reach * done  # 0 at the start, 1 in the middle
    within = reach * rates / rates.sum()  # from the beginning of a step to its middle
    path = _Path(tangent, middle)
    step_of = _adamw(setting, tangent.weights) if setting.optimizer == "adamw" else _sgd(setting, tangent.weights)
    for step in range(setting.steps + 1):
        if step in record_at:
            path.record()
        if step == setting.steps:
            break
        chosen, place = torch.from_numpy(batches[step]), float(travelled[step])
        pull = residuals(path.outputs(chosen), labels[chosen])
        change = step_of(path.gradient(chosen, pull, place), float(rates[step]))
        path.move(change, place + float(within[step]))
    return path.recorded()


class _Path:
    """Where the outputs are after the moves so far: f0 + J·Σ(1 − s)Δ + J_middle·ΣsΔ, for moves Δ made at s.

    Rows of the gradients are read one by one, because picking a batch of them would copy more than it computes; what is
    recorded is multiplied once, at the end.
    """

    def __init__(self, start: Tangent, middle: Tangent | None) -> None:
        self.start = start
        self.jacobians = [start.jacobian] if middle is None else [start.jacobian, middle.jacobian]
        self.moved = [torch.zeros_like(start.weights) for _ in self.jacobians]
        self.records: list[list[Tensor]] = [[] for _ in self.jacobians]

    def _parts(self, travelled: float) -> list[float]:
        return [1.0] if len(self.jacobians) == 1 else [1 - travelled, travelled]

    def move(self, change: Tensor, travelled: float) -> None:
        weighted = change / self.start.shares
        for moved, part in zip(self.moved, self._parts(travelled), strict=True):
            moved.add_(weighted, alpha=part)

    def gradient(
        self, rows: Tensor, pull: Float[Tensor, "row output"], travelled: float
    ) -> Float[Tensor, "coordinate"]:
        gradient = torch.zeros_like(self.start.weights)
        for jacobian, part in zip(self.jacobians, self._parts(travelled), strict=True):
            for row, residual in zip(rows.tolist(), part * pull, strict=True):
                gradient.addmv_(jacobian[row].T, residual)
        return gradient

    def outputs(self, rows: Tensor) -> Float[Tensor, "row output"]:
        outputs = self.start.outputs[rows].clone()
        for jacobian, moved in zip(self.jacobians, self.moved, strict=True):
            for place, row in enumerate(rows.tolist()):
                outputs[place] += jacobian[row] @ moved
        return outputs

    def record(self) -> None:
        for records, moved in zip(self.records, self.moved, strict=True):
            records.append(moved.clone())

    def recorded(self) -> Float[Tensor, "time row output"]:
        """The outputs of all rows at the recorded moments."""
        changes = sum(
            torch.stack(records) @ jacobian.flatten(0, 1).T
            for jacobian, records in zip(self.jacobians, self.records, strict=True)
        )
        assert isinstance(changes, Tensor)
        return self.start.outputs + changes.view(-1, *self.start.outputs.shape)


StepRule = Callable[[Tensor, float], Tensor]  # gradient and rate -> change of the weights


def _adamw(setting: FinetuneSetting, weights: Tensor) -> StepRule:
    """torch.optim.AdamW, coordinate by coordinate."""
    first, second, moved = (torch.zeros_like(weights) for _ in range(3))
    (b1, b2), count = setting.betas, 0

    def step(gradient: Tensor, rate: float) -> Tensor:
        nonlocal count
        count += 1
        first.lerp_(gradient, 1 - b1)
        second.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        scale = (second / (1 - b2**count)).sqrt_().add_(1e-8)
        change = -rate / (1 - b1**count) * first / scale
        if setting.weight_decay:
            change -= rate * setting.weight_decay * (weights + moved)
        moved.add_(change)
        return change

    return step


def _sgd(setting: FinetuneSetting, weights: Tensor) -> StepRule:
    """torch.optim.SGD with momentum."""
    velocity, moved = torch.zeros_like(weights), torch.zeros_like(weights)

    def step(gradient: Tensor, rate: float) -> Tensor:
        if setting.weight_decay:
            gradient = gradient + setting.weight_decay * (weights + moved)
        velocity.mul_(setting.momentum).add_(gradient)
        change = -rate * velocity
        moved.add_(change)
        return change

    return step
