"""The same statistics from a fused attention kernel, for long sequences on an accelerator, in memory that is linear in
their length.

A kernel that returns the logarithm of the softmax's denominator, lse, gives the entropy of every row by one more call
with the keys in place of the values, since the mean of a row's logits under its own weights is a product of its query:

    H = lse − factor·⟨q, attention(q, k, v := k)⟩        weight of key j = exp(factor·⟨q, k_j⟩ − lse)

Only the largest logit needs all products, a block at a time and without a softmax.

It is a difference of two numbers as large as the logits, so its error grows with them. With the CPU's kernel in
float32, over 4 heads of 1024 queries, against float64: in any row at most 1e-6 times the largest logit, which is 1e-6
nats at ordinary logits and 6e-3 at logits of 15 000, where the entropy itself has collapsed to 2e-3; in the mean over
rows at most 3e-5. That is why short calls, and all calls on the CPU, where blocks of rows are fast enough, are read
exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from foretrain.monitor.attention_calls import AttentionCall, Memory, Products
from foretrain.monitor.statistics import LOGITS_AT_ONCE_ELSEWHERE, MEANS, RowSums, cut, over_parts

LONG = 1 << 20  # queries times keys from which a kernel is used
NUMBERS_AT_ONCE = 1 << 22  # of the queries that a kernel is called with: 16 MB in float32, and as much for keys
Kernel = Callable[[Tensor, Tensor, bool, float], tuple[Tensor, Tensor]]  # q, k, causal, factor -> output, lse


def _efficient(query: Tensor, key: Tensor, causal: bool, factor: float) -> tuple[Tensor, Tensor]:
    """The kernel that takes float32; its lse is padded to a multiple of 32 rows."""
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention
    output, lse, *_ = kernel(query, key, key, None, True, 0.0, causal, scale=factor)
    return output, lse[..., : query.shape[-2]]


KERNELS: dict[str, Kernel] = {"cuda": _efficient}


def kernel_sums(call: AttentionCall) -> RowSums | None:
    """What `row_sums` gives, from a kernel; None if the call is short or masked, or no kernel takes it."""
    if type(call) is not Products or call.mask is not None or call.added_keys:
        return None
    _, heads, queries, keys = call.shape
    kernel = KERNELS.get(call.device.type)
    square = call.causal is None or (call.causal == 0 and queries == keys)
    if kernel is None or queries * keys < LONG or not square:
        return None
    room = max(1, NUMBERS_AT_ONCE // call.query[0, 0].numel())  # for so many heads
    memory = Memory(call.device)
    try:
        return over_parts(call, max(1, room // heads), min(heads, room), lambda part: _sums_of(part, kernel, memory))
    except (RuntimeError, AttributeError, NotImplementedError):  # this version of torch, or this device, has no such
        return None  # kernel, or it does not take these widths


def _sums_of(part: Products, kernel: Kernel, memory: Memory) -> RowSums:
    query, key, factor = part.query, part.key, part.factor
    queries, keys = part.shape[-2:]
    output, lse = kernel(query, key, part.causal is not None, factor)
    entropy = (lse - factor * (query * output).sum(-1)).clamp(min=0)
    choices = torch.full((queries,), keys, device=part.device)
    if part.causal is not None:
        choices = torch.arange(1, queries + 1, device=part.device)
    relative = entropy / choices.clamp(min=2).to(entropy.dtype).log()
    first = (factor * (query @ key[:, :, :1].mT)[..., 0] - lse).exp()
    own = key[:, :, part.key_of(slice(0, queries))]
    on_itself = (factor * (query * own).sum(-1) - lse).exp()
    counted = torch.ones_like(choices, dtype=torch.bool)
    chosen = {"entropy": counted, "relative_entropy": choices > 1, "first_token": counted}
    chosen["self_attention"] = counted & part.same_tokens
    rows = torch.stack([chosen[name] for name in MEANS])[:, None].expand(-1, query.shape[1], -1)
    totals = torch.stack([entropy, relative, first, on_itself]).masked_fill(~rows[:, None], 0.0)
    return RowSums(totals.sum((1, 3)), rows.sum(-1).float() * len(query), _largest(part, memory))


def _largest(part: Products, memory: Memory) -> Tensor:
    """The largest logit of each head."""
    samples, heads, queries, keys = part.shape
    rows_at_once = max(1, LOGITS_AT_ONCE_ELSEWHERE // (samples * heads * keys))
    blocks = [part.rows(rows, memory).logits.amax((0, 2, 3)) for rows in cut(queries, rows_at_once)]
    return torch.stack(blocks).amax(0)
