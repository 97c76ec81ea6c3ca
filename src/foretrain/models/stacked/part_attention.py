"""Attention of the first layer, where rows are sums of a token and a place: from parts of rows, run by run.

What belongs to a run stays in the cache until it is used, and gradients of its tables are added up there. A table of
parts holds places, then what normalisation adds to all rows, then a row of zeros, then tokens; what fills it up is left
out (`StringRows`). Names such as by_x are gradients by x.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from foretrain.models.stacked.small_products import arrays, heads_first, times_transposed
from foretrain.models.stacked.string_rows import Places, StringRows


class _Products(torch.autograd.Function):
    """Queries and keys of parts, and of their products those that strings need."""

    @staticmethod
    @np.errstate(all="ignore")  # as torch: who trains looks at the losses
    def forward(
        ctx: Any, parts: Tensor, query: Tensor, key: Tensor, heads: int, strings: StringRows
    ) -> tuple[Tensor, ...]:
        (R, P, _), (_, n, S), T = parts.shape, strings.slot_part.shape, strings.pair_row.shape[2]
        e = query.shape[2] // heads
        q, k = (parts.new_empty(R, P, heads, e) for _ in range(2))
        tokens_found = parts.new_empty(R, n, S, heads, S)
        of_parts = [parts.new_zeros(R, P, heads, asked) for asked in (T, T + 1)]
        ctx.strings = strings
        ctx.save_for_backward(parts, query, key, q, k)
        slot_q, slot_k = parts.new_empty(2, n, S, heads, e).numpy()
        of_runs = zip(
            strings.slot_parts_by_run,
            *_own_parts(strings, parts, q, k, *of_parts),
            *arrays(query, key, tokens_found),
            strict=True,
        )
        for slots, x, one_q, one_k, to_places, of_places, W_Q, W_K, tokens in of_runs:
            np.matmul(x, W_Q, out=one_q.reshape(len(x), -1))
            np.matmul(x, W_K, out=one_k.reshape(len(x), -1))
            _look_up(one_q, slots, slot_q)
            _look_up(one_k, slots, slot_k)
            np.matmul(slot_q.swapaxes(1, 2), slot_k.transpose(0, 2, 3, 1), out=tokens.swapaxes(1, 2))
            np.matmul(heads_first(one_q), one_k[:T].transpose(1, 2, 0), out=heads_first(to_places))
            np.matmul(heads_first(one_k), one_q[: T + 1].transpose(1, 2, 0), out=heads_first(of_places))
        return tokens_found, *of_parts

    @staticmethod
    @once_differentiable
    @np.errstate(all="ignore")
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        parts, query, key, q, k = ctx.saved_tensors
        (_, P, H, e), (_, n, S, *_), T = q.shape, gradients[0].shape, gradients[1].shape[3]
        by_parts, by_query, by_key = torch.zeros_like(parts), torch.empty_like(query), torch.empty_like(key)
        of_slot, by_slot = parts.new_empty(2, n, S, H, e).numpy()
        adding, adding_x = parts.new_empty(P, H, e).numpy(), parts.new_empty(parts.shape[1:]).numpy()
        of_runs = zip(
            ctx.strings.slot_parts_by_run,
            *_own_parts(ctx.strings, parts, q, k, by_parts, *gradients[1:]),
            *arrays(query, key, gradients[0], by_query, by_key),
            strict=True,
        )
        for slots, x, one_q, one_k, by_x, by_to, by_of, W_Q, W_K, by_tokens, by_W_Q, by_W_K in of_runs:
            added, by_x_of_key = adding[: len(x)], adding_x[: len(x)]
            by_pair, by_to, by_of = by_tokens.swapaxes(1, 2), heads_first(by_to), heads_first(by_of)
            _look_up(one_k, slots, of_slot)
            np.matmul(by_pair, of_slot.swapaxes(1, 2), out=by_slot.swapaxes(1, 2))
            by_q = _added_up(by_slot, slots)
            by_q += heads_first(np.matmul(by_to, heads_first(one_k[:T]), out=heads_first(added)))
            by_asking = np.matmul(by_of.swapaxes(1, 2), heads_first(one_k), out=heads_first(added[: T + 1]))
            by_q[: T + 1] += heads_first(by_asking)

            _look_up(one_q, slots, of_slot)
            np.matmul(by_pair.swapaxes(2, 3), of_slot.swapaxes(1, 2), out=by_slot.swapaxes(1, 2))
            by_k = _added_up(by_slot, slots)
            by_k += heads_first(np.matmul(by_of, heads_first(one_q[: T + 1]), out=heads_first(added)))
            by_k[:T] += heads_first(np.matmul(by_to.swapaxes(1, 2), heads_first(one_q), out=heads_first(added[:T])))

            by_q, by_k = by_q.reshape(len(x), -1), by_k.reshape(len(x), -1)
            times_transposed(by_q, W_Q, by_x)
            by_x += times_transposed(by_k, W_K, by_x_of_key)
            np.matmul(x.T, by_q, out=by_W_Q)
            np.matmul(x.T, by_k, out=by_W_K)
        return by_parts, by_query, by_key, None, None


class _Values(torch.autograd.Function):
    """Values of parts through W_O, by the weights of a string's slots and of its places; what is added to all by 1."""

    @staticmethod
    @np.errstate(all="ignore")
    def forward(
        ctx: Any, slot_weights: Tensor, weights: Tensor, parts: Tensor, value: Tensor, out: Tensor, strings: StringRows
    ) -> Tensor:
        (R, P, _), (_, H, e, d), (_, n, T, _) = parts.shape, out.shape, slot_weights.shape
        v, values, found = (parts.new_empty(R, *shape) for shape in ((P, H, e), (P, H, d), (n * T, d)))
        ctx.strings, S = strings, strings.slot_part.shape[2]
        ctx.save_for_backward(slot_weights, weights, parts, value, out, v, values)
        of_slots, of_places = parts.new_empty(n, S, H, d).numpy(), parts.new_empty(n * T, d).numpy()
        of_runs = zip(
            strings.slot_parts_by_run,
            *_own_parts(strings, parts, v, values),
            *arrays(slot_weights, weights, value, out, found),
            strict=True,
        )
        for slots, x, one_v, one, w_slot, w, W_V, W_O, rows in of_runs:
            np.matmul(x, W_V, out=one_v.reshape(len(x), -1))
            np.matmul(heads_first(one_v), W_O, out=heads_first(one))
            _look_up(one, slots, of_slots)
            np.matmul(w_slot, of_slots.reshape(n, -1, d), out=rows.reshape(n, T, d))
            rows += np.matmul(w, heads_first(one[:T]).reshape(-1, d), out=of_places)
            rows += one[T].sum(0)
        return found

    @staticmethod
    @once_differentiable
    @np.errstate(all="ignore")
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        slot_weights, weights, parts, value, out, v, values = ctx.saved_tensors
        (_, P, H, d), (_, n, T, _), S = values.shape, slot_weights.shape, ctx.strings.slot_part.shape[2]
        by_parts, found = torch.zeros_like(parts), [torch.empty_like(x) for x in (slot_weights, weights, value, out)]
        of_slots, by_v_heads = parts.new_empty(n, S, H, d).numpy(), parts.new_empty(H, P, v.shape[3]).numpy()
        of_runs = zip(
            ctx.strings.slot_parts_by_run,
            *_own_parts(ctx.strings, parts, v, values, by_parts),
            *arrays(slot_weights, weights, value, out, *gradients, *found),
            strict=True,
        )
        for slots, x, one_v, one, by_x, w_slot, w, W_V, W_O, by_rows, by_w_slot, by_w, by_W_V, by_W_O in of_runs:
            by_string, of_string = by_rows.reshape(n, T, d), of_slots.reshape(n, -1, d)
            _look_up(one, slots, of_slots)
            np.matmul(by_string, of_string.swapaxes(1, 2), out=by_w_slot)
            times_transposed(by_rows, heads_first(one[:T]).reshape(-1, d), by_w)

            np.matmul(w_slot.swapaxes(1, 2), by_string, out=of_string)  # from here on its gradient
            by_one = _added_up(of_slots, slots)
            by_one[:T] += heads_first(np.matmul(w.T, by_rows).reshape(H, T, d))
            by_one[T] += by_rows.sum(0)

            np.matmul(one_v.transpose(1, 2, 0), heads_first(by_one), out=by_W_O)
            by_v = heads_first(times_transposed(heads_first(by_one), W_O, by_v_heads[:, : len(x)])).reshape(len(x), -1)
            times_transposed(by_v, W_V, by_x)
            np.matmul(x.T, by_v, out=by_W_V)
        by_slot_weights, by_weights, by_value, by_out = found
        return by_slot_weights, by_weights, by_parts, by_value, by_out, None


