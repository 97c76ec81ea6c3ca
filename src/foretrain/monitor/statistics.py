"""What is recorded of one attention call: a few numbers per head, from the logits that the softmax sees.

A query row counts if it may attend to itself; padded queries, which may not, drop out. In cross-attention, where
queries and keys are different tokens, every row that may attend to anything counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

NAMES = ("entropy", "relative_entropy", "first_token", "self_attention", "largest_logit")
MASKED = (
    -5e3
)  # logits so far below the largest of their row are masked: models write −inf, −1e9, −1e4 or the least float
ELEMENTS_AT_ONCE = 1 << 24  # of a block of logits: 64 MB in float32


@dataclass(frozen=True)
class AttentionCall:
    """What a model computed attention from, as the softmax sees it."""

    logits: Float[Tensor, "sample head query key"]
    allowed: Bool[Tensor, "sample head query key"]
    same_tokens: bool  # whether queries and keys are the same tokens: not so in cross-attention
    added_keys: int = 0  # how many keys at the end stand for no token


def allowed_keys(logits: Float[Tensor, "*rest key"]) -> Bool[Tensor, "*rest key"]:
    """Which keys a query may attend to, read off logits that have their mask added."""
    least = torch.finfo(logits.dtype).min
    finite = logits > least / 4
    return finite & (logits > logits.amax(-1, keepdim=True) + MASKED)


@dataclass(frozen=True)
class RowSums:
    """Sums over query rows, which can be added up over blocks of samples."""

    totals: Float[Tensor, "mean head"]  # of all statistics but the last
    rows: Float[Tensor, "mean head"]  # how many rows each total is of
    largest: Float[Tensor, "head"]

    def __add__(self, other: RowSums) -> RowSums:
        return RowSums(self.totals + other.totals, self.rows + other.rows, torch.maximum(self.largest, other.largest))

    def statistics(self) -> Float[Tensor, "statistic head"]:
        """The numbers of `NAMES`; a mean over no row is nan."""
        return torch.cat([self.totals / self.rows, self.largest[None]])


def row_sums(call: AttentionCall) -> RowSums:
    """Sums over the rows that count, of what `NAMES` lists, for each head.

    Entropy is in nats. Relative entropy is its share of the largest entropy possible for that row, over rows that have
    a choice. The first token is the first that any of these rows sees; a row whose window has passed it gives it 0.
    The largest logit is that of all rows that count.
    """
    logits, allowed = call.logits.float(), call.allowed
    queries, keys = logits.shape[-2:]
    tokens = keys - call.added_keys
    diagonal = torch.arange(queries, device=logits.device) + tokens - queries  # with a cache, queries are the last keys
    own_key = diagonal.clamp(0, keys - 1).expand(*logits.shape[:-1])[..., None]
    rows = allowed.gather(-1, own_key)[..., 0] if call.same_tokens else allowed.any(-1)  # [sample, head, query]

    masked = logits.masked_fill(~allowed, -torch.inf)
    top = masked.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    shifted = masked - top  # centred: plain log-sum-exp cancels at large logits
    weights = shifted.exp()
    total = weights.sum(-1, keepdim=True)
    weights = weights / total
    entropy = total.log()[..., 0] - (weights * shifted.masked_fill(~allowed, 0.0)).sum(-1)
    count = allowed.sum(-1)  # keys that a row may attend to
    relative = entropy / count.clamp(min=2).to(entropy.dtype).log()
    seen = (allowed & rows[..., None]).any(-2)  # [sample, head, key]: with a window, not every row sees the first one
    first_key = seen.int().argmax(-1)[..., None, None].expand(*logits.shape[:-1], 1)
    first = weights.gather(-1, first_key)[..., 0]
    on_itself = weights.gather(-1, own_key)[..., 0]
    no_row = torch.zeros_like(rows)
    parts = [
        (entropy, rows),
        (relative, rows & (count > 1)),
        (first, rows),
        (on_itself, rows if call.same_tokens else no_row),
    ]
    return RowSums(
        totals=torch.stack([torch.where(chosen, values, 0.0).sum((0, 2)) for values, chosen in parts]),
        rows=torch.stack([chosen.sum((0, 2)) for _, chosen in parts]).float(),
        largest=masked.masked_fill(~rows[..., None], -torch.inf).amax((0, 2, 3)),
    )
