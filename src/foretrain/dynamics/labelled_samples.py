"""Samples of every run with their labels, and how well outputs fit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from foretrain.core.errors import require
from foretrain.data.template_task import TemplateBatch
from foretrain.dynamics.protocols import OutputModel
from foretrain.models.parameters import Parameters


@dataclass(frozen=True)
class LabelledSamples:
    """Prepared strings with their labels. An output counts as the nearest of the task's possible `answers`."""

    prepared: Any
    labels: Tensor  # [run, sample]
    answers: Tensor | None  # [run, answer]; None: labels are tokens

    @classmethod
    def of(cls, model: OutputModel, batches: Sequence[TemplateBatch], start: Parameters) -> LabelledSamples:
        """One batch per run, prepared for the model."""
        strings = torch.from_numpy(np.stack([batch.tokens for batch in batches]))  # [run, sample, position]
        labels = torch.from_numpy(np.stack([batch.labels for batch in batches]))  # [run, sample]
        prepared = model.prepare(strings, start)
        if batches[0].task.kind == "next-token":
            return cls(prepared, labels, None)
        answers = torch.tensor([sorted(map(float, batch.task.labels)) for batch in batches], dtype=torch.float32)
        return cls(prepared, labels.to(torch.float32), answers)

    @property
    def count(self) -> int:
        """Samples of one run."""
        return self.labels.shape[1]

    def select_samples(self, samples: Tensor) -> LabelledSamples:
        """Keep these samples of each run: [run, chosen]."""
        return LabelledSamples(self.prepared.select_samples(samples), self.labels.gather(1, samples), self.answers)

    def select_runs(self, runs: Tensor) -> LabelledSamples:
        """Keep these runs."""
        answers = None if self.answers is None else self.answers[runs]
        return LabelledSamples(self.prepared.select_runs(runs), self.labels[runs], answers)

    def losses(self, outputs: Tensor) -> Tensor:
        """Mean loss of each run: cross-entropy for tokens, squared error for numbers."""
        if self.answers is None:
            require(outputs.ndim == 3, 'The task asks for tokens, but the network outputs numbers; set output="token".')
            per_sample = F.cross_entropy(outputs.flatten(0, 1), self.labels.flatten(), reduction="none")
            return per_sample.view(self.labels.shape).mean(1)
        require(outputs.ndim == 2, 'The task asks for numbers, but the network outputs tokens; set output="number".')
        return (outputs - self.labels).square().mean(1)

    def accuracy(self, outputs: Tensor) -> Tensor:
        """Share of each run's samples whose highest score is their token's, or whose nearest answer is their own."""
        if self.answers is None:
            return (outputs.argmax(-1) == self.labels).float().mean(1)
        nearest, answer = (
            self.answers.gather(1, (values[..., None] - self.answers[:, None]).abs().argmin(-1))
            for values in (outputs, self.labels)
        )
        return (nearest == answer).float().mean(1)
