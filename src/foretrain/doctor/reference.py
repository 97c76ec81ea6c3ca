"""What must come out, from the definitions, in float64 on the CPU: nothing here is shared with what is examined."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from foretrain.doctor.attention_layer import HEADS, MODULE, PER_HEAD, WIDTH, AttentionLayer

RATE = 0.3  # of the one update: large, so that the weights move by more than their rounding
Measures = dict[str, dict[str, float]]


def attention(
    logits: Float[Tensor, "sample head query key"], allowed: Bool[Tensor, "sample head query key"]
) -> dict[str, list[float]]:
    """The statistics of attention by head. A query counts if it may attend to itself."""
    weights = logits.masked_fill(~allowed, -torch.inf).softmax(-1)
    entropy = -torch.where(weights > 0, weights * weights.log(), 0.0).sum(-1)
    counts = allowed.diagonal(dim1=-2, dim2=-1)
    keys = allowed.sum(-1)
    choice = counts & (keys > 1)

    def mean(values: Tensor, rows: Tensor) -> list[float]:
        return ((values * rows).sum((0, 2)) / rows.sum((0, 2))).tolist()

    seen = logits.masked_fill(~(allowed & counts[..., None]), -torch.inf)
    return {
        "entropy": mean(entropy, counts),
        "relative_entropy": mean(entropy / keys.clamp(min=2).double().log(), choice),
        "first_token": mean(weights[..., 0], counts),
        "self_attention": mean(weights.diagonal(dim1=-2, dim2=-1), counts),
        "largest_logit": seen.amax((0, 2, 3)).tolist(),
    }


def weights(layer: AttentionLayer, x: Tensor) -> Measures:
    """One step of plain gradient descent: gradient and update of every matrix, and norm and ranks after it."""
    layer = AttentionLayer(layer.kind).double()
    loss_of(layer(x)).backward()
    measures: Measures = {}
    for name, W in layer.named_parameters():
        assert W.grad is not None
        gradient = float(W.grad.norm())
        ratio = RATE * gradient / float(W.detach().norm())
        measures[name] = {**spectrum(W.detach() - RATE * W.grad), "gradient_norm": gradient, "update_ratio": ratio}
    return measures


def spectrum(W: Tensor) -> dict[str, float]:
    """Norm and ranks from all singular values."""
    values = torch.linalg.svdvals(W.double())
    shares = values / values.sum()
    return {
        "norm": float(values.square().sum().sqrt()),
        "stable_rank": float(values.square().sum() / values[0].square()),
        "effective_rank": float(torch.exp(-(shares * shares.log()).sum())),
    }


def identity(layer: AttentionLayer) -> dict[str, list[float]]:
    """The identity's share of W_Q·W_Kᵀ and W_V·W_O in every head, from the products themselves."""
    matrices: Mapping[str, Tensor] = {name: W.detach().double() for name, W in layer.named_parameters()}
    if layer.kind == MODULE:
        q, k, v = matrices["attention.in_proj_weight"].chunk(3)
        o = matrices["attention.out_proj.weight"]
    else:
        q, k, v, o = (matrices[f"{name}_proj.weight"] for name in "qkvo")
    shares: dict[str, list[float]] = {"query_key": [], "value_output": []}
    for head in range(HEADS):
        rows, shared = _rows(head), _rows(head * layer.key_heads // HEADS)
        shares["query_key"].append(_share(q[rows].mT @ k[shared]))
        shares["value_output"].append(_share(v[shared].mT @ o[:, rows].mT))
    return shares


def loss_of(output: Tensor) -> Tensor:
    """A loss that moves every matrix."""
    return (output - 1).square().mean()


def _rows(head: int) -> slice:
    return slice(head * PER_HEAD, (head + 1) * PER_HEAD)


def _share(product: Tensor) -> float:
    return float(product.trace() / (math.sqrt(min(PER_HEAD, WIDTH)) * product.norm()))
