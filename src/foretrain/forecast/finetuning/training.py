"""The real thing: fine-tunes the model as the forecast assumes, and records its outputs."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foretrain.core.progress import Progress, tell
from foretrain.forecast.finetuning.classifier import Classifier
from foretrain.forecast.finetuning.dynamics import FinetuneSetting, residuals


def train_outputs(
    classifier: Classifier, labels: Int[Tensor, "train"], setting: FinetuneSetting, record_at: list[int]
) -> Float[Tensor, "time row output"]:
    """Outputs of all rows at the recorded steps; the model's weights are set back afterwards."""
    recorded = []
    batches = setting.batches(len(labels))
    with classifier.restored():
        parameters = [p for p in classifier.module.parameters() if p.requires_grad]
        if setting.optimizer == "adamw":
            optimizer: torch.optim.Optimizer = torch.optim.AdamW(
                parameters, lr=setting.rate, betas=setting.betas, weight_decay=setting.weight_decay
            )
        else:
            optimizer = torch.optim.SGD(
                parameters, lr=setting.rate, momentum=setting.momentum, weight_decay=setting.weight_decay
            )
        for step in range(setting.steps + 1):
            if step in record_at:
                with torch.no_grad():
                    recorded.append(torch.cat([classifier(block) for block in classifier.blocks()]))
            if step == setting.steps:
                break
            for group in optimizer.param_groups:
                group["lr"] = setting.learning_rate(step)
            chosen = torch.from_numpy(batches[step])
            with torch.enable_grad():
                outputs = classifier(chosen)
                outputs.backward(residuals(outputs.detach(), labels[chosen]))
            optimizer.step()
            optimizer.zero_grad()
            tell(Progress(step + 1, setting.steps, "fine-tuning"))
    return torch.stack(recorded)
