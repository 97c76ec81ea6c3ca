"""What is recorded of one attention call: a few numbers per head, from the logits that the softmax sees.

A query row counts if it may attend to itself; padded queries, which may not, drop out. In cross-attention, where
queries and keys are different tokens, every row that may attend to anything counts.

All of it is sums and largest values on the device. Rows are read in blocks that fit into a processor's cache, or into
32 MB of an accelerator's memory, so a call over thousands of tokens needs no more memory than a short one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foretrain.monitor.attention_calls import AttentionCall, Memory, Rows
from foretrain.monitor.shards import WHOLE, Shard
from foretrain.monitor.tally import Arrays, Measures, Tally

NAMES = ("entropy", "relative_entropy", "first_token", "self_attention", "largest_logit")
MEANS = NAMES[:-1]
LOGITS_AT_ONCE = {"cpu": 1 << 21}  # in one block: 8 MB in float32, which stays in a processor's cache
LOGITS_AT_ONCE_ELSEWHERE = 1 << 23
LOG2_E = math.log2(math.e)
ROWS_AT_ONCE = 64  # at least: products of fewer rows are slow


@dataclass(frozen=True)
class RowSums:
    """Sums over query rows, which can be added up over blocks and processes."""

    totals: Float[Tensor, "mean head"]  # of `MEANS`
    rows: Float[Tensor, "mean head"]  # how many rows each total is of
    largest: Float[Tensor, "head"]

    def __add__(self, other: RowSums) -> RowSums:
        return RowSums(self.totals + other.totals, self.rows + other.rows, torch.maximum(self.largest, other.largest))

    def statistics(self) -> Float[Tensor, "statistic head"]:
        """The numbers of `NAMES`; a mean over no row is nan."""
        return torch.cat([self.totals / self.rows, self.largest[None]])

    def tally(self, shard: Shard = WHOLE) -> Tally:
        """The same for the monitor, each head in its place among those of all processes."""
        return Tally(
            sums={"totals": shard.placed(self.totals), "rows": shard.placed(self.rows)},
            largest={"logit": shard.placed(self.largest, fill=-torch.inf)},
            finish=_finish,
        )


def _finish(arrays: Arrays) -> Measures:
    with np.errstate(divide="ignore", invalid="ignore"):  # a mean over no row is nan
        means = arrays["totals"] / arrays["rows"]
    return dict(zip(NAMES, [*means.tolist(), arrays["logit"].tolist()], strict=True))


def row_sums(call: AttentionCall) -> RowSums:
    """Sums over the rows that count, of what `NAMES` lists, for each head.

    Entropy is in nats. Relative entropy is its share of the largest entropy possible for that row, over rows that have
    a choice. The first token is the first that any of these rows sees; a row whose window has passed it gives it 0.
    The largest logit is that of all rows that count.
    """
    memory = Memory(call.device)
    samples_at_once, heads_at_once, rows_at_once = block_sizes(call)
    return over_parts(call, samples_at_once, heads_at_once, lambda part: _sums_of(part, rows_at_once, memory))


def over_parts(
    call: AttentionCall, samples_at_once: int, heads_at_once: int, sums_of: Callable[[Any], RowSums]
) -> RowSums:
    """The sums of a call from those of its parts of so many samples and heads."""
    of_heads = []
    for heads in cut(call.shape[1], heads_at_once):
        parts = (call.part(samples, heads) for samples in cut(call.shape[0], samples_at_once))
        of_heads.append(reduce(add, (sums_of(part) for part in parts)))
    return RowSums(
        totals=torch.cat([sums.totals for sums in of_heads], -1),
        rows=torch.cat([sums.rows for sums in of_heads], -1),
        largest=torch.cat([sums.largest for sums in of_heads]),
    )


def block_sizes(call: AttentionCall) -> tuple[int, int, int]:
    """How many samples, heads and rows are read at once: not all rows, since in a causal call the first ones see few
    keys, and the others need not be computed; but all heads if they fit, since they may share a mask."""
    samples, heads, queries, keys = call.shape
    room = LOGITS_AT_ONCE.get(call.device.type, LOGITS_AT_ONCE_ELSEWHERE)
    rows = min(queries, ROWS_AT_ONCE)
    if heads * rows * keys > room:
        return 1, min(heads, max(1, room // (rows * keys))), min(rows, max(1, room // keys))
    rows = min(queries, max(rows, min(queries // 8, room // (heads * keys))))
    return min(samples, room // (heads * rows * keys)), heads, rows


def cut(length: int, at_once: int) -> Iterator[slice]:
    """A range in pieces of this length; the last one may be shorter."""
    return (slice(first, min(first + at_once, length)) for first in range(0, length, at_once))


def _sums_of(part: AttentionCall, rows_at_once: int, memory: Memory) -> RowSums:
    samples, heads, queries, keys = part.shape
    on_key = torch.zeros(samples, heads, keys, device=part.device)  # how much attention the rows pay to each key
    seen = torch.zeros(samples, heads, keys, dtype=torch.bool, device=part.device)
    blocks = []
    for place in cut(queries, rows_at_once):
        rows = part.rows(place, memory)
        blocks.append(_sums_of_block(part, place, rows, on_key, memory))
        visible = rows.logits.shape[-1]
        if rows.seen is None:
            seen[..., 0] = True
        else:
            seen[..., :visible] |= rows.seen
    sums = reduce(add, blocks)
    first_key = seen.int().argmax(-1, keepdim=True)  # with a window, not every row sees the first one
    sums.totals[MEANS.index("first_token")] = on_key.gather(-1, first_key)[..., 0].sum(0)
    return sums


def _sums_of_block(part: AttentionCall, place: slice, rows: Rows, on_key: Tensor, memory: Memory) -> RowSums:
    """The sums of a few rows. Their attention to the first token is left to the caller, who knows which one it is."""
    logits, counted = rows.logits, rows.counted
    visible = logits.shape[-1]
    own_key = part.key_of(place).clamp(max=visible - 1).expand(*logits.shape[:-1])[..., None]
    top = logits.amax(-1, keepdim=True)
    shifted = logits.sub_(top)  # centred: plain log-sum-exp cancels at large logits
    weights = memory.take("weights", *logits.shape)
    torch.mul(shifted, LOG2_E, out=weights).exp2_()  # on the CPU 5 to 25 times as fast as exp, which is slow at zero
    total = weights.sum(-1)
    on_itself = weights.gather(-1, own_key)[..., 0] / total
    share = torch.where(counted, 1 / total, 0.0)
    if rows.seen is None:
        on_key[..., 0] += (share * weights[..., 0]).sum(-1)
    else:
        on_key[..., :visible] += (share[..., None, :] @ weights)[..., 0, :]
    entropy = total.log() - weights.mul_(shifted).sum(-1) / total
    several = rows.choices > 1
    relative = entropy / rows.choices.clamp(min=2).to(entropy.dtype).log()
    itself = counted & part.same_tokens
    first = torch.zeros_like(entropy)
    parts = [(entropy, counted), (relative, counted & several), (first, counted), (on_itself, itself)]
    return RowSums(
        totals=torch.stack([torch.where(chosen, values, 0.0).sum((0, 2)) for values, chosen in parts]),
        rows=torch.stack([chosen.expand(entropy.shape).sum((0, 2)) for _, chosen in parts]).float(),
        largest=torch.where(counted, top[..., 0], -torch.inf).amax((0, 2)),
    )
