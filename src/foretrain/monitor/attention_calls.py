"""What a model computes attention from, as a reader sees it: the logits of a few query rows at a time.

Whole matrices of logits are never held: a reader takes some samples and heads of a call (`part`), and then some of
their rows (`rows`). There are three kinds of calls. In `GivenLogits` the model has computed the logits itself, in
`Products` they are computed again from queries and keys, and in `FlexProducts` functions of the user change them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

LEAST = -1e30  # a masked logit: like −inf its exponential is zero, and unlike −inf zero times it is zero, not nan
MASKED = -5e3  # logits so far below the largest of their row are masked: models write −inf, −1e9, −1e4, the least float


class Memory:
    """Buffers that are used again for every block of rows."""

    def __init__(self, device: torch.device) -> None:
        self.device, self._flat = device, dict[str, Tensor]()

    def take(self, name: str, *shape: int) -> Tensor:
        """A float32 tensor of this shape. Its numbers are those that were left in it."""
        size = torch.Size(shape).numel()
        if name not in self._flat or len(self._flat[name]) < size:
            self._flat[name] = torch.empty(size, dtype=torch.float32, device=self.device)
        return self._flat[name][:size].view(shape)


@dataclass(frozen=True)
class Rows:
    """Some query rows. All but the logits may have length 1 along the axes of samples and heads."""

    logits: Tensor  # [sample, head, query, key] in float32, to be overwritten; `LEAST` where a key is masked
    choices: Tensor  # [sample, head, query]: how many keys a row may attend to
    counted: Tensor  # [sample, head, query]: whether a row counts
    seen: Tensor | None = None  # [sample, head, key]: whether any of these rows that count sees a key; None: all see 0


@dataclass(frozen=True)
class AttentionCall(ABC):
    """One call of an attention function, or the samples and heads of one that `part` has chosen."""

    same_tokens: bool | Tensor = field(default=True, kw_only=True)  # False in cross-attention; a tensor has 0 axes
    added_keys: int = field(default=0, kw_only=True)  # how many keys at the end stand for no token

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int, int]:
        """Samples, heads, queries, keys."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where it is computed."""

    @abstractmethod
    def part(self, samples: slice, heads: slice) -> AttentionCall:
        """The call of these samples and heads alone."""

    @abstractmethod
    def rows(self, rows: slice, memory: Memory) -> Rows:
        """These query rows, in the memory that is lent."""

    def weights(self) -> Tensor:
        """Attention weights [sample, head, query, key], all at once; nan in rows that may not attend to anything."""
        samples, heads, queries, keys = self.shape
        part = self.part(slice(0, samples), slice(0, heads))
        logits = part.rows(slice(0, queries), Memory(self.device)).logits
        weights = logits.masked_fill_(logits <= LEAST / 2, -torch.inf).softmax(-1)
        return F.pad(weights, (0, keys - weights.shape[-1]))

    def key_of(self, rows: slice) -> Tensor:
        """The position of each query among the keys: with a cache, queries are the last of them."""
        _, _, queries, keys = self.shape
        first = keys - self.added_keys - queries
        return torch.arange(rows.start + first, rows.stop + first, device=self.device).clamp(0, keys - 1)

    def masked(self, logits: Tensor, allowed: Tensor, rows: slice) -> Rows:
        """Rows whose masked logits are `LEAST` already, from which keys each of them may attend to."""
        count, keys = logits.shape[-2:]
        allowed = allowed.expand(*allowed.shape[:2], count, keys)
        choices = allowed.sum(-1)
        counted = choices > 0
        if self.same_tokens is not False:
            own = self.key_of(rows).clamp(max=keys - 1)[:, None].expand(*allowed.shape[:2], count, 1)
            itself = allowed.gather(-1, own)[..., 0]
            counted = itself if self.same_tokens is True else torch.where(self.same_tokens, itself, counted)
        return Rows(logits, choices, counted, (allowed & counted[..., None]).any(-2))


@dataclass(frozen=True)
class GivenLogits(AttentionCall):
    """Logits that a model has computed itself, masked or not."""

    logits: Tensor  # [sample, head, query, key]
    allowed: Tensor | None = None  # the same shape; None: what the logits say, see `allowed_keys`

    @property
    def shape(self) -> tuple[int, int, int, int]:
        samples, heads, queries, keys = self.logits.shape
        return samples, heads, queries, keys

    @property
    def device(self) -> torch.device:
        return self.logits.device

    def part(self, samples: slice, heads: slice) -> GivenLogits:
        allowed = None if self.allowed is None else self.allowed.expand(self.logits.shape)[samples, heads]
        return replace(self, logits=self.logits[samples, heads], allowed=allowed)

    def rows(self, rows: slice, memory: Memory) -> Rows:
        given = self.logits[:, :, rows]
        logits = memory.take("logits", *given.shape).copy_(given)
        if self.allowed is None:
            return self.masked(logits.clamp_(min=LEAST), allowed_keys(given), rows)
        allowed = self.allowed[:, :, rows]
        return self.masked(logits.masked_fill_(~allowed, LEAST), allowed, rows)


