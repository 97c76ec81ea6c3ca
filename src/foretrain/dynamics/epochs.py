"""Trains a text classifier over epochs of a corpus, touching only what a batch touches.

A batch of texts meets a few hundred of many thousand tokens. Parameters that belong to a token are gathered for the
tokens of the batch, differentiated, updated and put back: the same numbers as a dense step for SGD without momentum
and for Adagrad, whose state stands still where the gradient is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from foretrain.core.errors import require, require_at_least
from foretrain.core.streams import stream, torch_stream
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.additive import AdditiveSteps
from foretrain.dynamics.optimizers import SGD, Adagrad, rates_by_block
from foretrain.models.classifiers import Classifier, Parameters


def train_epochs(
    network: Classifier,
    texts: TokenTexts,
    labels: np.ndarray,
    *,
    optimizer: SGD | Adagrad,
    epochs: int,
    batch: int = 64,
    seed: int = 1,
    experiment: str = "train_epochs",
    each_epoch: Callable[[int, Parameters], None] | None = None,
) -> Parameters:
    """Train on texts with class numbers (0 or 1 for one output); `each_epoch(epoch, parameters)` is called from 0 on.

    The loss is the mean logistic loss (one output) or cross-entropy over the batch.
    """
    require_at_least("epochs", epochs, 0)
    require_at_least("batch", batch, 1)
    require(len(labels) == len(texts), f"There must be one label per text; got {len(labels)} for {len(texts)} texts.")
    classes = max(2, network.outputs)
    wrong = ~np.isin(labels, np.arange(classes))
    require(not wrong.any(), f"Labels must be whole numbers from 0 to {classes - 1}; got {labels[wrong][:1]}.")
    sparse_steps = isinstance(optimizer, Adagrad) or not optimizer.momentum
    require(sparse_steps, "train_epochs needs an optimizer without memory of untouched tokens: Adagrad or plain SGD.")
    parameters = network.start(torch_stream(experiment, seed, "start"))
    rates = {name: float(rate) for name, rate in rates_by_block(optimizer.rate, list(parameters)).items()}
    order = stream(experiment, seed, "order")
    kind = AdditiveSteps if network.architecture == "mlp" else _GatheredSteps
    steps = kind(network, parameters, rates, optimizer)
    if each_epoch:
        each_epoch(0, parameters)
    for epoch in range(1, epochs + 1):
        steps.epoch(texts, labels, order.permutation(len(texts)), batch)
        if each_epoch:
            each_epoch(epoch, parameters)
    return parameters


def padded_batch(texts: TokenTexts, rows: np.ndarray) -> tuple[Tensor, Tensor]:
    """The distinct tokens of some texts, and the texts as places among them, padded with −1 at the end."""
    chosen = texts.select(rows)
    lengths = chosen.lengths
    distinct, place = np.unique(chosen.flat, return_inverse=True)
    table = np.full((len(rows), max(1, int(lengths.max()))), -1, dtype=np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = place
    return torch.from_numpy(distinct), torch.from_numpy(table)


def batch_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean logistic loss of one score per text, or mean cross-entropy of several."""
    if scores.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], labels.to(scores.dtype))
    return functional.cross_entropy(scores, labels)


class _GatheredSteps:
    """Steps of any network by autograd; parameters of tokens are read and written only in the rows of a batch."""

    def __init__(
        self, network: Classifier, parameters: Parameters, rates: Mapping[str, float], optimizer: SGD | Adagrad
    ) -> None:
        self.network, self.parameters, self.optimizer = network, parameters, optimizer
        self.states = {name: optimizer.begin(p) for name, p in parameters.items()}
        self.rates = {name: torch.tensor(rates[name], dtype=p.dtype) for name, p in parameters.items()}
        self.taken = 0

    def epoch(self, texts: TokenTexts, labels: np.ndarray, order: np.ndarray, batch: int) -> None:
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            self._step(*padded_batch(texts, rows), torch.from_numpy(labels[rows]))

    def _step(self, tokens: Tensor, local: Tensor, labels: Tensor) -> None:
        self.taken += 1
        held = {name: (p[tokens] if name in self.network.per_token else p) for name, p in self.parameters.items()}
        leaves = {name: p.detach().requires_grad_() for name, p in held.items()}
        loss = batch_loss(self.network.scores(leaves, local), labels)
        gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        with torch.no_grad():
            for (name, value), gradient in zip(held.items(), gradients, strict=True):
                rate, kept = self.rates[name], self.states[name]
                if name not in self.network.per_token:
                    self.optimizer.update(value, gradient, rate, kept, self.taken)
                    continue
                state = {key: whole[tokens] for key, whole in kept.items()}
                self.optimizer.update(value, gradient, rate, state, self.taken)
                self.parameters[name][tokens] = value
                for key, part in state.items():
                    kept[key][tokens] = part
