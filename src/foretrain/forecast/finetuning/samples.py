"""Which entries of the weights a forecast follows: a random sample of every trained parameter.

A weight matrix is sampled in rows and columns, and an entry that was drawn with probability p counts 1/p times, so that
sums over entries are right on average. Vectors are followed whole. Of an embedding, only rows that occur can move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foretrain.core.streams import stream
from foretrain.forecast.finetuning.classifier import HeadedModel

EMBEDDING_COLUMNS = 24  # of an embedding, at most
QUARTER = 0.25  # of all coordinates
SampledEntries = dict[str, "Sample"]


@dataclass(frozen=True)
class Sample:
    """Which entries of a parameter are followed: all pairs of these rows and columns, or entries of a vector."""

    rows: Tensor
    columns: Tensor | None
    share: float  # of the parameter's entries

    @property
    def size(self) -> int:
        return len(self.rows) * (1 if self.columns is None else len(self.columns))

    def of(self, parameter: Tensor) -> Tensor:
        if self.columns is None:
            return parameter.detach().reshape(-1)[self.rows]
        return parameter.detach().flatten(1)[self.rows][:, self.columns].reshape(-1)


@dataclass(frozen=True)
class Lookup:
    """An embedding that looks its rows up: which rows, and the factor that it multiplies them by."""

    rows: Tensor
    factor: float


@contextmanager
def lookups(module: nn.Module) -> Iterator[dict[str, Lookup]]:
    """Note what the embeddings look up during forward passes. One that does something else is not in the result."""
    noted: dict[str, Lookup] = {}
    refused: set[str] = set()

    def note(name: str) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
        def hook(layer: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
            factor = _factor(layer, given, output)
            before = noted.get(name)
            if factor is None or (before is not None and abs(before.factor - factor) > 1e-4 * abs(factor)):
                refused.add(name)
                noted.pop(name, None)
            if name not in refused and factor is not None:
                rows = torch.unique(given[0].cpu())
                noted[name] = Lookup(torch.unique(torch.cat([before.rows, rows])) if before else rows, factor)

        return hook

    hooks = [
        layer.register_forward_hook(note(name))
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Embedding)
    ]
    try:
        yield noted
    finally:
        for hook in hooks:
            hook.remove()


def _factor(layer: nn.Module, given: tuple[Any, ...], output: Tensor) -> float | None:
    """f if the output is f times the rows of the weight that the input names; None if it is anything else."""
    assert isinstance(layer, nn.Embedding)
    tokens = given[0] if given else None
    whole = isinstance(tokens, Tensor) and not tokens.is_floating_point() and tokens.dtype != torch.bool
    if tokens is None or not whole or output.shape != (*tokens.shape, layer.embedding_dim):
        return None
    if int(tokens.max()) >= layer.num_embeddings or int(tokens.min()) < 0:
        return None
    rows = layer.weight.detach()[tokens]
    size = float(rows.square().sum())
    factor = float((rows * output.detach()).sum()) / size if size else 1.0
    return factor if torch.allclose(output, factor * rows, rtol=1e-4, atol=1e-6) else None


def trained_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training moves, each once: those that want gradients."""
    return {name: value for name, value in module.named_parameters() if value.requires_grad}


def numbers_of_uses(module: nn.Module) -> Counter[int]:
    """In how many layers each parameter is, by its id."""
    return Counter(id(p) for layer in module.modules() for p in layer.parameters(recurse=False))


def choose(classifier: HeadedModel, looked_up: Mapping[str, Lookup], coordinates: int, seed: int) -> SampledEntries:
    """About `coordinates` entries of the trained parameters: at most a quarter of them in vectors and a quarter in
    embeddings; the head is followed whole."""
    random = stream("forecast/finetune", "coordinates", seed)
    trained = trained_parameters(classifier.module)
    head = {id(parameter) for parameter in classifier.head.parameters()}
    uses = numbers_of_uses(classifier.module)
    embedded = {f"{name}.weight" if name else "weight": lookup.rows for name, lookup in looked_up.items()}
    embedded = {name: rows for name, rows in embedded.items() if name in trained and uses[id(trained[name])] == 1}
    vectors = sum(p.numel() for p in trained.values() if p.ndim <= 1 and id(p) not in head)
    vector_share = min(1.0, QUARTER * coordinates / max(1, vectors))
    distinct = sum(len(rows) for rows in embedded.values())
    row_share = min(1.0, QUARTER * coordinates / max(1, distinct))
    columns = int(np.clip(QUARTER * coordinates / max(1, distinct), 1, EMBEDDING_COLUMNS))
    taken = (
        vector_share * vectors + row_share * distinct * columns + sum(p.numel() for p in classifier.head.parameters())
    )
    matrices = [p.numel() for name, p in trained.items() if p.ndim > 1 and name not in embedded and id(p) not in head]
    part = float(min(1.0, np.sqrt(max(coordinates - taken, coordinates / 4) / max(1, sum(matrices)))))

    def some(size: int, share: float) -> Tensor:
        count = min(size, max(1, round(share * size)))
        return torch.from_numpy(np.sort(random.choice(size, count, replace=False)))

    samples: SampledEntries = {}
    for name, parameter in trained.items():
        whole = id(parameter) in head
        if parameter.ndim <= 1:
            entries = some(parameter.numel(), 1.0 if whole else vector_share)
            samples[name] = Sample(entries, None, len(entries) / parameter.numel())
            continue
        height, width = parameter.flatten(1).shape
        if name in embedded:
            chosen = embedded[name][some(len(embedded[name]), row_share)]
            picked = some(width, columns / width)
            share = len(chosen) * len(picked) / (len(embedded[name]) * width)
            samples[name] = Sample(chosen, picked, share)
        else:
            rows, picked = some(height, 1.0 if whole else part), some(width, 1.0 if whole else part)
            samples[name] = Sample(rows, picked, len(rows) * len(picked) / parameter.numel())
    return samples
