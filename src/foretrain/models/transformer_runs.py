"""Many transformers at once: the numbers of `foretrain.models.transformer`, with a leading axis of runs, for less work.

What is saved is exact. (1) The last layer is computed at the read-out position only: with one query per string,
q·(X·W_K) is (W_K·q)·X and values are mixed before W_V, so keys and values cost one row per string. (2) In the first
layer a token at a position is the same row in every string: normalisation, queries, keys and values through W_O are
computed once per distinct row, then looked up. (3) Runs (seeds, learning rates) share every operation.

Tables are [run, row, d], states [run, sample, place, d]; inside, runs and samples are often counted through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.errors import require
from foretrain.models.transformer import Transformer, TransformerShape

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class StringRows:
    """Strings of every run as places among the run's distinct (token, position) pairs.

    The row of the CLS token, if there is one, comes last; runs with fewer pairs repeat their first.
    """

    strings: Int[Tensor, "run sample position"]
    token: Int[Tensor, "run pair"]
    position: Int[Tensor, "run pair"]
    row: Int[Tensor, "run sample place"]
    heads: int

    @property
    def rows(self) -> int:
        return self.token.shape[1] + (self.row.shape[2] > self.strings.shape[2])

    @cached_property
    def first(self) -> Int[Tensor, "run 1 1"]:
        """Number of each run's first row when the rows of all runs are counted on."""
        return self.rows * torch.arange(len(self.row))[:, None, None]

    @cached_property
    def flat_row(self) -> Int[Tensor, "all"]:
        """[run, sample, place]"""
        return (self.first + self.row).flatten()

    @cached_property
    def row_then_head(self) -> Int[Tensor, "all"]:
        """[run, sample, head, place] into a table [run, row, head]."""
        head = torch.arange(self.heads)[:, None]
        return ((self.first + self.row)[:, :, None] * self.heads + head).flatten()

    @cached_property
    def head_then_row(self) -> Int[Tensor, "all"]:
        """[run, sample, head, place] into a table [run, head, row]."""
        head = self.rows * torch.arange(self.heads)[:, None]
        return (self.heads * self.first[..., None] + head + self.row[:, :, None]).flatten()

    def some(self, samples: Int[Tensor, "run some"]) -> StringRows:
        """Those samples of each run, with their own distinct rows."""
        chosen = self.strings.gather(1, samples[:, :, None].expand(-1, -1, self.strings.shape[2]))
        return string_rows(chosen, self.heads, cls=self.row.shape[2] > self.strings.shape[2])

    def of_runs(self, runs: Int[Tensor, "kept"]) -> StringRows:
        """The rows of some runs."""
        return StringRows(self.strings[runs], self.token[runs], self.position[runs], self.row[runs], self.heads)


