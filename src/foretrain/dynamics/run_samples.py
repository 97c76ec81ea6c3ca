"""Networks with a leading axis of runs, and samples as they want them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from foretrain.core.errors import require
from foretrain.data.templates import TemplateBatch

Parameters = dict[str, Tensor]


@runtime_checkable
class Prepared(Protocol):
    """Samples of every run as a model wants them."""

    def some(self, samples: Any) -> Any: ...
    def of_runs(self, runs: Any) -> Any: ...


@runtime_checkable
class RunsModel(Protocol):
    """A network with a leading axis of runs."""

    @property
    def trained(self) -> Sequence[str] | None: ...  # names of the parameters that move; None: all
    def start(self, draws: Sequence[torch.Generator]) -> Parameters: ...
    def prepare(self, strings: Tensor, start: Parameters) -> Any: ...
    def outputs(self, parameters: Parameters, prepared: Any) -> Tensor: ...


@dataclass(frozen=True)
class Samples:
    """Prepared strings with their labels; `answers` are the labels of the task that an output is held against."""

    prepared: Any
    labels: Tensor
    answers: Tensor | None  # [run, label]; None: labels are tokens

    @classmethod
    def of(cls, model: RunsModel, batches: Sequence[TemplateBatch], start: Parameters) -> Samples:
        strings = torch.from_numpy(np.stack([batch.tokens for batch in batches]))
        labels = torch.from_numpy(np.stack([batch.labels for batch in batches]))
        prepared = model.prepare(strings, start)
        if batches[0].task.kind == "next-token":
            return cls(prepared, labels, None)
        answers = torch.tensor([sorted(map(float, batch.task.labels)) for batch in batches], dtype=torch.float32)
        return cls(prepared, labels.to(torch.float32), answers)

    @property
    def count(self) -> int:
        return self.labels.shape[1]

    def some(self, samples: Tensor) -> Samples:
        return Samples(self.prepared.some(samples), self.labels.gather(1, samples), self.answers)

    def of_runs(self, runs: Tensor) -> Samples:
        answers = None if self.answers is None else self.answers[runs]
        return Samples(self.prepared.of_runs(runs), self.labels[runs], answers)

    def losses(self, outputs: Tensor) -> Tensor:
        """Mean loss of each run."""
        if self.answers is None:
            require(
                outputs.ndim == 3, 'The task asks for tokens, the network answers with numbers; set output="token".'
            )
            return (
                F.cross_entropy(outputs.flatten(0, 1), self.labels.flatten(), reduction="none")
                .view(self.labels.shape)
                .mean(1)
            )
        require(outputs.ndim == 2, 'The task asks for numbers, the network answers with tokens; set output="number".')
        return (outputs - self.labels).square().mean(1)

    def accuracy(self, outputs: Tensor) -> Tensor:
        if self.answers is None:
            return (outputs.argmax(-1) == self.labels).float().mean(1)
        nearest, own = (
            self.answers.gather(1, (values[..., None] - self.answers[:, None]).abs().argmin(-1))
            for values in (outputs, self.labels)
        )
        return (nearest == own).float().mean(1)
