"""Trains a text classifier over epochs of a corpus, touching only what a batch touches.

A batch of texts meets a few hundred of many thousand tokens. Parameters that belong to a token are gathered for the
tokens of the batch, differentiated, updated and put back: the same numbers as a dense step for SGD without momentum
and for Adagrad, whose state stands still where the gradient is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from foretrain.data.tokens import TokenTexts
from foretrain.dynamics.optimizers import SGD, Adagrad, rates_by_block
from foretrain.errors import require, require_at_least
from foretrain.models.classifiers import Classifier, Parameters
from foretrain.streams import stream, torch_stream

PER_TOKEN = {"embedding", "matrix"}  # parameters with one row per token


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
    sparse_steps = isinstance(optimizer, Adagrad) or not optimizer.momentum
    require(sparse_steps, "train_epochs needs an optimizer without memory of untouched tokens: Adagrad or plain SGD.")
    parameters = network.start(torch_stream(experiment, seed, "start"))
    states = {name: optimizer.begin(p) for name, p in parameters.items()}
    rates = {name: float(rate) for name, rate in rates_by_block(optimizer.rate, list(parameters)).items()}
    order = stream(experiment, seed, "order")
    step = 0
    if each_epoch:
        each_epoch(0, parameters)
    for epoch in range(1, epochs + 1):
        for rows in _batches(order.permutation(len(texts)), batch):
            step += 1
            tokens, local = padded_batch(texts, rows)
            _step(network, parameters, states, rates, optimizer, tokens, local, torch.from_numpy(labels[rows]), step)
        if each_epoch:
            each_epoch(epoch, parameters)
    return parameters


def padded_batch(texts: TokenTexts, rows: np.ndarray) -> tuple[Tensor, Tensor]:
    """The distinct tokens of some texts, and the texts as places among them, padded with −1 at the end."""
    lengths = texts.lengths[rows]
    flat = np.concatenate([texts[i] for i in rows])
    distinct, place = np.unique(flat, return_inverse=True)
    table = np.full((len(rows), max(1, int(lengths.max()))), -1, dtype=np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = place
    return torch.from_numpy(distinct), torch.from_numpy(table)


def batch_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean logistic loss of one score per text, or mean cross-entropy of several."""
    if scores.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], labels.to(scores.dtype))
    return functional.cross_entropy(scores, labels)


def _step(
    network: Classifier,
    parameters: Parameters,
    states: Mapping[str, dict[str, Tensor]],
    rates: Mapping[str, float],
    optimizer: Any,
    tokens: Tensor,
    local: Tensor,
    labels: Tensor,
    step: int,
) -> None:
    """One step; parameters of tokens are read and written only in the rows of `tokens`."""
    per_token = {name for name in parameters if name in PER_TOKEN and parameters[name].shape[0] == network.vocab}
    held = {name: (p[tokens] if name in per_token else p) for name, p in parameters.items()}
    leaves = {name: p.detach().requires_grad_() for name, p in held.items()}
    loss = batch_loss(network.scores(leaves, local), labels)
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    with torch.no_grad():
        for (name, value), gradient in zip(held.items(), gradients, strict=True):
            rate = torch.tensor(rates[name], dtype=value.dtype)
            if name not in per_token:
                optimizer.update(value, gradient, rate, states[name], step)
                continue
            state = {key: kept[tokens] for key, kept in states[name].items()}
            optimizer.update(value, gradient, rate, state, step)
            parameters[name][tokens] = value
            for key, kept in state.items():
                states[name][key][tokens] = kept


def _batches(order: np.ndarray, size: int) -> Iterator[np.ndarray]:
    for start in range(0, len(order), size):
        yield order[start : start + size]
