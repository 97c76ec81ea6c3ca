"""The tangent kernel of any differentiable network at its present weights: Θ(x, y) = ∂f(x)/∂θ · ∂f(y)/∂θ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

Parameters = Mapping[str, Tensor]
Network = Callable[[Parameters, Any], Tensor]  # parameters and one input -> outputs [output]


def empirical_ntk(
    network: torch.nn.Module | Network,
    x: Tensor,
    y: Tensor | None = None,
    *,
    parameters: Parameters | None = None,
    chunk: int | None = None,
) -> Float[Tensor, "x y output output"]:
    """Θ between all rows of x and of y (by default x itself), for every pair of outputs.

    `network` is a torch module, or a function of (parameters, one row) with its `parameters`. Gradients are formed
    block by block of parameters, so that memory is inputs × outputs × the largest block; `chunk` inputs at a time
    bound it further.
    """
    call, weights = _as_function(network, parameters)
    total: Tensor | float = 0.0
    for name in weights:
        first = _jacobian(call, weights, name, x, chunk)
        second = first if y is None else _jacobian(call, weights, name, y, chunk)
        total = total + torch.einsum("xop,yqp->xyoq", first, second)
    assert isinstance(total, Tensor)
    return total


def relative_movement(before: Tensor, after: Tensor) -> float:
    """‖Θ_after − Θ_before‖ / ‖Θ_before‖: how far training has left the lazy regime."""
    return float(torch.linalg.vector_norm(after - before) / torch.linalg.vector_norm(before))


def _as_function(
    network: torch.nn.Module | Network, parameters: Parameters | None
) -> tuple[Network, dict[str, Tensor]]:
    if not isinstance(network, torch.nn.Module):
        assert parameters is not None, "a function needs its parameters"
        return network, {name: p.detach() for name, p in parameters.items()}
    module = network
    buffers = dict(module.named_buffers())

    def call(weights: Parameters, row: Tensor) -> Tensor:
        return functional_call(module, {**weights, **buffers}, (row.unsqueeze(0),)).reshape(-1)

    return call, {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}


def _jacobian(call: Network, weights: dict[str, Tensor], name: str, rows: Tensor, chunk: int | None) -> Tensor:
    """∂f/∂(one block): [row, output, parameter]."""

    def outputs(block: Tensor, row: Tensor) -> Tensor:
        return call({**weights, name: block}, row).reshape(-1)

    jacobian = vmap(jacrev(outputs), in_dims=(None, 0), chunk_size=chunk)(weights[name], rows)
    return jacobian.flatten(2)