def _own_parts(strings: StringRows, *tables: Float[Tensor, "run part ..."]) -> list[list[np.ndarray]]:
    """Of each table, run by run, the rows that do not fill it up."""
    rows = strings.parts_by_run
    return [[one[:own] for one, own in zip(table, rows, strict=True)] for table in arrays(*tables)]


def _look_up(
    table: Float[np.ndarray, "part head a"], slots: Places, found: Float[np.ndarray, "sample slot head a"]
) -> None:
    rows, place = table.reshape(len(table), -1), slots.place.numpy()
    rows.take(place, axis=0, out=found.reshape(len(place), -1), mode="clip")  # the default would copy once more


def _added_up(by_found: Float[np.ndarray, "sample slot head a"], slots: Places) -> Float[np.ndarray, "part head a"]:
    """The gradient of a table from that of what was looked up."""
    rows = torch.from_numpy(by_found).view(len(slots.place), -1)
    return slots.added_up(rows).numpy().reshape(-1, *by_found.shape[2:])


def part_products(
    parts: Float[Tensor, "run part d"],
    query: Float[Tensor, "run d h"],
    key: Float[Tensor, "run d h"],
    heads: int,
    strings: StringRows,
) -> tuple[
    Float[Tensor, "run sample slot head slot"],
    Float[Tensor, "run part head place"],
    Float[Tensor, "run part head asking"],
]:
    """Queries times keys, three times: of the slots of each string; of any part, asking the places; of the places, and
    behind them what normalisation adds to all queries, asking any part."""
    tokens, to_places, of_places = _Products.apply(parts, query, key, heads, strings)
    return tokens, to_places, of_places


def part_values(
    slot_weights: Float[Tensor, "run sample place slot_and_head"],
    weights: Float[Tensor, "run row head_and_place"],
    parts: Float[Tensor, "run part d"],
    value: Float[Tensor, "run d h"],
    out: Float[Tensor, "run head e d"],
    strings: StringRows,
) -> Float[Tensor, "run row d"]:
    """Values through W_O of each string's slots and places, by their weights, and of what normalisation adds to all;
    rows are the places of samples."""
    found: Tensor = _Values.apply(slot_weights, weights, parts, value, out, strings)
    return found
