"""The inputs and back-propagated signals of every Linear and Embedding layer of a module: its part of a tangent kernel.

A layer is left out wherever this shortcut could be wrong, so that the caller takes the long way: if rows of the batch
see each other, if the batch is not the first axis, or if a weight is also used elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from foretrain.kernels.inputs import Inputs, call_on, row_count

_LARGEST = 1 << 24  # entries in one block of pairs of positions


@dataclass(frozen=True)
class Signal:
    """For one parameter: the inputs of its layer (None for a bias), and the signals that come back from the outputs."""

    inputs: Tensor | None  # [row, position, feature], or token numbers [row, position]
    signals: Tensor  # [output, row, position, unit]

    def gradient(self, mix: Tensor, vocab: int) -> Tensor:
        """The gradient of a weighted sum of the outputs with respect to the parameter, summed over rows."""
        signal = torch.tensordot(mix, self.signals, dims=1).flatten(0, 1)
        if self.inputs is None:
            return signal.sum(0)
        inputs = self.inputs.flatten(0, 1)
        if self.inputs.is_floating_point():
            return signal.mT @ inputs
        return signal.new_zeros(vocab, signal.shape[1]).index_add_(0, inputs, signal)

    def kernel(self, other: Signal) -> Tensor:
        """Σ over pairs of positions of (product of inputs)·(product of signals): [row, other row, output, output]."""
        if self.inputs is None or other.inputs is None:
            return torch.einsum("oiu,qju->ijoq", self.signals.sum(2), other.signals.sum(2))
        (_, n, t, units), (m, s) = self.signals.shape, other.signals.shape[1:3]
        if (
            self.inputs.is_floating_point() and t * s > self.inputs.shape[2] * units
        ):  # for long texts, forming the gradients is less work
            return torch.einsum("oifu,qjfu->ijoq", self._gradients(), other._gradients())
        step = max(1, _LARGEST // (t * m * s))
        return torch.cat([self._pairs(other, slice(i, i + step)) for i in range(0, n, step)])

    def _gradients(self) -> Tensor:
        assert self.inputs is not None
        return torch.einsum("itf,oitu->oifu", self.inputs, self.signals)

    def _pairs(self, other: Signal, rows: slice) -> Tensor:
        assert self.inputs is not None
        assert other.inputs is not None
        mine, signals = self.inputs[rows], self.signals[:, rows]
        if mine.is_floating_point():
            alike = torch.einsum("itf,jsf->ijts", mine, other.inputs)
        else:
            alike = (mine[:, None, :, None] == other.inputs[None, :, None, :]).to(signals.dtype)
        if alike.shape[2] == alike.shape[3] == 1:
            return alike * torch.einsum("oiu,qju->ijoq", signals[:, :, 0], other.signals[:, :, 0])
        both = [
            [(alike * torch.einsum("itu,jsu->ijts", one, two)).sum((2, 3)) for two in other.signals] for one in signals
        ]
        return torch.stack([torch.stack(line, dim=-1) for line in both], dim=-2)


def layer_signals(module: nn.Module, rows: Inputs) -> dict[str, Signal]:
    """The signals of every parameter whose whole gradient they give, by name."""
    layers = {name: m for name, m in module.named_modules() if isinstance(m, nn.Linear | nn.Embedding)}
    passed: list[tuple[str, Tensor, Tensor]] = []

    def note(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            if inputs:  # a layer whose input was given by name is left out
                passed.append((name, inputs[0].detach(), output))
            return output.clone()  # an in-place activation must not change what is differentiated

        return hook

    hooks = [layer.register_forward_hook(note(name)) for name, layer in layers.items()]
    try:
        with torch.enable_grad():
            count = row_count(rows)
            outputs = call_on(module, rows).reshape(count, -1)
    finally:
        for hook in hooks:
            hook.remove()
    passed = [one for one in passed if one[2].requires_grad]
    if not passed:
        return {}
    ends = [output for _, _, output in passed]
    apart = _rows_apart(outputs, ends)
    back = [torch.autograd.grad(outputs[:, o].sum(), ends, retain_graph=True, materialize_grads=True)
            for o in range(outputs.shape[1])]  # fmt: skip
    by_name: dict[str, tuple[Signal, Tensor]] = {}
    for name, layer in layers.items():
        calls = [k for k, one in enumerate(passed) if one[0] == name]
        if calls and all(apart[k] for k in calls):
            inputs, signals = _joined(
                layer, count, [passed[k][1] for k in calls], [[g[k] for g in back] for k in calls]
            )
            for key, parameter in layer.named_parameters(recurse=False):
                if parameter.requires_grad:
                    signal = Signal(inputs if key == "weight" else None, signals)
                    by_name[f"{name}.{key}" if name else key] = signal, parameter
    return _whole(by_name, outputs)


def _joined(layer: nn.Module, rows: int, inputs: list[Tensor], signals: list[list[Tensor]]) -> tuple[Tensor, Tensor]:
    """All calls of one layer as one: inputs [row, position, …] and signals [output, row, position, unit]."""
    embeds = isinstance(layer, nn.Embedding)
    put_in = torch.cat([i.reshape(rows, -1, *(() if embeds else i.shape[-1:])) for i in inputs], dim=1)
    came = torch.cat([torch.stack(s).reshape(len(s), rows, -1, s[0].shape[-1]) for s in signals], dim=2)
    if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
        came = came * (put_in != layer.padding_idx).unsqueeze(-1)
    return put_in, came


def _rows_apart(outputs: Tensor, ends: list[Tensor]) -> list[bool]:
    """For each layer: whether the first row's outputs depend on the first row of the layer alone."""
    mixed = outputs[0] @ _mix(outputs)
    first = torch.autograd.grad(mixed, ends, retain_graph=True, materialize_grads=True)
    return [g.shape[0] == len(outputs) and not bool(g[1:].any()) for g in first]


def _mix(outputs: Tensor) -> Tensor:
    """Fixed random weights, one per output. A plain sum may be constant, as after a softmax, and a single output may
    not depend on a weight that the others use."""
    drawn = torch.randn(outputs.shape[1], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return drawn.to(outputs)


def _whole(by_name: dict[str, tuple[Signal, Tensor]], outputs: Tensor) -> dict[str, Signal]:
    """Keep the parameters whose signals give the whole gradient: one that is tied, or used elsewhere, has more."""
    if not by_name:
        return {}
    parameters = [parameter for _, parameter in by_name.values()]
    mix = _mix(outputs)
    gradients = torch.autograd.grad((outputs @ mix).sum(), parameters, materialize_grads=True)
    kept = {}
    for (name, (signal, parameter)), whole in zip(by_name.items(), gradients, strict=True):
        near = 1e-3 * float(whole.abs().max()) + 1e-12
        if torch.allclose(signal.gradient(mix, len(parameter)), whole, rtol=1e-3, atol=near):
            kept[name] = signal
    return kept
