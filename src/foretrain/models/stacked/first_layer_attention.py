"""Attention of the first layer, from the parts of its input rows (a token and a place), run by run.

Going run by run keeps a run's arrays in the processor's cache until they have been used, and the gradients of its
tables are added up there. `distinct_rows` explains parts, slots and places; padding of a run's table is left out.
Names such as by_x are gradients with respect to x; d is the width of the embedding, e that of a head.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from foretrain.models.stacked.distinct_rows import DistinctRows
from foretrain.models.stacked.row_index import RowIndex
from foretrain.models.stacked.run_views import by_run
from foretrain.models.stacked.small_products import heads_first, times_transposed


class _Products(torch.autograd.Function):
    """Queries and keys of all parts, and the products of them that the strings need."""

    @staticmethod
    @np.errstate(all="ignore")  # like torch: the training loop checks the losses
    def forward(
        ctx: Any, parts: Tensor, query: Tensor, key: Tensor, heads: int, strings: DistinctRows
    ) -> tuple[Tensor, ...]:
        (R, P, _), (_, n, S), T = parts.shape, strings.slot_part.shape, strings.pair_at.shape[2]
        e = query.shape[2] // heads
        q, k = (parts.new_empty(R, P, heads, e) for _ in range(2))  # [run, part, head, e]
        between_slots = parts.new_empty(R, n, S, heads, S)  # [run, sample, slot, head, slot]
        to_places, from_places = (parts.new_zeros(R, P, heads, count) for count in (T, T + 1))  # [run, part, head, …]
        ctx.strings = strings
        ctx.save_for_backward(parts, query, key, q, k)
        slot_q, slot_k = parts.new_empty(2, n, S, heads, e).numpy()  # [sample, slot, head, e]
        for run in by_run(
            slots=strings.slot_index_by_run,
            x=_unpadded(parts, strings),  # [part, d]
            W_Q=query,  # [d, head·e]
            W_K=key,  # [d, head·e]
            q=_unpadded(q, strings),  # [part, head, e]
            k=_unpadded(k, strings),  # [part, head, e]
            between_slots=between_slots,  # [sample, slot, head, slot]
            to_places=_unpadded(to_places, strings),  # [part, head, place]
            from_places=_unpadded(from_places, strings),  # [part, head, place + 1]
        ):
            np.matmul(run.x, run.W_Q, out=run.q.reshape(len(run.x), -1))
            np.matmul(run.x, run.W_K, out=run.k.reshape(len(run.x), -1))
            _look_up(run.q, run.slots, slot_q)
            _look_up(run.k, run.slots, slot_k)
            np.matmul(slot_q.swapaxes(1, 2), slot_k.transpose(0, 2, 3, 1), out=run.between_slots.swapaxes(1, 2))
            np.matmul(heads_first(run.q), run.k[:T].transpose(1, 2, 0), out=heads_first(run.to_places))
            np.matmul(heads_first(run.k), run.q[: T + 1].transpose(1, 2, 0), out=heads_first(run.from_places))
        return between_slots, to_places, from_places

    @staticmethod
    @once_differentiable
    @np.errstate(all="ignore")
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        parts, query, key, q, k = ctx.saved_tensors
        by_between_slots, by_to_places, by_from_places = gradients
        (_, P, H, e), (_, n, S, *_), T = q.shape, by_between_slots.shape, by_to_places.shape[3]
        by_parts, by_query, by_key = torch.zeros_like(parts), torch.empty_like(query), torch.empty_like(key)
        of_slots, by_slots = parts.new_empty(2, n, S, H, e).numpy()  # [sample, slot, head, e]
        term_buffer = parts.new_empty(P, H, e).numpy()  # [part, head, e]
        by_x_buffer = parts.new_empty(parts.shape[1:]).numpy()  # [part, d]
        for run in by_run(
            slots=ctx.strings.slot_index_by_run,
            x=_unpadded(parts, ctx.strings),  # [part, d]
            W_Q=query,  # [d, head·e]
            W_K=key,  # [d, head·e]
            q=_unpadded(q, ctx.strings),  # [part, head, e]
            k=_unpadded(k, ctx.strings),  # [part, head, e]
            by_between_slots=by_between_slots,  # [sample, slot, head, slot]
            by_to_places=_unpadded(by_to_places, ctx.strings),  # [part, head, place]
            by_from_places=_unpadded(by_from_places, ctx.strings),  # [part, head, place + 1]
            by_x=_unpadded(by_parts, ctx.strings),  # [part, d]
            by_W_Q=by_query,  # [d, head·e]
            by_W_K=by_key,  # [d, head·e]
        ):
            rows = len(run.x)
            term, by_x_of_key = term_buffer[:rows], by_x_buffer[:rows]
            by_pairs = run.by_between_slots.swapaxes(1, 2)  # [sample, head, slot, slot]
            by_to, by_from = heads_first(run.by_to_places), heads_first(run.by_from_places)  # [head, part, place]

            _look_up(run.k, run.slots, of_slots)
            np.matmul(by_pairs, of_slots.swapaxes(1, 2), out=by_slots.swapaxes(1, 2))
            by_q = _add_up(by_slots, run.slots)  # [part, head, e]
            by_q += heads_first(np.matmul(by_to, heads_first(run.k[:T]), out=heads_first(term)))
            by_query_rows = np.matmul(by_from.swapaxes(1, 2), heads_first(run.k), out=heads_first(term[: T + 1]))
            by_q[: T + 1] += heads_first(by_query_rows)

            _look_up(run.q, run.slots, of_slots)
            np.matmul(by_pairs.swapaxes(2, 3), of_slots.swapaxes(1, 2), out=by_slots.swapaxes(1, 2))
            by_k = _add_up(by_slots, run.slots)  # [part, head, e]
            by_k += heads_first(np.matmul(by_from, heads_first(run.q[: T + 1]), out=heads_first(term)))
            by_k[:T] += heads_first(np.matmul(by_to.swapaxes(1, 2), heads_first(run.q), out=heads_first(term[:T])))

            by_q, by_k = by_q.reshape(rows, -1), by_k.reshape(rows, -1)  # [part, head·e]
            times_transposed(by_q, run.W_Q, run.by_x)
            np.add(run.by_x, times_transposed(by_k, run.W_K, by_x_of_key), out=run.by_x)
            np.matmul(run.x.T, by_q, out=run.by_W_Q)
            np.matmul(run.x.T, by_k, out=run.by_W_K)
        return by_parts, by_query, by_key, None, None


class _MixedValues(torch.autograd.Function):
    """Values through W_O, mixed by the weights of a string's slots and places; the normalisation's row has weight 1."""

    @staticmethod
    @np.errstate(all="ignore")
    def forward(
        ctx: Any,
        slot_weights: Tensor,
        place_weights: Tensor,
        parts: Tensor,
        value: Tensor,
        out: Tensor,
        strings: DistinctRows,
    ) -> Tensor:
        (R, P, _), (_, H, e, d), (_, n, T, _) = parts.shape, out.shape, slot_weights.shape
        v, values = parts.new_empty(R, P, H, e), parts.new_empty(R, P, H, d)  # [run, part, head, e or d]
        mixed = parts.new_empty(R, n * T, d)  # [run, sample·place, d]
        ctx.strings, S = strings, strings.slot_part.shape[2]
        ctx.save_for_backward(slot_weights, place_weights, parts, value, out, v, values)
        slot_values = parts.new_empty(n, S, H, d).numpy()  # [sample, slot, head, d]
        from_places = parts.new_empty(n * T, d).numpy()  # [sample·place, d]
        for run in by_run(
            slots=strings.slot_index_by_run,
            slot_weights=slot_weights,  # [sample, place, slot·head]
            place_weights=place_weights,  # [sample·place, head·place]
            x=_unpadded(parts, strings),  # [part, d]
            W_V=value,  # [d, head·e]
            W_O=out,  # [head, e, d]
            v=_unpadded(v, strings),  # [part, head, e]
            values=_unpadded(values, strings),  # [part, head, d]: v through W_O
            mixed=mixed,  # [sample·place, d]
        ):
            sums = run.mixed
            np.matmul(run.x, run.W_V, out=run.v.reshape(len(run.x), -1))
            np.matmul(heads_first(run.v), run.W_O, out=heads_first(run.values))
            _look_up(run.values, run.slots, slot_values)
            np.matmul(run.slot_weights, slot_values.reshape(n, -1, d), out=sums.reshape(n, T, d))
            sums += np.matmul(run.place_weights, heads_first(run.values[:T]).reshape(-1, d), out=from_places)
            sums += run.values[T].sum(0)
        return mixed

    @staticmethod
    @once_differentiable
    @np.errstate(all="ignore")
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        slot_weights, place_weights, parts, value, out, v, values = ctx.saved_tensors
        (by_mixed,) = gradients
        (_, P, H, d), (_, n, T, _), S = values.shape, slot_weights.shape, ctx.strings.slot_part.shape[2]
        by_parts = torch.zeros_like(parts)
        by_slot_weights, by_place_weights = torch.empty_like(slot_weights), torch.empty_like(place_weights)
        by_value, by_out = torch.empty_like(value), torch.empty_like(out)
        slot_values = parts.new_empty(n, S, H, d).numpy()  # [sample, slot, head, d]
        string_values = slot_values.reshape(n, -1, d)  # [sample, slot·head, d], the same memory
        by_v_buffer = parts.new_empty(H, P, v.shape[3]).numpy()  # [head, part, e]
        for run in by_run(
            slots=ctx.strings.slot_index_by_run,
            slot_weights=slot_weights,  # [sample, place, slot·head]
            place_weights=place_weights,  # [sample·place, head·place]
            x=_unpadded(parts, ctx.strings),  # [part, d]
            W_V=value,  # [d, head·e]
            W_O=out,  # [head, e, d]
            v=_unpadded(v, ctx.strings),  # [part, head, e]
            values=_unpadded(values, ctx.strings),  # [part, head, d]
            by_mixed=by_mixed,  # [sample·place, d]
            by_slot_weights=by_slot_weights,  # [sample, place, slot·head]
            by_place_weights=by_place_weights,  # [sample·place, head·place]
            by_x=_unpadded(by_parts, ctx.strings),  # [part, d]
            by_W_V=by_value,  # [d, head·e]
            by_W_O=by_out,  # [head, e, d]
        ):
            rows, by_strings = len(run.x), run.by_mixed.reshape(n, T, d)
            _look_up(run.values, run.slots, slot_values)
            np.matmul(by_strings, string_values.swapaxes(1, 2), out=run.by_slot_weights)
            times_transposed(run.by_mixed, heads_first(run.values[:T]).reshape(-1, d), run.by_place_weights)

            by_slot_values = slot_values  # no longer needed: their gradients take their memory
            np.matmul(run.slot_weights.swapaxes(1, 2), by_strings, out=string_values)
            by_values = _add_up(by_slot_values, run.slots)  # [part, head, d]
            by_values[:T] += heads_first(np.matmul(run.place_weights.T, run.by_mixed).reshape(H, T, d))
            by_values[T] += run.by_mixed.sum(0)

            np.matmul(run.v.transpose(1, 2, 0), heads_first(by_values), out=run.by_W_O)
            by_v = times_transposed(heads_first(by_values), run.W_O, by_v_buffer[:, :rows])  # [head, part, e]
            by_v = heads_first(by_v).reshape(rows, -1)  # [part, head·e]
            times_transposed(by_v, run.W_V, run.by_x)
            np.matmul(run.x.T, by_v, out=run.by_W_V)
        return by_slot_weights, by_place_weights, by_parts, by_value, by_out, None


def _unpadded(tables: Float[Tensor, "run part ..."], strings: DistinctRows) -> list[np.ndarray]:
    """Each run's table without the rows that pad it; views."""
    return [table[:count] for table, count in zip(tables.detach().numpy(), strings.part_counts, strict=True)]


