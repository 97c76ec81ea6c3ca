"""Mimetic initialisation (Trockman and Kolter 2023): attention that starts near the identity."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from foretrain.core.errors import require
from foretrain.core.streams import torch_stream
from foretrain.monitor.projections import projections_of


@torch.no_grad()
def mimetic_init(
    model: nn.Module,
    *,
    heads: int,
    query_key: tuple[float, float] = (0.7, 0.7),
    value_output: tuple[float, float] = (0.4, -0.4),
    seed: int = 1,
) -> nn.Module:
    """Start attention of a model anew, in place, so that its products are noise plus a multiple of the identity.

    A pair (α, β) stands for α·Z + β·I, where Z is a random d×d matrix with entries of variance 1/d. W_Q·W_Kᵀ of every
    head is the closest matrix of its rank, and Σ_h W_V·W_O is exact. The paper finds (0.7, 0.7) and (0.4, −0.4) in
    pretrained models. Needs as many heads of keys as of queries.
    """
    layers = dict(projections_of(dict(model.named_parameters()), heads))
    require(len(layers) > 0, "No attention layer with names that are known was found in this model.")
    for layer, matrices in layers.items():
        q, k, v, o = matrices.query, matrices.key, matrices.value, matrices.output
        width, per_head = q.shape[-2:]
        shared = [x for x in (k, v) if x.untyped_storage().data_ptr() not in _storages(model)]
        require(not shared, f"{layer} shares keys among heads, which mimetic initialisation does not cover.")
        random = torch_stream("patches/mimetic", seed, layer)
        for head in range(len(q)):
            left, right = _factors(*query_key, width, per_head, random)
            q[head].copy_(left)
            k[head].copy_(right)
        if o is not None and len(q) * per_head == width:
            left, right = _factors(*value_output, width, width, random)
            v.copy_(left.unflatten(1, (len(q), per_head)).permute(1, 0, 2))
            o.copy_(right.unflatten(1, (len(q), per_head)).permute(1, 2, 0))
    return model


def _storages(model: nn.Module) -> set[int]:
    return {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}


def _factors(alpha: float, beta: float, width: int, rank: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """[width, rank] each, whose product left·rightᵀ is the best approximation of α·Z + β·I."""
    noise = torch.randn(width, width, generator=random, dtype=torch.float64) / math.sqrt(width)
    U, S, V = torch.linalg.svd(alpha * noise + beta * torch.eye(width, dtype=torch.float64))
    root = S[:rank].sqrt()
    return U[:, :rank] * root, V[:rank].mT * root
