"""How the outputs depend on the weights: per-example gradients on a random sample of each layer's coordinates.

A weight matrix is sampled in rows and columns, and an entry that was drawn with probability p counts 1/p times, so that
sums over entries are right on average. Inputs and back-propagated signals of a layer give all of its gradients, so one
forward pass and one backward pass per output are enough, and no Jacobian is formed by the framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from foretrain.core.errors import require
from foretrain.core.progress import Progress, tell
from foretrain.core.streams import stream
from foretrain.forecast.finetuning.classifier import Classifier

COORDINATES = 600_000  # of all matrices together
EMBEDDING_COLUMNS = 24  # of an embedding: all tokens that occur, so many of its columns
Sampled = dict[str, "Sample"]


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
        picked = parameter.detach()[self.rows]
        return (picked if self.columns is None else picked[:, self.columns]).reshape(-1)


@dataclass(frozen=True)
class Tangent:
    """Outputs and their gradients on the sampled coordinates at one point of weight space."""

    outputs: Float[Tensor, "row output"]
    jacobian: Float[Tensor, "row output coordinate"]
    shares: Float[Tensor, "coordinate"]  # probability with which a coordinate was drawn
    weights: Float[Tensor, "coordinate"]
    samples: Sampled
    left_out: tuple[str, ...]  # parameters of layers that are not understood


def linearise(
    classifier: Classifier, *, coordinates: int = COORDINATES, seed: int = 0, like: Tangent | None = None
) -> Tangent:
    """Outputs and sampled gradients of all rows at the current weights, on the same coordinates as `like`."""
    kinds = _layers(classifier.module)
    samples = like.samples if like else _samples(classifier, kinds, coordinates // classifier.outputs, seed)
    total = sum(sample.size for sample in samples.values())
    precision = classifier.head.weight.dtype
    jacobian = torch.zeros(len(classifier), classifier.outputs, total, dtype=precision)
    outputs = torch.zeros(len(classifier), classifier.outputs, dtype=precision)
    with classifier.restored():
        for parameter in classifier.module.parameters():
            parameter.requires_grad_(False)
        for block in classifier.blocks():
            outputs[block], gradients = _block(classifier, kinds, samples, block)
            place = 0
            for name, sample in samples.items():
                jacobian[block, :, place : place + sample.size] = gradients[name]
                place += sample.size
            tell(Progress(int(block[-1]) + 1, len(classifier), "reading the rows"))
    own = dict(classifier.module.named_parameters())
    shares = torch.cat([torch.full((sample.size,), sample.share, dtype=precision) for sample in samples.values()])
    weights = torch.cat([sample.of(own[name]) for name, sample in samples.items()])
    left = tuple(name for name in own if name not in samples)
    return Tangent(outputs, jacobian, shares, weights, samples, left)


def sampled(values: dict[str, Tensor], tangent: Tangent) -> Float[Tensor, "coordinate"]:
    """Values of all parameters on the sampled coordinates; 0 where a parameter has none."""
    parts = [
        sample.of(values[name]) if name in values else tangent.weights.new_zeros(sample.size)
        for name, sample in tangent.samples.items()
    ]
    return torch.cat(parts)


Kind = str  # "matrix", "transposed", "scale", "embedding"


def _layers(module: nn.Module) -> dict[str, Kind]:
    """The layers whose gradients follow from inputs and signals."""
    kinds: dict[str, Kind] = {}
    for name, layer in module.named_modules():
        own = dict(layer.named_parameters(recurse=False))
        if isinstance(layer, nn.Linear):
            kinds[name] = "matrix"
        elif type(layer).__name__ == "Conv1D" and "weight" in own and own["weight"].ndim == 2:
            kinds[name] = "transposed"
        elif isinstance(layer, nn.Embedding):
            kinds[name] = "embedding"
        elif "norm" in type(layer).__name__.lower() and "weight" in own and own["weight"].ndim == 1:
            kinds[name] = "scale"
    return kinds


def _samples(classifier: Classifier, kinds: dict[str, Kind], coordinates: int, seed: int) -> Sampled:
    random = stream("forecast/finetune", "coordinates", seed)
    layers = dict(classifier.module.named_modules())
    matrices = sum(_weight(layers[n]).numel() for n, k in kinds.items() if k in ("matrix", "transposed"))
    part = min(1.0, np.sqrt(coordinates / max(1, matrices)))
    used = classifier.inputs.get("input_ids")
    samples: Sampled = {}

    def some(size: int, share: float) -> Tensor:
        count = max(1, round(share * size))
        return torch.from_numpy(np.sort(random.choice(size, count, replace=False)))

    for name, kind in kinds.items():
        for key, parameter in layers[name].named_parameters(recurse=False):
            full = f"{name}.{key}" if name else key
            head = layers[name] is classifier.head
            if parameter.ndim == 1:
                samples[full] = Sample(torch.arange(len(parameter)), None, 1.0)
            elif kind == "embedding":
                small = parameter.shape[0] <= 1024 or used is None  # positions, segments: all rows
                rows = torch.arange(parameter.shape[0]) if small else torch.unique(used)
                columns = some(parameter.shape[1], min(1.0, EMBEDDING_COLUMNS / parameter.shape[1]))
                samples[full] = Sample(rows, columns, len(columns) / parameter.shape[1])
            else:
                rows = some(parameter.shape[0], 1.0 if head else part)
                columns = some(parameter.shape[1], 1.0 if head else part)
                samples[full] = Sample(rows, columns, len(rows) * len(columns) / parameter.numel())
    return samples


@contextmanager
def _noted(classifier: Classifier, kinds: dict[str, Kind], rows: int) -> Iterator[list[tuple[str, Tensor, Tensor]]]:
    """Name, input and output of every call of a layer during a forward pass that can be differentiated."""
    calls: list[tuple[str, Tensor, Tensor]] = []

    def note(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
        def hook(layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
            if isinstance(layer, nn.Embedding) and len(output) != rows:  # positions, which all rows share
                output = output.reshape(-1, *output.shape[-2:]).expand(rows, -1, -1).clone()
            if not output.requires_grad:
                output.requires_grad_(True)
            calls.append((name, given[0].detach(), output))
            return output.clone()  # an in-place activation must not change what is differentiated

        return hook

    layers = dict(classifier.module.named_modules())
    hooks = [layers[name].register_forward_hook(note(name)) for name in kinds]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _block(
    classifier: Classifier, kinds: dict[str, Kind], samples: Sampled, block: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Outputs [row, output], and for every sampled parameter the gradients [row, output, coordinate]."""
    with torch.enable_grad(), _noted(classifier, kinds, len(block)) as calls:
        outputs = classifier(block)
    require(
        outputs.shape == (len(block), classifier.outputs), "The model must give one row of logits per row of inputs."
    )
    ends = [output for _, _, output in calls]
    layers = dict(classifier.module.named_modules())
    found: dict[str, Tensor] = {}
    for o in range(classifier.outputs):
        more = o + 1 < classifier.outputs
        signals = torch.autograd.grad(outputs[:, o].sum(), ends, retain_graph=more, allow_unused=True)
        for (name, given, output), signal in zip(calls, signals, strict=True):
            if signal is None:
                continue
            for key, gradient in _gradients(kinds[name], layers[name], given, output.detach(), signal, samples, name):
                if key not in found:
                    found[key] = outputs.new_zeros(len(block), classifier.outputs, samples[key].size)
                found[key][:, o] += gradient
    for name, sample in samples.items():
        if name not in found:
            found[name] = outputs.new_zeros(len(block), classifier.outputs, sample.size)
    return outputs.detach(), found