def _look_up(
    table: Float[np.ndarray, "part head a"], slots: RowIndex, result: Float[np.ndarray, "sample slot head a"]
) -> None:
    rows, wanted = table.reshape(len(table), -1), slots.rows.numpy()
    rows.take(wanted, axis=0, out=result.reshape(len(wanted), -1), mode="clip")  # the default mode makes a copy


def _add_up(by_slots: Float[np.ndarray, "sample slot head a"], slots: RowIndex) -> Float[np.ndarray, "part head a"]:
    """The gradient of a table, from the gradients of the rows that `_look_up` took from it."""
    by_rows = torch.from_numpy(by_slots).view(len(slots.rows), -1)
    return slots.add_up(by_rows).numpy().reshape(-1, *by_slots.shape[2:])


def query_key_products(
    parts: Float[Tensor, "run part d"],
    query: Float[Tensor, "run d h"],
    key: Float[Tensor, "run d h"],
    heads: int,
    strings: DistinctRows,
) -> tuple[
    Float[Tensor, "run sample slot head slot"],
    Float[Tensor, "run part head place"],
    Float[Tensor, "run part head query"],
]:
    """Queries times keys, of three kinds: between the slots of each string; from every part to the places; from the
    places to every part, with the normalisation's row as one more query after them."""
    between_slots, to_places, from_places = _Products.apply(parts, query, key, heads, strings)
    return between_slots, to_places, from_places


def mixed_values(
    slot_weights: Float[Tensor, "run sample place slot_and_head"],
    place_weights: Float[Tensor, "run row head_and_place"],
    parts: Float[Tensor, "run part d"],
    value: Float[Tensor, "run d h"],
    out: Float[Tensor, "run head e d"],
    strings: DistinctRows,
) -> Float[Tensor, "run row d"]:
    """Values through W_O of each string's slots and places, mixed by their weights, plus the normalisation's row.

    A row of the result is a place of a sample.
    """
    mixed: Tensor = _MixedValues.apply(slot_weights, place_weights, parts, value, out, strings)
    return mixed
