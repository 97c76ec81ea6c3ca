"""The tangent kernel of any differentiable network at its current weights: Θ(x, y) = ∂f(x)/∂θ · ∂f(y)/∂θ.

In a torch module, the gradient of a Linear layer is (signal from above) ⊗ (input), so its part of the kernel is a
product of two small Gram matrices. An Embedding layer works the same way, with a product of inputs that is 1 where
tokens match. Neither needs a Jacobian. Other layers with parameters, and networks given as functions, do. Jacobians are
formed for all rows at once by torch.func where it can (`vmap`), and otherwise row by row: an LSTM, or a Hugging Face
model whose masks depend on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call, jacrev, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from foretrain.core.errors import require
from foretrain.kernels.inputs import Inputs, checked_inputs, each_row, single_output, split_rows
from foretrain.kernels.layer_signals import layer_signals

Parameters = Mapping[str, Tensor]
Network = Callable[[Parameters, Any], Tensor]  # parameters and one input -> outputs [output]


def empirical_ntk(
    network: torch.nn.Module | Network,
    x: Inputs,
    y: Inputs | None = None,
    *,
    parameters: Parameters | None = None,
    chunk: int | None = None,
) -> Float[Tensor, "x y output output"]:
    """Θ between all rows of x and y (by default x itself), for every pair of outputs.

    `network` is a torch module that takes a batch, or a function of (parameters, one row) together with `parameters`.
    Rows are a tensor, or a dictionary of tensors that the network takes by name, such as a Hugging Face tokenizer
    returns (input_ids, attention_mask); then the outputs are the model's logits. A module with Dropout or BatchNorm
    must be in evaluation mode. To bound the memory, only `chunk` rows of x and `chunk` rows of y are combined at a
    time.
    """
    require(chunk is None or chunk >= 1, f"chunk must be at least 1; got {chunk}.")
    call, weights = _as_function(network, parameters)
    x = checked_inputs("x", x)
    others = x if y is None else checked_inputs("y", y)
    rows = []
    for block_rows in split_rows(x, chunk):
        blocks = [_block(network, call, weights, block_rows, other) for other in split_rows(others, chunk)]
        rows.append(torch.cat(blocks, dim=1))
    return torch.cat(rows)


def ntk_product(
    network: torch.nn.Module | Network,
    x: Inputs,
    vector: Float[Tensor, "y output"],
    y: Inputs | None = None,
    *,
    parameters: Parameters | None = None,
) -> Float[Tensor, "x output"]:
    """Θ(x, y)·vector, without forming Θ or a Jacobian: move the weights along the vector, and see the effect."""
    call, weights = _as_function(network, parameters)
    x = checked_inputs("x", x)
    others = x if y is None else checked_inputs("y", y)
    rows = vmap(call, in_dims=(None, 0))
    try:
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative and no rule for vmap
            (step,) = vjp(lambda w: rows(w, others), weights)[1](vector)
            outputs, pull = vjp(lambda w: rows(w, x), weights)[:2]
            # Jᵀu is linear in u, and its transpose is J: applied to the step without forward-mode rules.
            return vjp(lambda u: pull(u)[0], torch.zeros_like(outputs))[1](step)[0]
    except RuntimeError:  # an operation that torch.func cannot follow; if it is a real fault, the next lines meet it
        moved: Tensor | float = 0.0
        for row, weight in zip(each_row(others), vector, strict=True):
            moved = moved + weight @ _row_jacobian(call, weights, weights, row)
        return torch.stack([_row_jacobian(call, weights, weights, row) @ moved for row in each_row(x)])


def relative_movement(before: Tensor, after: Tensor) -> float:
    """‖Θ_after − Θ_before‖ / ‖Θ_before‖: how far training is from the lazy regime."""
    return float(torch.linalg.vector_norm(after - before) / torch.linalg.vector_norm(before))


def kernel_movement(network: Network, states: Iterable[Parameters], x: Tensor) -> list[float]:
    """How far the kernel on x has moved, relative to its norm, from the first state to each state."""
    kernels = [empirical_ntk(network, x, parameters=state) for state in states]
    return [relative_movement(kernels[0], kernel) for kernel in kernels]


def _as_function(
    network: torch.nn.Module | Network, parameters: Parameters | None
) -> tuple[Network, dict[str, Tensor]]:
    if not isinstance(network, torch.nn.Module):
        require(parameters is not None, "A network that is a function needs its weights; pass parameters=….")
        assert parameters is not None
        return network, {name: p.detach() for name, p in parameters.items()}
    require(parameters is None, "A module has its own weights; load them into it instead of passing parameters.")
    module = network
    for name, layer in module.named_modules():
        require(
            not (layer.training and _random_or_coupled(layer)),
            f"The layer {name or 'itself'!r} ({type(layer).__name__}) is in training mode, where outputs are random or "
            "depend on the batch, so there is no kernel; call module.eval() first.",
        )
    buffers = dict(module.named_buffers())

    def call(weights: Parameters, row: Any) -> Tensor:
        by_name = isinstance(row, dict)
        alone = {key: value.unsqueeze(0) for key, value in row.items()} if by_name else row.unsqueeze(0)
        state = {**weights, **buffers}
        returned = functional_call(module, state, (), alone) if by_name else functional_call(module, state, (alone,))
        return single_output(returned, 1).reshape(-1)

    return call, {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}


def _random_or_coupled(layer: torch.nn.Module) -> bool:
    """Whether a layer in training mode drops values or depends on the whole batch."""
    dropped = getattr(layer, "p", 0) if isinstance(layer, _DropoutNd) else getattr(layer, "dropout", 0)
    return isinstance(layer, _BatchNorm) or (isinstance(dropped, float | int) and dropped > 0)


def _block(
    network: torch.nn.Module | Network, call: Network, weights: dict[str, Tensor], x: Inputs, y: Inputs
) -> Tensor:
    """Θ between these rows: layer by layer where that is possible, with Jacobians for the rest."""
    total: Tensor | float = 0.0
    rest = dict(weights)
    if isinstance(network, torch.nn.Module):
        first = layer_signals(network, x)
        second = first if y is x else layer_signals(network, y)
        for name in first.keys() & second.keys() & weights.keys():
            total = total + first[name].kernel(second[name])
            del rest[name]
    if rest:
        jacobian = _jacobian(call, weights, rest, x)
        other = jacobian if y is x else _jacobian(call, weights, rest, y)
        total = total + torch.einsum("xop,yqp->xyoq", jacobian, other)
    assert isinstance(total, Tensor), "a network without weights has no kernel"
    return total


def _jacobian(call: Network, weights: dict[str, Tensor], blocks: dict[str, Tensor], rows: Inputs) -> Tensor:
    """∂f/∂(blocks): [row, output, parameter]."""

    def outputs(changed: dict[str, Tensor], row: Any) -> Tensor:
        return call({**weights, **changed}, row).reshape(-1)

    try:
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no rule for vmap
            jacobian = vmap(jacrev(outputs), in_dims=(None, 0))(blocks, rows)
    except RuntimeError:  # an operation that torch.func cannot follow; if it is a real fault, the next line meets it
        return torch.stack([_row_jacobian(call, weights, blocks, row) for row in each_row(rows)])
    return torch.cat([part.reshape(*part.shape[:2], -1) for part in jacobian.values()], dim=2)


def _row_jacobian(call: Network, weights: dict[str, Tensor], blocks: dict[str, Tensor], row: Any) -> Tensor:
    """∂f/∂(blocks) of one row, by one backward pass per output: [output, parameter]."""
    leaves = {name: block.detach().requires_grad_() for name, block in blocks.items()}
    with torch.enable_grad():
        outputs = call({**weights, **leaves}, row).reshape(-1)
    lines = [torch.autograd.grad(out, list(leaves.values()), retain_graph=True, materialize_grads=True)
             for out in outputs]  # fmt: skip
    return torch.stack([torch.cat([part.reshape(-1) for part in line]) for line in lines])