@dataclass(frozen=True)
class Products(AttentionCall):
    """Queries and keys whose products are the logits, as scaled_dot_product_attention computes them inside.

    Heads of keys may be fewer than those of queries: then several queries share a key.
    """

    query: Tensor  # [sample, head, query, width]
    key: Tensor  # [sample, head, key, width]
    factor: float
    causal: int | None = None  # query i sees the keys up to i + causal
    mask: Tensor | None = None  # Boolean, or to be added

    @property
    def shape(self) -> tuple[int, int, int, int]:
        samples, heads, queries, _ = self.query.shape
        return samples, heads, queries, self.key.shape[-2]

    @property
    def device(self) -> torch.device:
        return self.query.device

    def part(self, samples: slice, heads: slice) -> Products:
        group = self.query.shape[1] // self.key.shape[1]
        first = heads.start // group
        keys = self.key[samples, first : -(-heads.stop // group)]
        if group > 1:
            keys = keys.repeat_interleave(group, 1)[:, heads.start - first * group : heads.stop - first * group]
        mask = self.mask
        if mask is not None:
            mask = mask[(None,) * (4 - mask.ndim)]
            mask = mask[samples if len(mask) > 1 else slice(None), heads if mask.shape[1] > 1 else slice(None)]
        return replace(self, query=self.query[samples, heads].float(), key=keys.float().contiguous(), mask=mask)

    def rows(self, rows: slice, memory: Memory) -> Rows:
        logits = self.products(rows, memory)
        count, keys = logits.shape[-2:]
        if self.mask is not None:
            return self._with_mask(logits, rows)
        choices = torch.full((1, 1, count), keys, device=logits.device)
        counted = torch.ones_like(choices, dtype=torch.bool)
        if self.causal is None:
            return Rows(logits, choices, counted)
        last = torch.arange(rows.start, rows.stop, device=logits.device) + self.causal  # key that a query sees
        first_end = max(0, min(keys, rows.start + self.causal + 1))  # keys before this one are seen by every row
        seen = torch.arange(first_end, keys, device=logits.device)[None] <= last[:, None]
        logits[..., first_end:].add_(_to_add(seen))
        if self.causal >= 0:
            return Rows(logits, (last + 1).clamp(max=keys)[None, None], counted)
        return self.masked(logits, (torch.arange(keys, device=logits.device)[None] <= last[:, None])[None, None], rows)

    def products(self, rows: slice, memory: Memory) -> Tensor:
        """Queries times keys, of those keys that any of these rows sees."""
        samples, heads, _, keys = self.shape
        if self.causal is not None:
            keys = max(1, min(keys, rows.stop + self.causal))
        logits = memory.take("logits", samples * heads, rows.stop - rows.start, keys)
        query, key = (self.query[:, :, rows] * self.factor).flatten(0, 1), self.key[:, :, :keys].flatten(0, 1)
        torch.bmm(query, key.mT, out=logits)
        return logits.unflatten(0, (samples, heads))

    def _with_mask(self, logits: Tensor, rows: slice) -> Rows:
        assert self.mask is not None
        mask = self.mask[:, :, rows] if self.mask.shape[2] > 1 else self.mask
        if mask.dtype is torch.bool:
            return self.masked(logits.add_(_to_add(mask)), mask, rows)
        wide = wide_mask(mask)
        allowed = allowed_keys(wide)
        return self.masked(logits.add_(wide.masked_fill(~allowed, LEAST)), allowed, rows)


@dataclass(frozen=True)
class FlexProducts(Products):
    """Products that flex_attention's functions of (sample, head, query, key) change and mask."""

    score: Callable[..., Any] | None = None
    allows: Callable[..., Any] | None = None
    samples: slice = field(default_factory=lambda: slice(None))  # of the whole call: the functions ask for them
    heads: slice = field(default_factory=lambda: slice(None))

    def part(self, samples: slice, heads: slice) -> FlexProducts:
        chosen = super().part(samples, heads)
        assert isinstance(chosen, FlexProducts)
        return replace(chosen, samples=samples, heads=heads)

    def rows(self, rows: slice, memory: Memory) -> Rows:
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex  # as torch's own eager version
        from torch.nn.attention.flex_attention import _vmap_for_bhqkv

        logits = self.products(rows, memory)
        ranges = (self.samples, self.heads, rows, slice(0, logits.shape[-1]))
        places = [torch.arange(axis.start, axis.stop, device=logits.device) for axis in ranges]
        with TransformGetItemToIndex():
            if self.score is not None:
                logits.copy_(_vmap_for_bhqkv(self.score, prefix=(0,))(logits, *places))
            allowed = torch.ones_like(logits, dtype=torch.bool)
            if self.allows is not None:
                allowed = _vmap_for_bhqkv(self.allows, prefix=())(*places)
        allowed = allowed & (logits > LEAST)  # a score of −inf is a mask, too
        return self.masked(logits.masked_fill_(~allowed, LEAST), allowed, rows)


def _to_add(allowed: Tensor) -> Tensor:
    """A Boolean mask as numbers: added to more heads than it has, 20 times faster than filled in."""
    return torch.zeros(allowed.shape, device=allowed.device).masked_fill_(~allowed, LEAST)


def allowed_keys(logits: Tensor) -> Tensor:
    """Which keys a query may attend to, read off logits that have their mask added."""
    least = torch.finfo(logits.dtype).min
    finite = logits > least / 4
    return finite & (logits > logits.amax(-1, keepdim=True) + MASKED)


def wide_mask(mask: Tensor) -> Tensor:
    """A mask in float32, where the least number of float16 would no longer look like a mask."""
    return mask.detach().float().masked_fill(mask < torch.finfo(mask.dtype).min / 4, -torch.inf)