def _gradients(
    kind: Kind, layer: nn.Module, given: Tensor, output: Tensor, signal: Tensor, samples: Sampled, name: str
) -> Iterator[tuple[str, Tensor]]:
    """Gradients [row, coordinate] of one output with respect to the sampled entries of one call of a layer."""
    rows = signal.shape[0]
    weight, bias = (f"{name}.{key}" if name else key for key in ("weight", "bias"))
    if kind == "embedding":
        tokens = given.reshape(-1, signal.shape[1]).expand(rows, -1).contiguous()
        yield weight, _embedded(samples[weight], tokens, signal.reshape(rows, tokens.shape[1], -1), layer)
        return
    signal = signal.reshape(rows, -1, signal.shape[-1])
    if bias in samples:
        yield bias, signal.sum(1)[:, samples[bias].rows]
    if kind == "scale":
        scale = _weight(layer).detach()
        own_bias: Any = getattr(layer, "bias", None)
        shift = 0.0 if own_bias is None else own_bias.detach()
        plain = ((output - shift) / torch.where(scale == 0, torch.ones_like(scale), scale)).reshape(signal.shape)
        yield weight, (signal * plain).sum(1)[:, samples[weight].rows]
        return
    given = given.reshape(rows, -1, given.shape[-1])
    sample = samples[weight]
    assert sample.columns is not None
    first, second = (signal, given) if kind == "matrix" else (given, signal)
    yield weight, torch.bmm(first[..., sample.rows].mT, second[..., sample.columns]).reshape(rows, -1)


def _weight(layer: nn.Module) -> Tensor:
    weight: Any = layer.weight
    return weight


def _embedded(sample: Sample, tokens: Tensor, signal: Tensor, layer: nn.Module) -> Tensor:
    """The signal of each position goes to the row of its token."""
    assert sample.columns is not None
    padding = getattr(layer, "padding_idx", None)
    place = torch.searchsorted(sample.rows, tokens)
    wanted = signal[..., sample.columns]
    if padding is not None:
        wanted = wanted * (tokens != padding).unsqueeze(-1)
    result = signal.new_zeros(len(tokens), len(sample.rows), len(sample.columns))
    return result.scatter_add_(1, place.unsqueeze(-1).expand_as(wanted), wanted).flatten(1)
