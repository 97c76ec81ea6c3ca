"""Gradients of all rows at once, from what goes into a layer and the signal that comes back to it.

The gradient of a Linear for one row is the sum over its positions of signal × input, so one forward pass and one
backward pass per output give those of all rows in a block. What a layer really does is checked elsewhere: see
`foretrain.forecast.finetuning.tangent`, which falls back to one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from foretrain.core.errors import require
from foretrain.forecast.finetuning.classifier import HeadedModel
from foretrain.forecast.finetuning.samples import Lookup, Sample, SampledEntries, numbers_of_uses

Kind = Literal["matrix", "transposed", "scale", "embedding"]


@dataclass(frozen=True)
class Layer:
    """A layer whose gradients follow from its inputs and signals; the names of its parameters, if they are sampled."""

    module: nn.Module
    kind: Kind
    weight: str | None
    bias: str | None
    factor: float = 1.0  # of an embedding


def simple_layers(module: nn.Module, samples: SampledEntries, looked_up: Mapping[str, Lookup]) -> dict[str, Layer]:
    """The layers that look like Linear, Embedding or a norm, by name. Parameters of two layers are left out."""
    uses = numbers_of_uses(module)
    simple: dict[str, Layer] = {}
    for name, layer in module.named_modules():
        kind = _kind(layer, name in looked_up)
        parameters = {
            key: full
            for key, parameter in layer.named_parameters(recurse=False)
            if (full := f"{name}.{key}" if name else key) in samples and uses[id(parameter)] == 1
        }
        if kind is not None and parameters:
            factor = looked_up[name].factor if name in looked_up else 1.0
            simple[name] = Layer(layer, kind, parameters.get("weight"), parameters.get("bias"), factor)
    return simple


def _kind(layer: nn.Module, is_lookup: bool) -> Kind | None:
    weight: Any = dict(layer.named_parameters(recurse=False)).get("weight")
    if isinstance(layer, nn.Linear):
        return "matrix"
    if isinstance(layer, nn.Embedding):
        return "embedding" if is_lookup else None
    if type(layer).__name__ == "Conv1D" and weight is not None and weight.ndim == 2:
        return "transposed"
    if "norm" in type(layer).__name__.lower() and weight is not None and weight.ndim == 1:
        return "scale"
    return None


def block_gradients(
    classifier: HeadedModel, layers: Mapping[str, Layer], samples: SampledEntries, block: Tensor
) -> tuple[Tensor, dict[str, Tensor], set[str]]:
    """Outputs [row, output], and for every parameter of the layers the gradients [row, output, coordinate].

    The third result names layers that were called in a way that the formulas do not cover: on some of the rows only, as
    experts are, or with rows and positions mixed.
    """
    unusual: set[str] = set()
    positions = max((v.shape[1] for v in classifier.rows(block).values() if v.ndim > 1), default=1)
    with torch.enable_grad(), _noted(layers, len(block), positions, unusual) as calls:
        outputs = classifier(block)
    require(
        outputs.shape == (len(block), classifier.outputs), "The model must give one row of logits per row of inputs."
    )
    ends = [output for _, _, output in calls]
    parameters = [key for layer in layers.values() for key in (layer.weight, layer.bias) if key is not None]
    gradients = {key: outputs.new_zeros(len(block), classifier.outputs, samples[key].size) for key in parameters}
    for o in range(classifier.outputs if ends else 0):
        more = o + 1 < classifier.outputs
        with torch.enable_grad():
            total = outputs[:, o].sum()
        signals = torch.autograd.grad(total, ends, retain_graph=more, allow_unused=True)
        for (name, given, output), signal in zip(calls, signals, strict=True):
            if signal is not None:
                for key, gradient in _gradients(layers[name], given, output.detach(), signal, samples, len(block)):
                    gradients[key][:, o] += gradient
    return outputs.detach(), gradients, unusual


@contextmanager
def _noted(
    layers: Mapping[str, Layer], rows: int, positions: int, unusual: set[str]
) -> Iterator[list[tuple[str, Tensor, Tensor]]]:
    """Name, input and output of every call of a layer during a forward pass that can be differentiated."""
    calls: list[tuple[str, Tensor, Tensor]] = []

    def note(name: str) -> Callable[[nn.Module, tuple[Any, ...], Tensor], Tensor | None]:
        def hook(layer: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor | None:
            embedding, scale = isinstance(layer, nn.Embedding), layers[name].kind == "scale"
            if (
                not given
                or not isinstance(given[0], Tensor)
                or output.ndim < 2
                or (embedding and output.ndim != 3)
                or len(output) not in ((rows, 1) if embedding else (rows, rows * positions))
                or (scale and output.shape[-1] != len(_weight(layer)))
            ):
                unusual.add(name)
                return None
            if embedding and len(output) != rows:
                output = output.expand(rows, -1, -1).clone()  # positions, which all rows share
            if not output.requires_grad:
                output.requires_grad_(True)
            calls.append((name, given[0].detach(), output))
            return output.clone()  # an in-place activation must not change what is differentiated

        return hook

    hooks = [layer.module.register_forward_hook(note(name)) for name, layer in layers.items()]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _gradients(
    layer: Layer, given: Tensor, output: Tensor, signal: Tensor, samples: SampledEntries, rows: int
) -> Iterator[tuple[str, Tensor]]:
    """Gradients [row, coordinate] of one output with respect to the sampled entries, from one call of a layer."""
    if layer.kind == "embedding":
        assert layer.weight is not None
        tokens = given.reshape(-1, signal.shape[1]).expand(rows, -1).contiguous()
        scaled = layer.factor * signal.reshape(rows, tokens.shape[1], -1)
        yield layer.weight, _embedded(samples[layer.weight], tokens, scaled, layer.module)
        return
    signal = signal.reshape(rows, -1, signal.shape[-1])  # some models flatten rows and positions
    if layer.bias is not None:
        yield layer.bias, signal.sum(1)[:, samples[layer.bias].rows]
    if layer.weight is None:
        return
    sample = samples[layer.weight]
    if layer.kind == "scale":
        own_weight, own_bias = _weight(layer.module), _tensor(layer.module, "bias")
        shift = 0.0 if own_bias is None else own_bias
        scale = torch.where(own_weight == 0, torch.ones_like(own_weight), own_weight)
        plain = ((output - shift) / scale).reshape(signal.shape)
        yield layer.weight, (signal * plain).sum(1)[:, sample.rows]
        return
    given = given.reshape(rows, -1, given.shape[-1])
    assert sample.columns is not None
    first, second = (signal, given) if layer.kind == "matrix" else (given, signal)
    yield layer.weight, torch.bmm(first[..., sample.rows].mT, second[..., sample.columns]).reshape(rows, -1)


def _weight(layer: nn.Module) -> Tensor:
    weight = _tensor(layer, "weight")
    assert weight is not None
    return weight


def _tensor(layer: nn.Module, name: str) -> Tensor | None:
    value: Any = getattr(layer, name, None)
    return None if value is None else value.detach()


def _embedded(sample: Sample, tokens: Tensor, signal: Tensor, layer: nn.Module) -> Tensor:
    """The signal of each position goes to the row of its token."""
    assert sample.columns is not None
    padding = getattr(layer, "padding_idx", None)
    rows = sample.rows.to(tokens.device)
    place = torch.searchsorted(rows, tokens).clamp(max=len(rows) - 1)
    followed = rows[place] == tokens
    wanted = signal[..., sample.columns] * followed.unsqueeze(-1)
    if padding is not None:
        wanted = wanted * (tokens != padding).unsqueeze(-1)
    result = signal.new_zeros(len(tokens), len(sample.rows), len(sample.columns))
    return result.scatter_add_(1, place.unsqueeze(-1).expand_as(wanted), wanted).flatten(1)
