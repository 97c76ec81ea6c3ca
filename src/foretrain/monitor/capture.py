"""Sees every attention call of a model while it is active, whoever wrote the model, and leaves the computation alone.

It is a mode of torch that is asked before each torch function is called. It catches

    scaled_dot_product_attention   most models, also those that import it by name
    flex_attention                 with the functions that change or mask its scores
    flash-attn                     sequences of one length, without window, soft cap or ALiBi
    softmax of 4-D tensors         eager attention, soft caps, hand-written code; of 3-D ones if [sample, query, query]
    multi_head_attention_forward   nn.MultiheadAttention, whose inner call cannot be seen: logits are computed again

and passes everything on unchanged. What it computes for itself is outside autograd and autocast, draws no random
numbers, and is never read by the host.

Two things to know. Every softmax over the last of four axes is taken for attention [sample, head, query, key]; one
that is something else, such as a softmax over the width of an image, is recorded too, under the name of the module
that computes it. And in evaluation nn.MultiheadAttention and nn.TransformerEncoder have a fast path, which torch does
not take while any such mode is active. The usual path, which is read instead, differs in the last bits, and does not
set the output at padded positions to zero. In training, and in all other models, not a bit differs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from foretrain.monitor.attention_calls import AttentionCall, FlexProducts, GivenLogits, Products
from foretrain.monitor.function_results import tensors_in, unnoticed
from foretrain.monitor.guard import Guard, no_guard
from foretrain.monitor.long_attention import kernel_sums
from foretrain.monitor.multihead import multihead_products
from foretrain.monitor.shards import Shard, local_part, shard_along
from foretrain.monitor.statistics import RowSums, row_sums

_SOFTMAX = frozenset({torch.softmax, torch.Tensor.softmax, F.softmax, torch.special.softmax})
_FLASH = "flash_attn._flash_attn_forward"
Reader = Callable[..., AttentionCall | None]


class AttentionReader(TorchFunctionMode):
    """Calls `record(sums, shard)` for every attention call made while it is active.

    The shard says which heads these are, if the tensors of the call are spread over processes by heads.
    """

    def __init__(
        self,
        record: Callable[[RowSums, Shard], None],
        is_cross: Callable[[], bool] = lambda: False,  # whether keys are other tokens than queries
        guard: Guard = no_guard,
    ) -> None:
        super().__init__()
        self.record, self.is_cross, self.guard = record, is_cross, guard

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():  # a model compiles a part of itself in the middle of the pass
            return func(*args, **kwargs)
        read = reader_of(func, args, kwargs)
        if read is not None:
            with self.guard("read attention"), unnoticed(args, kwargs):
                shard, args_here, kwargs_here = _held_here(args, kwargs)
                call = read(*args_here, **kwargs_here)
                if call is not None:
                    call = replace(call, same_tokens=False) if self.is_cross() else call
                    self.record(kernel_sums(call) or row_sums(call), shard)
        return func(*args, **kwargs)


def reader_of(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reader | None:
    """What reads the arguments of this function, if it computes attention."""
    if func is F.scaled_dot_product_attention:
        return _of_products
    if func is F.multi_head_attention_forward:
        return multihead_products
    if func in _SOFTMAX:
        return _of_softmax
    if isinstance(func, torch._ops.HigherOrderOperator):
        flex = sys.modules.get("torch._higher_order_ops.flex_attention")
        return _of_flex if flex is not None and func is flex.flex_attention else None
    if isinstance(func, torch._ops.OpOverload | torch._ops.OpOverloadPacket) and str(func).startswith(_FLASH):
        return _of_flash
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
    **_: Any,
) -> Products | None:
    """The logits that scaled_dot_product_attention computes inside."""
    query, key = query.detach(), key.detach()
    if query.ndim == key.ndim == 3:  # [sample, query, width]: a single head, or heads that are counted as samples
        query, key = query[:, None], key[:, None]
        attn_mask = attn_mask[:, None] if attn_mask is not None and attn_mask.ndim == 3 else attn_mask
    if query.ndim != 4 or key.ndim != 4 or 0 in query.shape or 0 in key.shape:
        return None
    key = key.expand(query.shape[0], *key.shape[1:]) if len(key) == 1 else key
    query = query.expand(key.shape[0], *query.shape[1:]) if len(query) == 1 else query
    return Products(
        query=query,
        key=key,
        factor=1 / math.sqrt(query.shape[-1]) if scale is None else scale,
        causal=0 if is_causal else None,
        mask=None if is_causal or attn_mask is None else attn_mask.detach(),
        same_tokens=query.shape[-2] == key.shape[-2],
    )


def _of_flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any],
    block_mask: tuple[Any, ...],
    scale: float,
    *_: Any,
    **__: Any,
) -> FlexProducts:
    """The same for flex_attention, as its operator is called inside."""
    query, key, allows = query.detach(), key.detach(), block_mask[-1]
    key = key.expand(query.shape[0], *key.shape[1:]) if len(key) == 1 else key
    return FlexProducts(
        query=query,
        key=key,
        factor=scale,
        same_tokens=query.shape[-2] == key.shape[-2],
        score=None if score_mod.__name__ == "_identity" else score_mod,
        allows=None if allows.__name__ == "noop_mask" else allows,
    )


def _of_flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    *_: Any,
    **__: Any,
) -> Products | None:
    """The same for the operator of the package flash-attn, whose tensors are [sample, position, head, width]."""
    window = window_size_left >= 0 or window_size_right > 0
    if q.ndim != 4 or window or softcap or alibi_slopes is not None:
        return None
    query, key = q.detach().transpose(1, 2), k.detach().transpose(1, 2)
    queries, keys = query.shape[-2], key.shape[-2]
    return Products(
        query=query,
        key=key,
        factor=softmax_scale,
        causal=keys - queries if causal or window_size_right == 0 else None,  # the last query sees the last key
        same_tokens=queries == keys,
    )


def _of_softmax(input: Tensor, dim: int | None = None, *_: Any, **__: Any) -> GivenLogits | None:
    """The logits that a hand-written softmax is given: over the last of four axes, or of three if the last two are of
    the same length, as for a single head."""
    if input.ndim == 3 and dim in (-1, 2) and input.shape[-1] == input.shape[-2] > 1:
        input, dim = input[:, None], -1
    if input.ndim == 4 and dim in (-1, 3) and input.is_floating_point() and min(input.shape) > 0:
        return GivenLogits(input.detach(), same_tokens=input.shape[-2] == input.shape[-1])
    return None


def _held_here(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Shard, tuple[Any, ...], dict[str, Any]]:
    """The arguments as this process holds them, and which heads these are."""
    first = next(tensors_in((args, kwargs)), None)
    if first is None or not hasattr(first, "placements"):
        return Shard(), args, kwargs
    shard = shard_along(first, 1) if first.ndim == 4 else Shard()
    if any(
        shard_along(tensor, axis) != Shard() for tensor in tensors_in((args[:1],)) for axis in range(2, tensor.ndim)
    ):
        raise ValueError("queries that are spread over processes by position cannot be read")
    return shard, tuple(_local(value) for value in args), {name: _local(value) for name, value in kwargs.items()}


def _local(value: Any) -> Any:
    return local_part(value) if isinstance(value, Tensor) else value
