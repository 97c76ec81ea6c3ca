"""Many transformers at once: the same numbers as `foretrain.models.transformer`, for less work.

Every parameter has a leading axis of runs. Three savings, all of them exact:

1. The last layer is computed at the read-out place only. With one query per string, q·(X·W_K) is (W_K·q)·X, and values
   are mixed before W_V, so keys and values cost one row per string.
2. An input row of the first layer is the sum of a token and a place, divided by its standard deviation. Queries, keys
   and values through W_O are computed once per distinct token and once per place, then looked up and added. So are
   products of queries and keys, of which a string has as many as it has distinct tokens, not places. A token that all
   strings have at a place (CLS, the words of a template) counts as part of the place.
3. Runs (seeds, learning rates) share every operation. The exception is the attention of these two layers, which goes
   run by run so that a run's arrays stay in the processor's cache.

Tables are [run, row, d] and states [run, sample, place, d]; runs and samples are often flattened into one axis.
`distinct_rows` defines places, parts, pairs and slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from foretrain.core.errors import require
from foretrain.core.streams import torch_stream
from foretrain.models.parameters import Key, Parameters, stacked
from foretrain.models.stacked.distinct_rows import DistinctRows, distinct_rows
from foretrain.models.stacked.first_layer_attention import mixed_values, query_key_products
from foretrain.models.stacked.read_out_attention import read_out_scores, read_out_values
from foretrain.models.stacked.row_index import look_up
from foretrain.models.stacked.small_products import product, product_per_head, softmax_over_short_axis
from foretrain.models.strings import SampleRows, require_fitting
from foretrain.models.transformer import Transformer, TransformerShape

NORM_EPS = 1e-5  # torch's default


class Embedded(NamedTuple):
    """The input of the first layer, by its distinct rows."""

    tokens: Float[Tensor, "run token d"]
    places: Float[Tensor, "run place_and_two d"]  # with the tokens of fixed places, and two rows of zeros at the end
    pairs: Float[Tensor, "run pair d"]


class TransformerRuns:
    """All runs of one shape. Parameters have the names of those of `Transformer`, and a leading axis of runs."""

    trained = None  # every parameter is trained

    def __init__(self, shape: TransformerShape) -> None:
        self.shape = shape

    def start(self, keys: Sequence[Key]) -> Parameters:
        """Initial parameters, one run per key: those of `Transformer(shape, torch_stream(*key))`."""
        modules = [Transformer(self.shape, torch_stream(*key)) for key in keys]
        return stacked([{name: value.detach() for name, value in module.named_parameters()} for module in modules])

    def prepare(self, strings: Int[Tensor, "run sample position"], start: Parameters | None = None) -> DistinctRows:
        """The strings by their distinct rows; `start` does not matter here."""
        require_fitting(strings, self.shape.tokens, self.shape.length)
        if self.shape.cls:  # numbered one past the vocabulary
            strings = F.pad(strings, (0, 1), value=self.shape.tokens)
        return distinct_rows(strings)

    def outputs(self, p: Parameters, strings: DistinctRows) -> Tensor:
        """[run, sample] for numbers, [run, sample, token] for scores."""
        return self.read(p, self.features(p, strings))

    def read(self, p: Parameters, features: Float[Tensor, "run sample d"]) -> Tensor:
        """The outputs from what the last layer reads."""
        if self.shape.tied:
            return self.shape.score_scale * (features @ p["tokens"].mT)
        out = torch.baddbmm(p["read_bias"][:, None], features, p["read"])
        return out[..., 0] if self.shape.output == "number" else out

    def features(self, p: Parameters, strings: DistinctRows) -> Float[Tensor, "run sample d"]:
        """What the last layer reads: a LayerNorm of the state at the read-out place."""
        embedded = self._embedded(p, strings)
        x = look_up(embedded.pairs, strings.pair_index).view(*strings.pair_at.shape, -1)  # [run, sample, place, d]
        last = self.shape.depth - 1
        if last > 0:
            x = self._first_block(_of_block(p, 0), x, embedded, strings)
        for block in range(1, last):
            x = self._block(_of_block(p, block), x)
        return F.layer_norm(self._last_block(_of_block(p, last), x), (self.shape.embedding,))

    def _embedded(self, p: Parameters, strings: DistinctRows) -> Embedded:
        """Embeddings of every run's distinct tokens, of its places, and of its pairs of both."""
        table = torch.cat([p["tokens"], p["cls"][:, None]], dim=1) if self.shape.cls else p["tokens"]
        R, d = len(table), self.shape.embedding
        run = torch.arange(R)[:, None]
        places = p["positions"] if self.shape.positions else table.new_zeros(R, self.shape.places, d)
        if len(strings.fixed_places):
            places = places.index_add(1, strings.fixed_places, table[run, strings.fixed_tokens])
        tokens, places = table[run, strings.tokens], F.pad(places, (0, 0, 0, 2))
        pairs = look_up(torch.cat([places, tokens], dim=1), strings.pair_parts_index)
        return Embedded(tokens, places, pairs.view(R, -1, d))

    def _first_block(self, block: Parameters, x: Tensor, embedded: Embedded, strings: DistinctRows) -> Tensor:
        """The first block, which projects queries, keys and values per distinct token and per place.

        A pair is the sum of its token and its place, divided by its standard deviation if a normalisation comes first.
        Values go through W_O first; there the attention weights take that division.
        """
        s, pairs = self.shape, embedded.pairs
        R, n, T, d = x.shape
        H, e = s.heads, s.head
        pre = s.norm == "pre"
        parts = torch.cat([embedded.places, embedded.tokens], dim=1)  # [run, part, d]
        per_deviation = pairs.new_ones(()).expand(R * n, T)  # [run·sample, place]
        if pre:  # the row after the places becomes what the normalisation adds
            parts = (parts - parts.mean(-1, keepdim=True)) * block["attention_norm.weight"][:, None]
            parts = torch.cat([parts[:, :T], block["attention_norm.bias"][:, None], parts[:, T + 1 :]], dim=1)
            variance = (pairs - pairs.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)  # torch.var is slower
            per_deviation = look_up(torch.rsqrt(variance + NORM_EPS), strings.pair_index).view(R * n, T)
        logits = self._first_logits(block, parts, per_deviation, strings)  # [run·sample, query, head, key]
        rows = None
        if s.identity_kq or s.identity_vo:
            normed_pairs = self._normed(block, "attention_norm", pairs) if pre else pairs
            rows = look_up(normed_pairs, strings.pair_index).view(R * n, T, d)  # [run·sample, place, d]
        if s.identity_kq and rows is not None:
            a = self._scaling_per_string(block, "a", n)[:, None]  # [run·sample, 1, head, 1]
            logits = logits + a * product(rows, rows.mT)[:, :, None]
        weights = softmax_over_short_axis(logits)

        place_weights = weights * per_deviation[:, None, None] if pre else weights
        slot_weights = product(place_weights.view(R * n, T * H, T), strings.has_slot[:, :T].to(x.dtype))
        slot_weights = slot_weights.view(R, n, T, H, -1).mT.reshape(R, n, T, -1)  # [run, sample, place, slot·head]
        value, to_output = block["attention.value"], block["attention.out"].view(R, H, e, d)
        out = mixed_values(slot_weights, place_weights.view(R, n * T, H * T), parts, value, to_output, strings)
        if s.identity_vo and rows is not None:
            share = (self._scaling_per_string(block, "b", n)[:, None] * weights).sum(2)  # [run·sample, query, key]
            out = out + product(share, rows).view(R, n * T, d)
        x = self._after(block, "attention_norm", x.view(R, n * T, d), out)
        return self._mlp(block, x).view(R, n, T, d)

    def _first_logits(
        self, block: Parameters, parts: Tensor, per_deviation: Tensor, strings: DistinctRows
    ) -> Float[Tensor, "run_and_sample query head key"]:
        """From products between slots, and products of any part with the places.

        After the places comes one more query: what the normalisation adds to every query. What it adds to every key is
        the same for all keys, and softmax does not see it.
        """
        (samples, T), H, S = per_deviation.shape, self.shape.heads, strings.slot_part.shape[2]
        between_slots, to_places, from_places = query_key_products(
            parts, block["attention.query"], block["attention.key"], H, strings
        )
        places_to_slots = look_up(from_places.flatten(2), strings.slot_index).view(samples, S, H, T + 1)
        places_to_slots = places_to_slots.permute(0, 3, 2, 1).reshape(samples, T + 1, H * S)
        has_slot = strings.has_slot.to(parts.dtype)  # [run·sample, query, slot]
        to_slots = places_to_slots + product(has_slot, between_slots.view(samples, S, H * S))
        to_slots = to_slots.reshape(samples, (T + 1) * H, S)
        queries_to_places = look_up(to_places.flatten(2), strings.query_parts_index).view(samples, (T + 1) * H, T)
        logits = queries_to_places + product(to_slots, has_slot[:, :T].mT)
        logits, added = logits.view(samples, T + 1, H, T).split([T, 1], dim=1)
        if self.shape.norm == "post":
            return self.shape.logit_scale * logits
        per_query = logits * per_deviation[:, :, None, None] + added
        return per_query * (self.shape.logit_scale * per_deviation)[:, None, None]

    def _block(self, block: Parameters, x: Tensor) -> Tensor:
        """A block between the first and the last, at all places."""
        s = self.shape
        R, n, T, d = x.shape
        x = x.reshape(R, n * T, d)
        y = self._normed(block, "attention_norm", x) if s.norm == "pre" else x

        def by_head(name: str) -> Tensor:  # [run·sample, place, head, e]
            return (y @ block[f"attention.{name}"]).view(R * n, T, s.heads, s.head)

        q, k, v, rows = by_head("query"), by_head("key"), by_head("value"), y.view(R * n, T, d)
        logits = s.logit_scale * product_per_head(q, k.permute(0, 2, 3, 1))  # [run·sample, query, head, key]
        if s.identity_kq:
            a = self._scaling_per_string(block, "a", n)[:, None]  # [run·sample, 1, head, 1]
            logits = logits + a * product(rows, rows.mT)[:, :, None]
        weights = softmax_over_short_axis(logits)
        out = product_per_head(weights, v.transpose(1, 2)).reshape(R, n * T, -1) @ block["attention.out"]
        if s.identity_vo:
            share = (self._scaling_per_string(block, "b", n)[:, None] * weights).sum(2)  # [run·sample, query, key]
            out = out + product(share, rows).view(R, n * T, d)
        return self._mlp(block, self._after(block, "attention_norm", x, out)).view(R, n, T, d)

    def _last_block(self, block: Parameters, x: Tensor) -> Tensor:
        """The last block, at the read-out place: [run, sample, d]."""
        s = self.shape
        R, n, T, d = x.shape
        y = self._normed(block, "attention_norm", x.view(R, n * T, d)).view(R, n, T, d) if s.norm == "pre" else x
        key, value = (block[f"attention.{name}"].view(R, d, s.heads, s.head) for name in ("key", "value"))
        logits = s.logit_scale * read_out_scores(y, block["attention.query"], key)  # [run, sample, head, place]
        if s.identity_kq:
            similarity = product(y.view(R * n, T, d), y[:, :, -1].reshape(R * n, d, 1)).view(R, n, 1, T)
            logits = logits + self._scaling(block, "a")[:, None, :, None] * similarity
        weights = softmax_over_short_axis(logits)
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
        """The multiple of the identity that each head adds: its a or b, times the multiplier of both."""
        return self.shape.scaling_multiplier * block[f"attention.{name}"]

    def _scaling_per_string(self, block: Parameters, name: str, samples: int) -> Float[Tensor, "run_and_sample head 1"]:
        return self._scaling(block, name).repeat_interleave(samples, dim=0)[..., None]