def string_rows(strings: Int[Tensor, "run sample position"], heads: int, *, cls: bool) -> StringRows:
    runs, samples, length = strings.shape
    codes = strings.numpy() * length + np.arange(length)
    found = [np.unique(code, return_inverse=True) for code in codes]
    most = max(len(pairs) for pairs, _ in found)
    pairs = np.stack([np.concatenate([p, np.full(most - len(p), p[0])]) for p, _ in found])
    row = np.stack([inverse.reshape(samples, length) for _, inverse in found])
    if cls:
        row = np.concatenate([row, np.full((runs, samples, 1), most)], axis=2)
    token, position = (torch.from_numpy(part) for part in (pairs // length, pairs % length))
    return StringRows(strings, token, position, torch.from_numpy(row), heads)


class TransformerRuns:
    """All runs of one shape. Parameters are those of `Transformer` by name, stacked along a leading axis."""

    trained = None  # every parameter moves

    def __init__(self, shape: TransformerShape) -> None:
        self.shape = shape

    def start(self, draws: Sequence[torch.Generator]) -> Parameters:
        """Initial parameters, one run per generator: those of `Transformer(shape, generator)`."""
        return stacked([Transformer(self.shape, draw) for draw in draws])

    def prepare(self, strings: Int[Tensor, "run sample position"], start: Parameters | None = None) -> StringRows:
        return string_rows(strings, self.shape.heads, cls=self.shape.cls)

    def outputs(self, p: Parameters, strings: StringRows) -> Tensor:
        """[run, sample] for numbers, [run, sample, token] for scores."""
        return self.read(p, self.features(p, strings))

    def read(self, p: Parameters, features: Float[Tensor, "run sample d"]) -> Tensor:
        if self.shape.tied:
            return self.shape.score_scale * (features @ p["tokens"].mT)
        out = torch.baddbmm(p["read_bias"][:, None], features, p["read"])
        return out[..., 0] if self.shape.output == "number" else out

    def features(self, p: Parameters, strings: StringRows) -> Float[Tensor, "run sample d"]:
        table = self._embedded(p, strings)
        last = self.shape.depth - 1
        if last == 0:
            x = _look_up(table, strings.flat_row).view(*strings.row.shape, -1)
        else:
            x = self._first_block(p, table, strings)
        for block in range(1, last):
            x = self._block(_of_block(p, block), x)
        return F.layer_norm(self._last_block(_of_block(p, last), x), (self.shape.embedding,))

    def _embedded(self, p: Parameters, strings: StringRows) -> Tensor:
        runs, pairs = strings.token.shape
        flat = (strings.token + p["tokens"].shape[1] * torch.arange(runs)[:, None]).flatten()
        table = _look_up(p["tokens"], flat).view(runs, pairs, -1)
        if self.shape.positions:
            places = p["positions"].shape[1]
            flat = (strings.position + places * torch.arange(runs)[:, None]).flatten()
            table = table + _look_up(p["positions"], flat).view(runs, pairs, -1)
        if not self.shape.cls:
            return table
        cls = p["cls"] + p["positions"][:, -1] if self.shape.positions else p["cls"]
        return torch.cat([table, cls[:, None]], dim=1)

    def _first_block(self, p: Parameters, table: Tensor, strings: StringRows) -> Tensor:
        s, block = self.shape, _of_block(p, 0)
        R, n, T = strings.row.shape
        H, e, d = s.heads, s.head, s.embedding
        y = self._normed(block, "attention_norm", table) if s.norm == "pre" else table
        q = _look_up(s.logit_scale * (y @ block["attention.query"]).view(R, -1, H, e), strings.row_then_head)
        k = _look_up((y @ block["attention.key"]).view(R, -1, H, e), strings.row_then_head)
        logits = _products(q.view(-1, T, e), k.view(-1, T, e)).view(R * n, H, T, T)
        values = (y @ block["attention.value"]).view(R, -1, H, e).transpose(1, 2).reshape(R * H, -1, e)
        through_out = torch.bmm(values, block["attention.out"].view(R * H, e, d))  # W_V·W_O per head and row
        rows = _look_up(through_out, strings.head_then_row).view(R * n, H * T, d)
        own = None
        if s.identity_kq or s.identity_vo:
            own = _look_up(y, strings.flat_row).view(R * n, T, d)
        if s.identity_kq and own is not None:
            logits = logits + self._by_head(block["attention.a"], n)[..., None] * torch.bmm(own, own.mT)[:, None]
        weights = _softmax_over_few(logits.transpose(1, 2))  # [run·sample, query, head, key]
        out = torch.bmm(weights.view(R * n, T, H * T), rows)
        if s.identity_vo and own is not None:
            share = (self._by_head(block["attention.b"], n)[:, None] * weights).sum(2)
            out = out + torch.bmm(share, own)
        x = _look_up(table, strings.flat_row).view(R, n * T, d)
        x = self._after(block, "attention_norm", x, out.view(R, n * T, d))
        return self._mlp(block, x).view(R, n, T, d)

    def _block(self, block: Parameters, x: Tensor) -> Tensor:
        s = self.shape
        R, n, T, d = x.shape
        x = x.reshape(R, n * T, d)
        y = self._normed(block, "attention_norm", x) if s.norm == "pre" else x

        def by_head(name: str) -> Tensor:
            projected = (y @ block[f"attention.{name}"]).view(R * n, T, s.heads, s.head)
            return projected.transpose(1, 2)  # [run·sample, head, place, d_head]

        q, k, v, own = by_head("query"), by_head("key"), by_head("value"), y.view(R * n, T, d)
        logits = s.logit_scale * q @ k.mT
        if s.identity_kq:
            logits = logits + self._by_head(block["attention.a"], n)[..., None] * torch.bmm(own, own.mT)[:, None]
        weights = _softmax_over_few(logits)
        out = (weights @ v).transpose(1, 2).reshape(R, n * T, -1) @ block["attention.out"]
        if s.identity_vo:
            share = (self._by_head(block["attention.b"], n)[..., None] * weights).sum(1)
            out = out + torch.bmm(share, own).view(R, n * T, d)
        return self._mlp(block, self._after(block, "attention_norm", x, out)).view(R, n, T, d)

    def _last_block(self, block: Parameters, x: Tensor) -> Tensor:
        """The block at the read-out position."""
        s = self.shape
        R, n, T, d = x.shape
        H, e = s.heads, s.head
        y = self._normed(block, "attention_norm", x.view(R, n * T, d)).view(R, n, T, d) if s.norm == "pre" else x
        asking, own = y[:, :, -1], y.reshape(R * n, T, d)
        q = (s.logit_scale * (asking @ block["attention.query"])).view(R, n, H, e).transpose(1, 2).reshape(R * H, n, e)
        key = block["attention.key"].view(R, d, H, e).permute(0, 2, 3, 1).reshape(R * H, e, d)
        looked = torch.bmm(q, key).view(R, H, n, d).transpose(1, 2).reshape(R * n, H, d)
        logits = _products(looked, own)  # [run·sample, head, place]
        if s.identity_kq:
            likeness = torch.bmm(own, asking.reshape(R * n, d, 1)).mT
            logits = logits + self._by_head(block["attention.a"], n) * likeness
        mixed = torch.bmm(_softmax_over_few(logits), own).view(R, n, H, d)
        value = block["attention.value"].view(R, d, H, e).transpose(1, 2).reshape(R * H, d, e)
        values = torch.bmm(mixed.transpose(1, 2).reshape(R * H, n, d), value).view(R, H, n, e)
        out = values.transpose(1, 2).reshape(R, n, H * e) @ block["attention.out"]
        if s.identity_vo:
            out = out + (block["attention.b"][:, None, None] @ mixed)[:, :, 0]
        return self._mlp(block, self._after(block, "attention_norm", x[:, :, -1], out))

    def _mlp(self, block: Parameters, x: Tensor) -> Tensor:
        if not self.shape.mlp:
            return x
        y = self._normed(block, "mlp_norm", x) if self.shape.norm == "pre" else x
        hidden = F.gelu(torch.baddbmm(block["lower_bias"][:, None], y, block["lower"]))
        return self._after(block, "mlp_norm", x, torch.baddbmm(block["upper_bias"][:, None], hidden, block["upper"]))

    def _after(self, block: Parameters, norm: str, x: Tensor, out: Tensor) -> Tensor:
        out = x + out if self.shape.residual else out
        return self._normed(block, norm, out) if self.shape.norm == "post" else out

    def _normed(self, block: Parameters, norm: str, x: Tensor) -> Tensor:
        plain = F.layer_norm(x, (self.shape.embedding,))
        return torch.addcmul(block[f"{norm}.bias"][:, None], plain, block[f"{norm}.weight"][:, None])

    def _by_head(self, numbers: Tensor, samples: int) -> Tensor:
        """A number per run and head, for every string."""
        return numbers.repeat_interleave(samples, dim=0)[..., None]


@dataclass(frozen=True)
class Features:
    """What the last layer reads, per sample."""

    values: Float[Tensor, "run sample d"]

    def some(self, samples: Int[Tensor, "run some"]) -> Features:
        return Features(self.values.gather(1, samples[:, :, None].expand(-1, -1, self.values.shape[2])))

    def of_runs(self, runs: Int[Tensor, "kept"]) -> Features:
        return Features(self.values[runs])


class LastLayerRuns:
    """The same networks with all but the last layer left as they begin, so that its inputs are computed once."""

    trained = ("read", "read_bias")
    strings_at_once = 512

    def __init__(self, shape: TransformerShape) -> None:
        require(not shape.tied, "Training the last layer only needs one of its own; set tied to false.")
        self.whole = TransformerRuns(shape)

    def start(self, draws: Sequence[torch.Generator]) -> Parameters:
        return self.whole.start(draws)

    def prepare(self, strings: Int[Tensor, "run sample position"], start: Parameters) -> Features:
        with torch.no_grad():
            parts = [self.whole.features(start, self.whole.prepare(s)) for s in strings.split(self.strings_at_once, 1)]
        return Features(torch.cat(parts, dim=1))

    def outputs(self, p: Parameters, features: Features) -> Tensor:
        return self.whole.read(p, features.values)


def stacked(modules: Sequence[torch.nn.Module]) -> Parameters:
    """The parameters of modules of one shape, along a leading axis of runs."""
    named = [dict(module.named_parameters()) for module in modules]
    return {name: torch.stack([one[name].detach() for one in named]) for name in named[0]}


def _of_block(p: Parameters, number: int) -> Parameters:
    start = f"blocks.{number}."
    return {name.removeprefix(start): value for name, value in p.items() if name.startswith(start)}


def _look_up(table: Tensor, rows: Tensor) -> Tensor:
    """Rows of a table whose leading axes are counted through."""
    return table.reshape(-1, table.shape[-1]).index_select(0, rows)


def _softmax_over_few(logits: Tensor) -> Tensor:
    """Softmax over the last axis, which is short: along the first axis torch does many rows in one instruction."""
    return torch.softmax(logits.movedim(-1, 0).contiguous(), dim=0).movedim(0, -1).contiguous()


class _Products(torch.autograd.Function):
    """x·yᵀ of many small matrices. Torch's own gradient of y comes out transposed and is copied; this one does not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return torch.bmm(x, y.mT)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        (gradient,) = gradients
        return torch.bmm(gradient, y), torch.bmm(gradient.mT, x)


def _products(x: Tensor, y: Tensor) -> Tensor:
    product: Tensor = _Products.apply(x, y)
    return product
