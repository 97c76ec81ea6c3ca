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
from foretrain.forecast.finetuning.classifier import Classifier

EMBEDDING_COLUMNS = 24  # of an embedding, at most
EMBEDDING_SHARE = 0.25  # of all coordinates, at most
Samples = dict[str, "Sample"]


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
                rows = torch.unique(given[0])
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


def choose(classifier: Classifier, looked_up: Mapping[str, Lookup], coordinates: int, seed: int) -> Samples:
    """About `coordinates` entries of the trained parameters."""
    random = stream("forecast/finetune", "coordinates", seed)
    own = trained_parameters(classifier.module)
    head = [id(parameter) for parameter in classifier.head.parameters()]
    embedded = {f"{name}.weight" if name else "weight": lookup for name, lookup in looked_up.items()}
    uses = numbers_of_uses(classifier.module)
    embedded = {name: lookup for name, lookup in embedded.items() if name in own and uses[id(own[name])] == 1}
    distinct = sum(len(lookup.rows) for lookup in embedded.values())
    columns_of_embeddings = int(np.clip(EMBEDDING_SHARE * coordinates / max(1, distinct), 1, EMBEDDING_COLUMNS))
    matrices = [p.numel() for name, p in own.items() if p.ndim > 1 and name not in embedded and id(p) not in head]
    part = float(min(1.0, np.sqrt(coordinates / max(1, sum(matrices)))))

    def some(size: int, count: int) -> Tensor:
        return torch.from_numpy(np.sort(random.choice(size, min(size, max(1, count)), replace=False)))

    samples: Samples = {}
    for name, parameter in own.items():
        if parameter.ndim <= 1:
            samples[name] = Sample(torch.arange(parameter.numel()), None, 1.0)
            continue
        height, width = parameter.flatten(1).shape
        if name in embedded:
            rows, columns = embedded[name].rows, some(width, columns_of_embeddings)
            samples[name] = Sample(rows, columns, len(columns) / width)
        else:
            share = 1.0 if id(parameter) in head else part
            rows, columns = some(height, round(share * height)), some(width, round(share * width))
            samples[name] = Sample(rows, columns, len(rows) * len(columns) / parameter.numel())
    return samples
