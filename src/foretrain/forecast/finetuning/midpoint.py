"""Gradients halfway along the path that fine-tuning will take, instead of at its start.

A network is not linear along its path: gradients at the start make the forecast too small, by a third or more; those
halfway are right to second order. The direction is found by a coarse training: a few large steps of the real optimizer
on batches that together are the training rows once. How far to go is known from the start: until the outputs would have
moved, with the gradients of the start, as far as the forecast from the start says for half of the training.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from foretrain.core.progress import Progress, tell
from foretrain.core.streams import stream
from foretrain.forecast.finetuning.classifier import ROWS_AT_ONCE, HeadedModel
from foretrain.forecast.finetuning.dynamics import FinetuneSetting, forecast_outputs, residuals
from foretrain.forecast.finetuning.samples import trained_parameters
from foretrain.forecast.finetuning.tangent import Tangent, linearise, sampled
from foretrain.forecast.finetuning.training import optimizer_for

COARSE_STEPS = 8


def midpoint(
    classifier: HeadedModel,
    start: Tangent,
    labels: Int[Tensor, "train"],
    setting: FinetuneSetting,
    *,
    keep: Int[np.ndarray, "kept"] | None = None,
) -> Tangent:
    """The tangent halfway along the path of a setting, with the outputs and weights of the start.

    keep  train on these rows only
    """
    rows = np.arange(len(labels)) if keep is None else keep
    with classifier.restored():
        parameters = trained_parameters(classifier.module)
        before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        _coarse_training(classifier, labels, setting, rows)
        with torch.no_grad():
            moved = {name: parameter - before[name] for name, parameter in parameters.items()}
            share = _size(_halfway(start, labels, setting, rows)) / max(_size(_along(start, moved)), 1e-30)
            for name, parameter in parameters.items():
                parameter.copy_(before[name] + share * moved[name])
        return replace(start, jacobian=linearise(classifier, like=start).jacobian)


def _halfway(start: Tangent, labels: Tensor, setting: FinetuneSetting, rows: np.ndarray) -> Tensor:
    """The change of the outputs after half of the training, by the forecast from the start."""
    rates = np.cumsum([setting.learning_rate(step) for step in range(setting.steps)])
    half = 1 + int(np.searchsorted(rates, rates[-1] / 2))
    outputs = forecast_outputs(start, labels, setting, [0, half], keep=rows)
    return outputs[-1] - outputs[0]


def _along(start: Tangent, moved: dict[str, Tensor]) -> Tensor:
    """The change of the outputs if the weights move so far, with the gradients of the start."""
    return start.jacobian.flatten(0, 1) @ (sampled(moved, start.samples) / start.shares)


def _size(change: Tensor) -> float:
    return float(change.square().mean().sqrt())


def length_of_path(setting: FinetuneSetting) -> float:
    """How far a setting goes: the sum of its rates. Momentum makes every gradient count 1/(1 − momentum) times."""
    rates = sum(setting.learning_rate(step) for step in range(setting.steps))
    return rates / (1 - setting.momentum) if setting.optimizer == "sgd" else rates


def _coarse_training(classifier: HeadedModel, labels: Tensor, setting: FinetuneSetting, rows: np.ndarray) -> None:
    parameters = list(trained_parameters(classifier.module).values())
    for parameter in parameters:
        parameter.grad = None
    order = stream("forecast/finetune", "coarse", setting.seed).permutation(rows)
    batches = [torch.from_numpy(batch) for batch in np.array_split(order, min(COARSE_STEPS, len(rows)))]
    rate = length_of_path(setting) / 2 / len(batches)
    optimizer = optimizer_for(replace(setting, rate=rate, momentum=0.0), parameters)
    for step, batch in enumerate(batches):
        for part in batch.split(ROWS_AT_ONCE):
            with torch.enable_grad():
                outputs = classifier(part)
                outputs.backward(residuals(outputs.detach(), labels[part]) * len(part) / len(batch))
        optimizer.step()
        optimizer.zero_grad()
        tell(Progress(step + 1, len(batches), "finding the middle of the path"))
