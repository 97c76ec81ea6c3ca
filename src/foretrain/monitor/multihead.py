"""The queries and keys of nn.MultiheadAttention, computed again from the arguments of its function."""

from __future__ import annotations

import inspect
import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from foretrain.monitor.attention_calls import Products, wide_mask

_MULTIHEAD = inspect.signature(F.multi_head_attention_forward)


def multihead_products(*args: Any, **kwargs: Any) -> Products:
    """What multi_head_attention_forward computes its logits from; it is given [position, sample, width].

    Cross-attention is told by queries and keys that differ, not by their number.
    """
    call = _MULTIHEAD.bind(*args, **kwargs)
    call.apply_defaults()
    given = SimpleNamespace(**call.arguments)
    query, key, added = _projected(given)
    products = Products(
        query=query,
        key=key,
        factor=1 / math.sqrt(query.shape[-1]),
        same_tokens=_same_tokens(given.query, given.key),
        added_keys=added,
    )
    # for this hint torch drops the mask
    if given.is_causal and given.key_padding_mask is None and not given.need_weights:
        return Products(**{**vars(products), "causal": 0})
    return Products(**{**vars(products), "mask": _mask(given, added)})


def _same_tokens(query: Tensor, key: Tensor) -> bool | Tensor:
    """Whether keys are the same tokens as queries. If only their numbers can tell, these stay on the device."""
    if query is key:
        return True
    if query.shape != key.shape:
        return False
    return (query == key).all()


def _projected(given: SimpleNamespace) -> tuple[Tensor, Tensor, int]:
    """Queries and keys [sample, head, position, width], and how many keys at the end stand for no token."""
    query, key = (x[:, None] if given.query.ndim == 2 else x for x in (given.query, given.key))
    width, bias_k, bias = given.embed_dim_to_check, given.bias_k, given.in_proj_bias
    weights = (given.q_proj_weight, given.k_proj_weight)
    if given.in_proj_weight is not None and not given.use_separate_proj_weight:
        weights = given.in_proj_weight[:width], given.in_proj_weight[width : 2 * width]
    biases = (None, None) if bias is None else (bias[:width], bias[width : 2 * width])
    q, k = (
        F.linear(x.detach().float(), w.detach().float(), b if b is None else b.detach().float())
        for x, w, b in zip((query, key), weights, biases, strict=True)
    )
    if bias_k is not None:  # a learned key after all others
        k = torch.cat([k, bias_k.detach().float().expand(1, k.shape[1], -1)])
    if given.add_zero_attn:  # a key whose logits are zero
        k = F.pad(k, (0, 0, 0, 0, 0, 1))
    q, k = (x.unflatten(-1, (given.num_heads, -1)).permute(1, 2, 0, 3) for x in (q, k))
    return q, k, int(bias_k is not None) + int(given.add_zero_attn)


def _mask(given: SimpleNamespace, added_keys: int) -> Tensor | None:
    """The mask of the call and that of padded keys, together, to be added to logits."""
    mask = None if given.attn_mask is None else _to_add(given.attn_mask)
    if mask is not None and mask.ndim == 3:
        mask = mask.unflatten(0, (-1, given.num_heads))
    if given.key_padding_mask is not None:
        padding = _to_add(given.key_padding_mask)
        padding = padding[:, None, None] if padding.ndim == 2 else padding
        mask = padding if mask is None else mask + padding
    return None if mask is None else F.pad(mask, (0, added_keys))


def _to_add(mask: Tensor) -> Tensor:
    """A mask to be added to logits; a Boolean one of nn.MultiheadAttention is true where attention is forbidden."""
    if mask.dtype is torch.bool:
        return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -torch.inf)
    return wide_mask(mask)