class LastLayerRuns:
    """The same networks, of which only the last layer is trained, so that its inputs are computed once."""

    trained = ("read", "read_bias")
    strings_at_once = 512

    def __init__(self, shape: TransformerShape) -> None:
        require(
            not shape.tied, "Only a last layer with weights of its own can be trained separately; set tied to false."
        )
        self.whole = TransformerRuns(shape)

    def start(self, keys: Sequence[Key]) -> Parameters:
        """Initial parameters of the whole networks, one run per key."""
        return self.whole.start(keys)

    def prepare(self, strings: Int[Tensor, "run sample position"], start: Parameters) -> SampleRows:
        """What the last layer reads, given the parameters that training leaves as they are."""
        with torch.no_grad():
            chunks = [self.whole.features(start, self.whole.prepare(s)) for s in strings.split(self.strings_at_once, 1)]
        return SampleRows(torch.cat(chunks, dim=1))

    def outputs(self, p: Parameters, features: SampleRows) -> Tensor:
        """[run, sample] for numbers, [run, sample, token] for scores."""
        return self.whole.read(p, features.values)


def _of_block(p: Parameters, number: int) -> Parameters:
    prefix = f"blocks.{number}."
    return {name.removeprefix(prefix): value for name, value in p.items() if name.startswith(prefix)}
