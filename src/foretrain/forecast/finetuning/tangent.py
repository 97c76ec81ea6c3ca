"""How the outputs depend on the weights: gradients of every row on a sample of the weights' entries.

Most layers have formulas that give the gradients of many rows at once. Whether a formula fits is checked on a few rows
against automatic differentiation, and in every block by how the layer is called; parameters that it does not fit, and
those without one, are differentiated one row at a time, which is slower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from foretrain.core.progress import Progress, tell
from foretrain.forecast.finetuning.classifier import HeadedModel
from foretrain.forecast.finetuning.layers import Layer, block_gradients, simple_layers
from foretrain.forecast.finetuning.samples import Lookup, SampledEntries, choose, lookups

COORDINATES = 700_000
CLOSE = 1e-2  # how far a formula may be from automatic differentiation, relative to the parameter's gradient
CHECKED_ROWS = 4
LARGEST_ALONE = 50_000_000  # entries of a parameter that is differentiated one row at a time


@dataclass(frozen=True)
class Tangent:
    """Outputs and their gradients on the sampled coordinates at one point of weight space."""

    outputs: Float[Tensor, "row output"]
    jacobian: Float[Tensor, "row output coordinate"]
    shares: Float[Tensor, "coordinate"]  # probability with which a coordinate was drawn
    weights: Float[Tensor, "coordinate"]
    samples: SampledEntries = field(default_factory=dict)
    looked_up: Mapping[str, Lookup] = field(default_factory=dict)
    one_by_one: tuple[str, ...] = ()  # parameters that no formula fits
    left_out: tuple[str, ...] = ()  # parameters that are too large for that: the forecast keeps them fixed


def linearise(
    classifier: HeadedModel,
    *,
    coordinates: int = COORDINATES,
    seed: int = 0,
    like: Tangent | None = None,
    looked_up: Mapping[str, Lookup] | None = None,
) -> Tangent:
    """Outputs and sampled gradients of all rows at the current weights, on the same coordinates as `like`.

    looked_up  what the embeddings look up for these rows (see `lookups`), if that is known already
    """
    if like is None:
        if looked_up is None:
            with lookups(classifier.module) as looked_up:
                classifier.features()
        samples = choose(classifier, looked_up, coordinates, seed)
        slow = _unexplained(classifier, samples, looked_up)
        parameters = dict(classifier.module.named_parameters())
        left = tuple(name for name in slow if parameters[name].numel() > LARGEST_ALONE)
        samples = {name: sample for name, sample in samples.items() if name not in left}
        slow = tuple(name for name in slow if name not in left)
    else:
        samples, looked_up, slow, left = like.samples, like.looked_up, like.one_by_one, like.left_out
    outputs, jacobian, slow = _gradients(classifier, samples, looked_up, slow)
    parameters = dict(classifier.module.named_parameters())
    shares = torch.cat([torch.full((sample.size,), sample.share, dtype=outputs.dtype) for sample in samples.values()])
    weights = sampled(parameters, samples)
    return Tangent(outputs, jacobian, shares, weights, samples, looked_up, slow, left)


def sampled(values: Mapping[str, Tensor], samples: SampledEntries) -> Float[Tensor, "coordinate"]:
    """Values of all parameters on the sampled coordinates."""
    return torch.cat([sample.of(values[name]).cpu() for name, sample in samples.items()])


def _gradients(
    classifier: HeadedModel, samples: SampledEntries, looked_up: Mapping[str, Lookup], slow: tuple[str, ...]
) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """Outputs, gradients, and the parameters that were differentiated one row at a time."""
    total = sum(sample.size for sample in samples.values())
    precision = classifier.head.weight.dtype
    jacobian = torch.zeros(len(classifier), classifier.outputs, total, dtype=precision)
    outputs = torch.zeros(len(classifier), classifier.outputs, dtype=precision)
    starts, place = {}, 0
    for name, sample in samples.items():
        starts[name], place = place, place + sample.size
    layers = _without(simple_layers(classifier.module, samples, looked_up), slow)
    mixed: set[str] = set()
    with classifier.restored():
        for name, parameter in classifier.module.named_parameters():
            parameter.requires_grad_(name in slow)
        for block in classifier.blocks():
            of_block, gradients, unusual = block_gradients(classifier, layers, samples, block)
            outputs[block] = of_block.cpu()
            mixed |= unusual
            if slow:
                gradients |= _one_by_one(classifier, samples, slow, block)
            for name, gradient in gradients.items():
                jacobian[block, :, starts[name] : starts[name] + samples[name].size] = gradient.cpu()
            tell(Progress(int(block[-1]) + 1, len(classifier), "reading the rows"))
    again = tuple(key for name in sorted(mixed) for key in _keys(layers[name]) if key is not None)
    if again:
        with classifier.restored():
            for name, parameter in classifier.module.named_parameters():
                parameter.requires_grad_(name in again)
            for block in classifier.blocks():
                for name, gradient in _one_by_one(classifier, samples, again, block).items():
                    jacobian[block, :, starts[name] : starts[name] + samples[name].size] = gradient.cpu()
    return outputs, jacobian, slow + again


def _one_by_one(
    classifier: HeadedModel, samples: SampledEntries, names: Sequence[str], block: Tensor
) -> dict[str, Tensor]:
    """Gradients [row, output, coordinate] by automatic differentiation, one row and output at a time."""
    parameters = dict(classifier.module.named_parameters())
    wanted = [parameters[name] for name in names]
    gradients = {name: wanted[0].new_zeros(len(block), classifier.outputs, samples[name].size) for name in names}
    for k, row in enumerate(block):
        with torch.enable_grad():
            singles = classifier(row[None])[0].unbind()
        for o in range(classifier.outputs):
            more = o + 1 < classifier.outputs
            if not singles[o].requires_grad:
                continue  # this row uses none of these parameters
            parts = torch.autograd.grad(singles[o], wanted, retain_graph=more, materialize_grads=True)
            for name, gradient in zip(names, parts, strict=True):
                gradients[name][k, o] = samples[name].of(gradient)
    return gradients


def _unexplained(classifier: HeadedModel, samples: SampledEntries, looked_up: Mapping[str, Lookup]) -> tuple[str, ...]:
    """The parameters for which no formula agrees with automatic differentiation on a few rows."""
    layers = simple_layers(classifier.module, samples, looked_up)
    block = torch.unique(torch.linspace(0, len(classifier) - 1, CHECKED_ROWS).long())
    names = list(samples)
    with classifier.restored():
        for parameter in classifier.module.parameters():
            parameter.requires_grad_(False)
        _, fast, unusual = block_gradients(classifier, layers, samples, block)
        fast = {key: value for key, value in fast.items() if not any(key in _keys(layers[name]) for name in unusual)}
        for name, parameter in classifier.module.named_parameters():
            parameter.requires_grad_(name in samples)
        exact = _one_by_one(classifier, samples, names, block)
    whole = float(torch.stack([gradient.square().sum() for gradient in exact.values()]).sum().sqrt())
    return tuple(
        name
        for name in names
        if name not in fast
        or float((fast[name] - exact[name]).norm()) > CLOSE * float(exact[name].norm()) + 1e-5 * whole
    )


def _keys(layer: Layer) -> tuple[str | None, str | None]:
    return layer.weight, layer.bias


def _without(layers: Mapping[str, Layer], slow: Sequence[str]) -> dict[str, Layer]:
    """The layers' parameters for which the formulas hold."""
    kept = {}
    for name, layer in layers.items():
        weight = None if layer.weight in slow else layer.weight
        bias = None if layer.bias in slow else layer.bias
        if weight is not None or bias is not None:
            kept[name] = Layer(layer.module, layer.kind, weight, bias, layer.factor)
    return kept
