"""The real thing: fine-tunes the model as the forecast assumes, and records its outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foretrain.core.progress import Progress, tell
from foretrain.forecast.finetuning.classifier import HeadedModel
from foretrain.forecast.finetuning.dynamics import FinetuneSetting, residuals
from foretrain.forecast.finetuning.samples import trained_parameters


@torch.inference_mode(mode=False)
def train_outputs(
    classifier: HeadedModel,
    labels: Int[Tensor, "train"],
    setting: FinetuneSetting,
    record_at: Sequence[int],
    *,
    keep: Int[np.ndarray, "kept"] | None = None,
    until: int | None = None,
) -> Float[Tensor, "time row output"]:
    """Outputs of all rows at the recorded steps; the model's weights are set back afterwards.

    keep   train on these rows only
    until  stop after this many of the setting's steps
    """
    recorded = []
    last = setting.steps if until is None else min(until, setting.steps)
    batches = setting.batches(len(labels), keep)
    with classifier.restored():
        parameters = list(trained_parameters(classifier.module).values())
        for parameter in parameters:
            parameter.grad = None
        optimizer = optimizer_for(setting, parameters)
        for step in range(last + 1):
            if step in record_at:
                with torch.no_grad():
                    recorded.append(torch.cat([classifier(block).cpu() for block in classifier.blocks()]))
            if step == last:
                break
            for group in optimizer.param_groups:
                group["lr"] = setting.learning_rate(step)
            chosen = torch.from_numpy(batches[step])
            with torch.enable_grad():
                outputs = classifier(chosen)
                outputs.backward(residuals(outputs.detach(), labels[chosen]))
            optimizer.step()
            optimizer.zero_grad()
            tell(Progress(step + 1, last, "fine-tuning"))
    return torch.stack(recorded)


def optimizer_for(setting: FinetuneSetting, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """torch's optimizer with the constants of a setting."""
    decay = setting.weight_decay
    if setting.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=setting.rate, betas=setting.betas, weight_decay=decay)
    return torch.optim.SGD(parameters, lr=setting.rate, momentum=setting.momentum, weight_decay=decay)
