"""Finds the query, key, value and output matrices of every attention layer, whoever named them, and measures how much
of the identity is in their products.

Names are looked up in a mapping from names to tensors, so this works on a living model as well as on a file that is
read one tensor at a time. Known are the names of the Hugging Face families, of nn.MultiheadAttention, nanoGPT and
llama2.c. A layer with other names is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from foretrain.monitor.tally import Arrays, Measures, Readings, Tally

SEPARATE = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q", "k", "v"),
    ("wq", "wk", "wv"),
    ("q_lin", "k_lin", "v_lin"),
    ("to_q", "to_k", "to_v"),
    ("query_proj", "key_proj", "value_proj"),
)
FUSED = ("c_attn", "query_key_value", "qkv", "Wqkv", "qkv_proj", "in_proj")
BY_HEAD = ("query_key_value",)  # rows are ordered by head first: q, k, v of head 0, then of head 1 (GPT-NeoX, BLOOM)
OUTPUT = ("o_proj", "out_proj", "c_proj", "dense", "o", "wo", "out_lin", "to_out.0", "out", "proj", "projection")


@dataclass(frozen=True)
class Projections:
    """The matrices of one attention layer, cut into heads, as they act on a row vector from the left: x·W."""

    query: Float[Tensor, "head width per_head"]
    key: Float[Tensor, "head key_width per_head"]
    value: Float[Tensor, "head key_width per_head"]
    output: Float[Tensor, "head per_head width"] | None


def identity_shares(weights: Mapping[str, Tensor], heads: int | Mapping[str, int]) -> dict[str, dict[str, list[float]]]:
    """For each attention layer and head: the identity's share of W_Q·W_Kᵀ ("query_key") and W_V·W_O ("value_output").

    `heads` is the number of query heads, for all layers or by layer. A layer's name is that of the module which holds
    its matrices. Products that are not square, as in some cross-attention, are left out.
    """
    return {
        layer: {product: share.tolist() for product, share in shares.items()}
        for layer, shares in _shares(weights, heads).items()
    }


def identity_tallies(weights: Mapping[str, Tensor], heads: Mapping[str, int]) -> dict[str, Tally]:
    """The same for the monitor, left on the device."""
    return {layer: Tally({}, {}, as_lists, shares) for layer, shares in _shares(weights, heads).items()}


def as_lists(arrays: Arrays) -> Measures:
    """One number per head, by name."""
    return {name: values.tolist() for name, values in arrays.items()}


def _shares(weights: Mapping[str, Tensor], heads: int | Mapping[str, int]) -> dict[str, dict[str, Tensor]]:
    shares = {}
    for layer, projections in projections_of(weights, heads):
        of_layer = {}
        q, k, v, o = projections.query, projections.key, projections.value, projections.output
        if q.shape == k.shape:
            of_layer["query_key"] = identity_share(q, k)
        if o is not None and v.shape == o.mT.shape:
            of_layer["value_output"] = identity_share(v, o.mT)
        if of_layer:
            shares[layer] = of_layer
    return shares


def identity_share(
    left: Float[Tensor, "head width per_head"], right: Float[Tensor, "head width per_head"]
) -> Float[Tensor, "head"]:
    """tr(M)/(√r·‖M‖) of M = left·rightᵀ, where r is the largest rank that M can have.

    Between −1 and 1. It is 1 if M is a positive multiple of a projection, which is as close to the identity as a
    matrix of this rank can be. For independent random factors it has mean 0 and standard deviation about
    1/√(width·per_head). Nan if M is zero.
    """
    left, right = left.double(), right.double()
    rank = min(left.shape[-2:])
    trace = (left * right).sum((-2, -1))
    square = ((left.mT @ left) * (right.mT @ right)).sum((-2, -1))  # ‖left·rightᵀ‖², without forming the product
    return trace / (math.sqrt(rank) * square.clamp(min=0).sqrt())


def projections_of(weights: Mapping[str, Tensor], heads: int | Mapping[str, int]) -> Iterator[tuple[str, Projections]]:
    """Every attention layer whose matrices have names that are known, with the name of the module that holds them."""
    names = set(weights)
    for name in weights:
        layer, _, last = name.removesuffix(".weight").removesuffix("_weight").rpartition(".")
        count = heads if isinstance(heads, int) else heads.get(layer)
        if count is None:
            continue
        queries = [group for group in SEPARATE if group[0] == last]
        products = None
        if queries:
            products = _separate(weights, names, layer, queries[0], count)
        elif last in FUSED and (last != "in_proj" or name.endswith("in_proj_weight")):  # else Mamba's, or DeBERTa's
            products = _fused(weights, names, layer, last, name, count)
        if products is not None:
            yield layer, products


def _separate(
    weights: Mapping[str, Tensor], names: set[str], layer: str, group: tuple[str, ...], heads: int
) -> Projections | None:
    wanted = [_join(layer, part) for part in group]
    if not names.issuperset(wanted):
        return None
    q, k, v = (weights[name].detach() for name in wanted)
    if q.ndim != 2 or len(q) % heads:
        return None
    return _cut(q, k, v, _output(weights, names, layer), heads)


def _fused(
    weights: Mapping[str, Tensor], names: set[str], layer: str, last: str, name: str, heads: int
) -> Projections | None:
    W, output = weights[name].detach(), _output(weights, names, layer)
    if W.ndim != 2 or output is None or output.ndim != 2:
        return None
    if last == "c_attn" and W.shape[1] > W.shape[0]:  # GPT-2 stores [in, out], where nn.Linear stores [out, in]
        W, output = W.mT, output.mT
    if output.shape[1] % heads or len(W) % (per_head := output.shape[1] // heads):
        return None
    if last in BY_HEAD and len(W) == 3 * heads * per_head:
        return _by_head(W.unflatten(0, (heads, 3, per_head)).unbind(1), output, heads)
    key_rows = (len(W) - heads * per_head) // 2  # first all queries, then keys and values, of which there may be fewer
    if key_rows <= 0 or (last in BY_HEAD and key_rows != per_head):
        return None
    q, k, v = W.split([heads * per_head, key_rows, key_rows])
    return _cut(q, k, v, output, heads)


def _output(weights: Mapping[str, Tensor], names: set[str], layer: str) -> Tensor | None:
    named = [_join(layer, part) for part in OUTPUT]
    beside = _join(layer.rpartition(".")[0], "output.dense")  # BERT and ViT keep it beside the module with the others
    for name in (*named, beside):
        if name in names:
            return weights[name].detach()
    return None


def _join(layer: str, part: str) -> str:
    return f"{layer}.{part}.weight" if layer else f"{part}.weight"


def _cut(q: Tensor, k: Tensor, v: Tensor, o: Tensor | None, heads: int) -> Projections | None:
    per_head = len(q) // heads
    if len(k) % per_head or len(v) != len(k) or heads % (len(k) // per_head):
        return None
    return _by_head([x.unflatten(0, (-1, per_head)) for x in (q, k, v)], o, heads)


def _by_head(qkv: Sequence[Tensor], o: Tensor | None, heads: int) -> Projections:
    """From q, k, v [head, per_head, width]: views of the weights, unless several queries share a key."""
    per_head = qkv[0].shape[1]
    query, key, value = (x.mT for x in qkv)
    if len(key) < heads:
        key, value = (x.repeat_interleave(heads // len(x), dim=0) for x in (key, value))
    output = None
    if o is not None and o.ndim == 2 and o.shape[1] == heads * per_head:
        output = o.unflatten(1, (heads, per_head)).permute(1, 2, 0)
    return Projections(query, key, value, output)


def heads_of(readings: Readings) -> dict[str, int]:
    """The number of heads of each layer, from the attention that was read there."""
    return {name: next(iter(tally.sums.values())).shape[-1] for name, tally in readings.of("attention").items()}
