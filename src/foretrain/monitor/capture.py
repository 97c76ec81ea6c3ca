"""Sees every attention call of a model while it is active, whoever wrote the model, and leaves the computation alone.

It is a mode of torch that is asked before each torch function is called. It catches

    scaled_dot_product_attention   most models, also those that import it by name
    softmax of 4-D tensors         eager attention, soft caps, hand-written code; of 3-D ones if [sample, query, query]
    multi_head_attention_forward   nn.MultiheadAttention, whose inner call cannot be seen: logits are computed again

and passes everything on unchanged. What it computes for itself is outside autograd and autocast and draws no random
numbers.

Two things to know. Every softmax over the last of four axes is taken for attention [sample, head, query, key]; one
that is something else, such as a softmax over the width of an image, is recorded too, under the name of the module
that computes it. And in evaluation nn.MultiheadAttention and nn.TransformerEncoder have a fast path, which torch does
not take while any such mode is active. The usual path, which is read instead, differs in the last bits, and does not
set the output at padded positions to zero. In training, and in all other models, not a bit differs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from foretrain.monitor.guard import Guard, no_guard
from foretrain.monitor.statistics import ELEMENTS_AT_ONCE, AttentionCall, allowed_keys, row_sums

_MULTIHEAD = inspect.signature(F.multi_head_attention_forward)
_SOFTMAX = frozenset({torch.softmax, torch.Tensor.softmax, F.softmax, torch.special.softmax})


class AttentionReader(TorchFunctionMode):
    """Calls `record(statistics [statistic, head])` for every attention call made while it is active."""

    def __init__(
        self,
        record: Callable[[Tensor], None],
        is_cross: Callable[[], bool] = lambda: False,  # whether keys are other tokens than queries
        guard: Guard = no_guard,
    ) -> None:
        super().__init__()
        self.record, self.is_cross, self.guard = record, is_cross, guard

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        read = reader_of(func, args, kwargs)
        if read is not None:
            with self.guard("read attention"), torch.no_grad(), torch.autocast(_device(args, kwargs), enabled=False):
                calls = read(*args, **kwargs)
                if self.is_cross():
                    calls = (replace(call, same_tokens=False) for call in calls)
                blocks = [row_sums(call) for call in calls]
                if blocks:
                    self.record(reduce(add, blocks).statistics())
        return func(*args, **kwargs)


def reader_of(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Iterator[AttentionCall]] | None:
    if func is F.scaled_dot_product_attention:
        return _of_products
    if func is F.multi_head_attention_forward:
        return _of_multihead
    if func in _SOFTMAX:
        return _of_softmax
    return None


def _of_products(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    added_keys: int = 0,
    **_: Any,
) -> Iterator[AttentionCall]:
    """The logits that scaled_dot_product_attention computes inside, a block of samples at a time."""
    query, key = query.detach().float(), key.detach().float()
    if query.ndim == key.ndim == 3:  # [sample, query, width]: a single head, or heads that are counted as samples
        query, key = query[:, None], key[:, None]
        attn_mask = attn_mask[:, None] if attn_mask is not None and attn_mask.ndim == 3 else attn_mask
    if query.ndim != 4 or key.ndim != 4:
        return
    key = key.expand(query.shape[0], *key.shape[1:]) if len(key) == 1 else key
    query = query.expand(key.shape[0], *query.shape[1:]) if len(query) == 1 else query
    if key.shape[1] != query.shape[1]:  # grouped heads: several queries share a key
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    queries, keys = query.shape[-2], key.shape[-2]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    mask = None
    if is_causal:
        mask = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril()
    elif attn_mask is not None:
        mask = attn_mask.detach()
    for samples in _blocks(query.shape[0], query.shape[1] * queries * keys):
        logits = factor * (query[samples] @ key[samples].mT)
        allowed = torch.ones((), dtype=torch.bool, device=logits.device)
        if mask is not None:
            part = mask[samples] if mask.ndim == 4 and mask.shape[0] > 1 else mask
            allowed = part if part.dtype is torch.bool else allowed_keys(_wide(part))
            logits = logits.masked_fill(~part, -torch.inf) if part.dtype is torch.bool else logits + _wide(part)
        yield AttentionCall(logits, allowed.expand_as(logits), queries == keys - added_keys, added_keys)


def _of_softmax(input: Tensor, dim: int | None = None, *_: Any, **__: Any) -> Iterator[AttentionCall]:
    """The logits that a hand-written softmax is given: over the last of four axes, or of three if the last two are of
    the same length, as for a single head."""
    if input.ndim == 3 and dim in (-1, 2) and input.shape[-1] == input.shape[-2] > 1:
        input, dim = input[:, None], -1
    if input.ndim == 4 and dim in (-1, 3) and input.is_floating_point() and min(input.shape) > 0:
        logits = input.detach()
        for samples in _blocks(len(logits), logits[0].numel()):
            block = logits[samples]
            yield AttentionCall(block, allowed_keys(block), same_tokens=block.shape[-2] == block.shape[-1])


def _of_multihead(query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> Iterator[AttentionCall]:
    """As below, and cross-attention is told by queries and keys that differ, not by their number."""
    same = query is key or (query.shape == key.shape and torch.equal(query, key))
    calls = _multihead_logits(query, key, *args, **kwargs)
    yield from calls if same else (replace(call, same_tokens=False) for call in calls)


def _multihead_logits(*args: Any, **kwargs: Any) -> Iterator[AttentionCall]:
    """The logits of nn.MultiheadAttention, computed again from its arguments; [position, sample, width]."""
    call = _MULTIHEAD.bind(*args, **kwargs)
    call.apply_defaults()
    given = SimpleNamespace(**call.arguments)
    query, key = (x[:, None] if given.query.ndim == 2 else x for x in (given.query, given.key))
    width, bias_k = given.embed_dim_to_check, given.bias_k
    weights = (given.q_proj_weight, given.k_proj_weight)
    if given.in_proj_weight is not None and not given.use_separate_proj_weight:
        weights = given.in_proj_weight[:width], given.in_proj_weight[width : 2 * width]
    bias = given.in_proj_bias
    biases = (None, None) if bias is None else (bias[:width], bias[width : 2 * width])
    q, k = (
        F.linear(x.detach().float(), w.detach().float(), b if b is None else b.detach().float())
        for x, w, b in zip((query, key), weights, biases, strict=True)
        if w is not None
    )
    if bias_k is not None:  # a learned key after all others
        k = torch.cat([k, bias_k.detach().float().expand(1, k.shape[1], -1)])
    if given.add_zero_attn:  # a key whose logits are zero
        k = F.pad(k, (0, 0, 0, 0, 0, 1))
    added = int(bias_k is not None) + int(given.add_zero_attn)
    q, k = (x.unflatten(-1, (given.num_heads, -1)).permute(1, 2, 0, 3) for x in (q, k))  # [sample, head, position, e]
    if (
        given.is_causal and given.key_padding_mask is None and not given.need_weights
    ):  # torch drops the mask for this hint
        yield from _of_products(q, k, k, is_causal=True, added_keys=added)
        return
    mask = None if given.attn_mask is None else _added(given.attn_mask)
    if mask is not None and mask.ndim == 3:
        mask = mask.unflatten(0, (-1, given.num_heads))
    if given.key_padding_mask is not None:
        padding = _added(given.key_padding_mask)
        padding = padding[:, None, None] if padding.ndim == 2 else padding
        mask = padding if mask is None else mask + padding
    if mask is not None:
        mask = F.pad(mask, (0, added))
    yield from _of_products(q, k, k, attn_mask=mask, added_keys=added)


def _added(mask: Tensor) -> Tensor:
    """A mask to be added to logits; a Boolean one of nn.MultiheadAttention is true where attention is forbidden."""
    if mask.dtype is torch.bool:
        return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -torch.inf)
    return _wide(mask)


def _wide(mask: Tensor) -> Tensor:
    """A mask in float32, where the least number of float16 would no longer look like a mask."""
    return mask.detach().float().masked_fill(mask < torch.finfo(mask.dtype).min / 4, -torch.inf)


def _blocks(samples: int, elements: int) -> Iterator[slice]:
    at_once = max(1, ELEMENTS_AT_ONCE // max(1, elements))
    return (slice(first, first + at_once) for first in range(0, samples, at_once))


def _device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    return tensors[0].device.type if tensors else "cpu"
