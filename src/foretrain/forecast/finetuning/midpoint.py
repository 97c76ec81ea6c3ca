"""Gradients halfway along the path that fine-tuning will take, instead of at its start.

A network is not linear along its path: gradients at the start make the forecast too small, by a third or more. The
gradients in the middle are right to second order. The middle is found without a real step: the weights move along the
direction of the first full-batch step of the optimizer, until the outputs have moved half as far as the forecast says.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foretrain.forecast.finetuning.classifier import Classifier
from foretrain.forecast.finetuning.dynamics import FinetuneSetting, residuals
from foretrain.forecast.finetuning.samples import trained_parameters
from foretrain.forecast.finetuning.tangent import Tangent, linearise, sampled

TINY = 1e-8  # Adam's epsilon


def midpoint(
    classifier: Classifier,
    start: Tangent,
    labels: Int[Tensor, "train"],
    setting: FinetuneSetting,
    change: Float[Tensor, "row output"],
) -> Tangent:
    """The tangent halfway to the forecast `change` of the outputs, with the outputs and weights of the start."""
    with classifier.restored():
        directions = _directions(classifier, labels, setting)
        moved = sampled(directions, start.samples) / start.shares
        along = (start.jacobian.flatten(0, 1) @ moved).view_as(change)
        length = 0.5 * change.square().mean().sqrt() / along.square().mean().sqrt().clamp(min=1e-30)
        with torch.no_grad():
            for name, parameter in classifier.module.named_parameters():
                if name in directions:
                    parameter.add_(float(length) * directions[name])
        middle = linearise(classifier, like=start)
    return replace(start, jacobian=middle.jacobian)


def _directions(classifier: Classifier, labels: Tensor, setting: FinetuneSetting) -> dict[str, Tensor]:
    """The first step of the optimizer on all training rows at once, for a rate of 1."""
    own = trained_parameters(classifier.module)
    total = {name: torch.zeros_like(p) for name, p in own.items()}
    for block in torch.arange(len(labels)).split(32):
        with torch.enable_grad():
            outputs = classifier(block)
            pull = residuals(outputs.detach(), labels[block]) * len(block) / len(labels)
            gradients = torch.autograd.grad(outputs, list(own.values()), pull, allow_unused=True)
        for name, gradient in zip(own, gradients, strict=True):
            if gradient is not None:
                total[name] += gradient
    if setting.optimizer == "sgd":
        return {name: -gradient for name, gradient in total.items()}
    return {name: -gradient / (gradient.abs() + TINY) for name, gradient in total.items()}
