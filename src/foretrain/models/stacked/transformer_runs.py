"""Many transformers at once: the numbers of `foretrain.models.transformer`, with a leading axis of runs, for less work.

What is saved is exact. (1) The last layer is computed at the read-out position only: with one query per string,
q·(X·W_K) is (W_K·q)·X and values are mixed before W_V, so keys and values cost one row per string. (2) In the first
layer a row is the sum of a token and a place, over its spread: queries, keys and values through W_O are computed once
per distinct token and once per place, then added and looked up; so are products of queries and keys, of which a string
has as many as it has distinct tokens, not places. A token that all strings hold at a place (CLS, the words of a
template) counts as the place. (3) Runs (seeds, learning rates) share every operation, but for the attention of these
two layers, which takes them one by one, each in the cache.

Tables are [run, row, d], states [run, sample, place, d]; inside, runs and samples are often counted through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.core.errors import require
from foretrain.models.stacked.part_attention import part_products, part_values
from foretrain.models.stacked.read_out_attention import read_out_scores, read_out_values
from foretrain.models.stacked.small_products import per_head, product, softmax_over_few
from foretrain.models.stacked.string_rows import StringRows, look_up, require_fitting, string_rows
from foretrain.models.transformer import Transformer, TransformerShape

Parameters = dict[str, Tensor]
NORM_EPS = 1e-5  # torch's own


class TransformerRuns:
    """All runs of one shape. Parameters are those of `Transformer` by name, stacked along a leading axis."""

    trained = None  # every parameter moves

    def __init__(self, shape: TransformerShape) -> None:
        self.shape = shape

    def start(self, draws: Sequence[torch.Generator]) -> Parameters:
        """Initial parameters, one run per generator: those of `Transformer(shape, generator)`."""
        return stacked([Transformer(self.shape, draw) for draw in draws])

    def prepare(self, strings: Int[Tensor, "run sample position"], start: Parameters | None = None) -> StringRows:
        require_fitting(strings, self.shape.tokens, self.shape.length)
        if self.shape.cls:  # one more token, behind those of the vocabulary
            strings = F.pad(strings, (0, 1), value=self.shape.tokens)
        return string_rows(strings)

    def outputs(self, p: Parameters, strings: StringRows) -> Tensor:
        """[run, sample] for numbers, [run, sample, token] for scores."""
        return self.read(p, self.features(p, strings))

    def read(self, p: Parameters, features: Float[Tensor, "run sample d"]) -> Tensor:
        if self.shape.tied:
            return self.shape.score_scale * (features @ p["tokens"].mT)
        out = torch.baddbmm(p["read_bias"][:, None], features, p["read"])
        return out[..., 0] if self.shape.output == "number" else out

    def features(self, p: Parameters, strings: StringRows) -> Float[Tensor, "run sample d"]:
        tokens, places = self._embedded(p, strings)
        pairs = look_up(torch.cat([places, tokens], dim=1), strings.pair_parts)
        pairs = pairs.view(len(tokens), -1, self.shape.embedding)
        x = look_up(pairs, strings.pair_places).view(*strings.pair_row.shape, -1)
        last = self.shape.depth - 1
        if last > 0:
            x = self._first_block(_of_block(p, 0), x, (tokens, places, pairs), strings)
        for block in range(1, last):
            x = self._block(_of_block(p, block), x)
        return F.layer_norm(self._last_block(_of_block(p, last), x), (self.shape.embedding,))

    def _embedded(self, p: Parameters, strings: StringRows) -> tuple[Tensor, Tensor]:
        """Embeddings of every run's distinct tokens, and of its places, with the tokens that are fixed there, and two
        rows of zeros behind."""
        table = torch.cat([p["tokens"], p["cls"][:, None]], dim=1) if self.shape.cls else p["tokens"]
        R, d = len(table), self.shape.embedding
        run = torch.arange(R)[:, None]
        places = p["positions"] if self.shape.positions else table.new_zeros(R, self.shape.places, d)
        if len(strings.fixed):
            places = places.index_add(1, strings.fixed, table[run, strings.fixed_token])
        return table[run, strings.token], F.pad(places, (0, 0, 0, 2))

    def _first_block(
        self, block: Parameters, x: Tensor, embedded: tuple[Tensor, Tensor, Tensor], strings: StringRows
    ) -> Tensor:
        """Queries, keys and values are projected per distinct token and per place.

        A pair of both is their sum, divided by its spread if there is a normalisation before. For values, which go
        through W_O first, that division goes to the attention weights.
        """
        s, (tokens, places, pairs) = self.shape, embedded
        R, n, T, d = x.shape
        H, e = s.heads, s.head
        pre = s.norm == "pre"
        parts, per_spread = torch.cat([places, tokens], dim=1), pairs.new_ones(())
        if pre:  # the row behind the places becomes what normalisation adds
            parts = (parts - parts.mean(-1, keepdim=True)) * block["attention_norm.weight"][:, None]
            parts = torch.cat([parts[:, :T], block["attention_norm.bias"][:, None], parts[:, T + 1 :]], dim=1)
            variance = (pairs - pairs.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)  # torch.var is slower
            per_spread = torch.rsqrt(variance + NORM_EPS)
        per_place = look_up(per_spread, strings.pair_places).view(R * n, T) if pre else per_spread.expand(R * n, T)
        logits = self._first_logits(block, parts, per_place, strings)  # [run·sample, query, head, key]
        own = None
        if s.identity_kq or s.identity_vo:
            y = self._normed(block, "attention_norm", pairs) if pre else pairs
            own = look_up(y, strings.pair_places).view(R * n, T, d)
        if s.identity_kq and own is not None:
            a = self._scaling_per_string(block, "a", n)[:, None]
            logits = logits + a * product(own, own.mT)[:, :, None]
        weights = softmax_over_few(logits)

        shares = weights * per_place[:, None, None] if pre else weights
        of_slots = product(shares.view(R * n, T * H, T), strings.is_slot[:, :T].to(x.dtype))
        of_slots = of_slots.view(R, n, T, H, -1).mT.reshape(R, n, T, -1)
        value, through = block["attention.value"], block["attention.out"].view(R, H, e, d)
        out = part_values(of_slots, shares.view(R, n * T, H * T), parts, value, through, strings)
        if s.identity_vo and own is not None:
            share = (self._scaling_per_string(block, "b", n)[:, None] * weights).sum(2)
            out = out + product(share, own).view(R, n * T, d)
        x = self._after(block, "attention_norm", x.view(R, n * T, d), out)
        return self._mlp(block, x).view(R, n, T, d)

    def _first_logits(
        self, block: Parameters, parts: Tensor, per_place: Tensor, strings: StringRows
    ) -> Float[Tensor, "sample query head key"]:
        """From products of tokens, per slot, and of any part with places, per part.

        One more query stands behind those of the places: what normalisation adds to all. What it adds to a key is the
        same for all keys, and is not seen.
        """
        (samples, T), H, S = per_place.shape, self.shape.heads, strings.slot_part.shape[2]
        tokens, to_places, of_places = part_products(
            parts, block["attention.query"], block["attention.key"], H, strings
        )
        asked = look_up(of_places.flatten(2), strings.slot_parts)
        asked = asked.view(samples, S, H, T + 1).permute(0, 3, 2, 1).reshape(samples, T + 1, H * S)
        is_slot = strings.is_slot.to(parts.dtype)
        by_slot = (asked + product(is_slot, tokens.view(samples, S, H * S))).reshape(samples, (T + 1) * H, S)
        by_place = look_up(to_places.flatten(2), strings.query_parts)
        logits = by_place.view(samples, (T + 1) * H, T) + product(by_slot, is_slot[:, :T].mT)
        logits, added = logits.view(samples, T + 1, H, T).split([T, 1], dim=1)
        if self.shape.norm == "post":
            return self.shape.logit_scale * logits
        return (logits * per_place[:, :, None, None] + added) * (self.shape.logit_scale * per_place)[:, None, None]

    def _block(self, block: Parameters, x: Tensor) -> Tensor:
        s = self.shape
        R, n, T, d = x.shape
        x = x.reshape(R, n * T, d)
        y = self._normed(block, "attention_norm", x) if s.norm == "pre" else x

        def by_head(name: str) -> Tensor:
            return (y @ block[f"attention.{name}"]).view(R * n, T, s.heads, s.head)

        q, k, v, own = by_head("query"), by_head("key"), by_head("value"), y.view(R * n, T, d)
        logits = s.logit_scale * per_head(q, k.permute(0, 2, 3, 1))  # [run·sample, query, head, key]
        if s.identity_kq:
            a = self._scaling_per_string(block, "a", n)[:, None]
            logits = logits + a * product(own, own.mT)[:, :, None]
        weights = softmax_over_few(logits)
        out = per_head(weights, v.transpose(1, 2)).reshape(R, n * T, -1) @ block["attention.out"]
        if s.identity_vo:
            share = (self._scaling_per_string(block, "b", n)[:, None] * weights).sum(2)
            out = out + product(share, own).view(R, n * T, d)
        return self._mlp(block, self._after(block, "attention_norm", x, out)).view(R, n, T, d)

    def _last_block(self, block: Parameters, x: Tensor) -> Tensor:
        """The block at the read-out position."""
        s = self.shape
        R, n, T, d = x.shape
        y = self._normed(block, "attention_norm", x.view(R, n * T, d)).view(R, n, T, d) if s.norm == "pre" else x
        key, value = (block[f"attention.{name}"].view(R, d, s.heads, s.head) for name in ("key", "value"))
        logits = s.logit_scale * read_out_scores(y, block["attention.query"], key)  # [run, sample, head, place]
        if s.identity_kq:
            likeness = product(y.view(R * n, T, d), y[:, :, -1].reshape(R * n, d, 1)).view(R, n, 1, T)
            logits = logits + self._scaling(block, "a")[:, None, :, None] * likeness
        weights = softmax_over_few(logits)
        out = read_out_values(weights, y, value, block["attention.out"])
        if s.identity_vo:
            share = self._scaling(block, "b")[:, None, None] @ weights  # [run, sample, 1, place]
            out = out + product(share.view(R * n, 1, T), y.view(R * n, T, d)).view(R, n, d)
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

    def _scaling(self, block: Parameters, name: str) -> Float[Tensor, "run head"]:
        """What a head adds of the identity: its a or b, times their multiplier."""
        return self.shape.scaling_multiplier * block[f"attention.{name}"]

    def _scaling_per_string(self, block: Parameters, name: str, samples: int) -> Float[Tensor, "sample head 1"]:
        return self._scaling(block, name).repeat_interleave(samples, dim=0)[..., None]


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
