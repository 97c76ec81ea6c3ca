"""Which contexts make a neuron fire: a pass over the text that keeps, for every neuron, the positions where it is
largest, and for every position, what the token there attends to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor, nn

from foretrain.core.errors import InputError, require
from foretrain.core.progress import Progress, tell
from foretrain.language.attention_weights import attention_weights_of
from foretrain.language.mlp_layers import MlpLayer
from foretrain.language.models import logits_of

FIRST = 4  # positions of a window before this one have hardly any context, and do not count
ATTENDED = 8  # attended tokens that are kept for every position
BATCH = 8  # windows at once


@dataclass
class TopContexts:
    """For every neuron the windows where it is largest, best first; each window counts once, at its best position."""

    values: Float[Tensor, "neuron context"]
    windows: Int[Tensor, "neuron context"]
    positions: Int[Tensor, "neuron context"]

    @classmethod
    def empty(cls, neurons: int, contexts: int) -> TopContexts:
        nowhere = torch.full((neurons, contexts), -1, dtype=torch.int64)
        return cls(torch.full((neurons, contexts), -torch.inf), nowhere, nowhere.clone())

    def add(self, activations: Float[Tensor, "window token neuron"], first_window: int) -> None:
        """Take in some more windows."""
        values, positions = activations[:, FIRST:].max(dim=1)  # [window, neuron]
        numbers = torch.arange(len(values))[:, None].expand_as(values) + first_window
        merged = torch.cat([self.values, values.T.float()], dim=1)
        kept = merged.topk(self.values.shape[1], dim=1)
        self.values = kept.values
        self.windows = torch.cat([self.windows, numbers.T], dim=1).gather(1, kept.indices)
        self.positions = torch.cat([self.positions, positions.T + FIRST], dim=1).gather(1, kept.indices)


@dataclass(frozen=True)
class LayerContexts:
    """What one layer's neurons fire for, and what every position of the text attends to there.

    Attention is the mean over heads. The token itself and the first of the window, on which attention rests when it has
    nothing to look for, are left out, and the rest is made to sum to 1.
    """

    layer: MlpLayer
    values: Float[ndarray, "neuron context"]  # activations, largest first
    windows: Int[ndarray, "neuron context"]
    positions: Int[ndarray, "neuron context"]
    attended: Int[ndarray, "window token most"]  # positions, the most attended first
    weights: Float[ndarray, "window token most"]
    mixtures: Float[ndarray, "window token dimension"]  # attention-weighted sums of token vectors, in half precision


def read_contexts(
    model: nn.Module,
    windows: Int[Tensor, "window token"],
    layers: Sequence[MlpLayer],
    token_vectors: Float[Tensor, "vocabulary dimension"],
    *,
    contexts: int,
) -> list[LayerContexts]:
    """Run the model over the windows once. Memory grows with the text and the neurons, not with their product."""
    length = windows.shape[1]
    require(length > FIRST + 1, f"Windows must have more than {FIRST + 1} tokens; got {length}.")
    require(len(windows) >= contexts, f"{contexts} contexts per neuron need as many windows; got {len(windows)}.")
    blocks = [layer.block for layer in layers]
    tops: dict[str, TopContexts] = {}
    rows: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {block: [] for block in blocks}
    was_training = model.training
    model.eval()
    try:
        for first in range(0, len(windows), BATCH):
            batch = windows[first : first + BATCH]
            tell(Progress(first, len(windows), f"reading window {first + 1} of {len(windows)}", inner=True))
            with torch.no_grad(), _inputs_of(model, layers) as inputs, attention_weights_of(model, blocks) as attention:
                _run(model, batch)
            for layer in layers:
                activations = _by_position(inputs[layer.block], batch, layer)
                top = tops.setdefault(layer.block, TopContexts.empty(activations.shape[-1], contexts))
                top.add(activations, first)
                weights = to_others(_attention_in(layer, attention))
                most = weights.topk(min(ATTENDED, length), dim=-1)
                mixtures = weights @ token_vectors[batch]
                rows[layer.block].append((most.indices.to(torch.int32), most.values, mixtures.half()))
    finally:
        model.train(was_training)
    return [_collected(layer, tops[layer.block], rows[layer.block]) for layer in layers]


def to_others(weights: Float[Tensor, "window query key"]) -> Float[Tensor, "window query key"]:
    """Attention to tokens other than the token itself and the first, as shares of their sum."""
    others = weights.clone()
    others[..., 0] = 0.0
    others.diagonal(dim1=-2, dim2=-1).zero_()
    return others / others.sum(-1, keepdim=True).clamp(min=1e-12)


def _by_position(hidden: Tensor, batch: Tensor, layer: MlpLayer) -> Tensor:
    """The neurons as [window, token, neuron]; OPT has windows and tokens as one axis."""
    require(
        hidden.numel() == batch.numel() * hidden.shape[-1],
        f"The input of {layer.down} has the shape {tuple(hidden.shape)}, which does not have a row for each of "
        f"{batch.shape[0]} × {batch.shape[1]} tokens.",
    )
    return hidden.reshape(*batch.shape, -1)


def _collected(layer: MlpLayer, top: TopContexts, rows: Sequence[tuple[Tensor, Tensor, Tensor]]) -> LayerContexts:
    attended, weights, mixtures = (torch.cat(parts).numpy() for parts in zip(*rows, strict=True))
    values, windows, positions = (part.numpy() for part in (top.values, top.windows, top.positions))
    return LayerContexts(layer, values, windows, positions, attended, weights, mixtures)


class _Enough(Exception):
    """Raised when the last layer that is asked for has run: what comes after it is not needed."""


def _run(model: nn.Module, batch: Tensor) -> None:
    with suppress(_Enough):
        logits_of(model, batch)


def _attention_in(layer: MlpLayer, attention: dict[str, Tensor]) -> Tensor:
    for name, weights in attention.items():
        if name == layer.block or name.startswith(f"{layer.block}."):
            return weights
    raise InputError(f"The attention of {layer.block} cannot be read: it is computed in a way that is not known here.")


@contextmanager
def _inputs_of(model: nn.Module, layers: Sequence[MlpLayer]) -> Iterator[dict[str, Tensor]]:
    """What enters the down-projections, by block, during a forward pass, which ends after the last of these layers."""
    inputs: dict[str, Tensor] = {}
    handles = []
    for layer in layers:

        def keep(_: nn.Module, args: tuple[Tensor, ...], block: str = layer.block) -> None:
            inputs[block] = args[0].detach()

        handles.append(model.get_submodule(layer.down).register_forward_pre_hook(keep))

    def stop(*_: object) -> None:
        raise _Enough

    last = max(layers, key=lambda layer: layer.index)
    handles.append(model.get_submodule(last.block).register_forward_hook(stop))
    try:
        yield inputs
    finally:
        for handle in handles:
            handle.remove()
