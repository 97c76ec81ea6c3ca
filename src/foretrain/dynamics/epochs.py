"""Trains a text classifier over epochs of a corpus, and updates only the tokens of each batch.

A batch of texts has a few hundred of many thousand tokens. The parameters of these tokens are gathered, differentiated,
updated and put back. For SGD without momentum and for Adagrad, whose state does not change where the gradient is 0,
this gives the same numbers as a dense step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from foretrain.core.errors import require, require_at_least
from foretrain.core.streams import stream
from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.additive import AdditiveSteps
from foretrain.dynamics.optimizers import SGD, Adagrad, rates_by_block
from foretrain.models.classifiers import Classifier
from foretrain.models.parameters import Parameters, start_keys


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
    """Train on texts with class numbers as labels (0 or 1 for one output).

    The loss is the mean over the batch of the logistic loss (one output) or of the cross-entropy.
    `each_epoch(epoch, parameters)` is called before the first epoch, as epoch 0, and after every epoch.
    """
    require_at_least("epochs", epochs, 0)
    require_at_least("batch", batch, 1)
    require(len(labels) == len(texts), f"There must be one label per text; got {len(labels)} for {len(texts)} texts.")
    classes = max(2, network.outputs)
    wrong = ~np.isin(labels, np.arange(classes))
    require(not wrong.any(), f"Labels must be whole numbers from 0 to {classes - 1}; got {labels[wrong][:1]}.")
    sparse_steps = isinstance(optimizer, Adagrad) or not optimizer.momentum
    require(
        sparse_steps, "train_epochs needs an optimizer that leaves tokens without gradient alone: Adagrad or plain SGD."
    )
    parameters = {name: value[0] for name, value in network.start(start_keys(experiment, [seed])).items()}
    rates = {name: float(rate) for name, rate in rates_by_block(optimizer.rate, list(parameters)).items()}
    order = stream(experiment, seed, "order")
    loop = AdditiveSteps if network.architecture == "mlp" else _GatheredSteps
    steps = loop(network, parameters, rates, optimizer)
    if each_epoch:
        each_epoch(0, parameters)
    for epoch in range(1, epochs + 1):
        steps.epoch(texts, labels, order.permutation(len(texts)), batch)
        if each_epoch:
            each_epoch(epoch, parameters)
    return parameters


def padded_batch(texts: TokenTexts, rows: np.ndarray) -> tuple[Tensor, Tensor]:
    """The distinct tokens of these texts, and the texts as indices into them, padded with −1 at the end."""
    chosen = texts.select(rows)
    lengths = chosen.lengths
    distinct, index = np.unique(chosen.flat, return_inverse=True)
    table = np.full((len(rows), max(1, int(lengths.max()))), -1, dtype=np.int64)  # [text, position]
    table[np.arange(table.shape[1]) < lengths[:, None]] = index
    return torch.from_numpy(distinct), torch.from_numpy(table)


def batch_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean logistic loss if there is one score per text, mean cross-entropy if there are several."""
    if scores.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], labels.to(scores.dtype))
    return functional.cross_entropy(scores, labels)


class _GatheredSteps:
    """Steps of any network by autograd. Of the parameters of tokens, only the rows of a batch are read and written."""

    def __init__(
        self, network: Classifier, parameters: Parameters, rates: Mapping[str, float], optimizer: SGD | Adagrad
    ) -> None:
        self.network, self.parameters, self.optimizer = network, parameters, optimizer
        self.states = {name: optimizer.begin(p) for name, p in parameters.items()}
        self.rates = {name: torch.tensor(rates[name], dtype=p.dtype) for name, p in parameters.items()}
        self.steps_done = 0

    def epoch(self, texts: TokenTexts, labels: np.ndarray, order: np.ndarray, batch: int) -> None:
        """One pass over the texts in this order."""
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            self._step(*padded_batch(texts, rows), torch.from_numpy(labels[rows]))

    def _step(self, tokens: Tensor, texts: Tensor, labels: Tensor) -> None:
        """One step on texts that are indices into `tokens`."""
        self.steps_done += 1
        gathered = {name: (p[tokens] if name in self.network.per_token else p) for name, p in self.parameters.items()}
        leaves = {name: p.detach().requires_grad_() for name, p in gathered.items()}
        loss = batch_loss(self.network.scores(leaves, texts), labels)
        gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        with torch.no_grad():
            for (name, value), gradient in zip(gathered.items(), gradients, strict=True):
                rate, whole_state = self.rates[name], self.states[name]
                if name not in self.network.per_token:
                    self.optimizer.update(value, gradient, rate, whole_state, self.steps_done)
                    continue
                state = {key: whole[tokens] for key, whole in whole_state.items()}
                self.optimizer.update(value, gradient, rate, state, self.steps_done)
                self.parameters[name][tokens] = value
                for key, rows in state.items():
                    whole_state[key][tokens] = rows
