"""Attention of the first layer against its formula, and its gradients against differences, for all kinds of strings."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from foretrain.models.stacked.distinct_rows import DistinctRows, distinct_rows
from foretrain.models.stacked.first_layer_attention import mixed_values, query_key_products

D, HEADS, HEAD = 5, 2, 3
STRINGS = {
    "fixed place": [[0, 1, 9], [1, 0, 9], [2, 2, 9]],
    "none fixed": [[0, 1, 2], [1, 2, 0], [5, 6, 7]],
    "one token": [[5, 5, 5]],
}
FEWER_TOKENS = [[0, 1, 1], [1, 0, 9], [0, 0, 1]]  # than in another run, whose table of parts is longer


def drawn(*shape: int) -> Tensor:
    draw = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()


@pytest.fixture(params=[*STRINGS.values(), FEWER_TOKENS], ids=[*STRINGS.keys(), "fewer tokens in one run"])
def strings(request) -> DistinctRows:
    own = torch.tensor(request.param)
    other = torch.tensor(STRINGS["none fixed"]) if request.param is FEWER_TOKENS else own
    return distinct_rows(torch.stack([own, 8 + other.flip(0)]))


def free(strings: DistinctRows) -> list[int]:
    return [place for place in range(strings.strings.shape[2]) if place not in strings.fixed_places.tolist()]


def padded_with_zeros(table: Tensor, strings: DistinctRows) -> Tensor:
    """[run, part, ...] with zeros for the rows that pad a run's table."""
    counts = [len(of_run[:, free(strings)].unique()) for of_run in strings.strings]
    own = torch.arange(strings.part_count) < torch.tensor(counts)[:, None] + strings.strings.shape[2] + 2
    return torch.where(own.view(*own.shape, *[1] * (table.ndim - 2)), table, 0)


def test_each_run_has_its_own_number_of_parts():
    fewer, more = torch.tensor(FEWER_TOKENS), torch.tensor(STRINGS["none fixed"])
    strings = distinct_rows(torch.stack([fewer, more]))
    assert strings.part_count == 3 + 2 + 6
    assert strings.part_counts == [3 + 2 + 3, 3 + 2 + 6]
    assert strings.select_runs(torch.tensor([1, 0])).part_counts == [3 + 2 + 6, 3 + 2 + 3]
    assert strings.select_samples(torch.tensor([[0, 2], [0, 1]])).part_counts == [3 + 2 + 2, 3 + 2 + 3]


def slots_of(table: Tensor, strings: DistinctRows) -> Tensor:
    """[run, sample, slot, head, ...] of a table [run, part, head, ...]."""
    return torch.stack([of_run[rows] for of_run, rows in zip(table, strings.slot_part, strict=True)])


def test_products_of_queries_and_keys(strings):
    R, T, P = *strings.pair_at.shape[::2], strings.part_count
    parts, query, key = drawn(R, P, D), drawn(R, D, HEADS * HEAD), 2 * drawn(R, D, HEADS * HEAD)
    between_slots, to_places, from_places = query_key_products(parts, query, key, HEADS, strings)
    q, k = ((parts @ weight).view(R, P, HEADS, HEAD) for weight in (query, key))
    wanted = torch.einsum("rnahe,rnbhe->rnahb", slots_of(q, strings), slots_of(k, strings))
    torch.testing.assert_close(between_slots, wanted)
    by_places = torch.einsum("rphe,rthe->rpht", q, k[:, :T]), torch.einsum("rphe,rthe->rpht", k, q[:, : T + 1])
    torch.testing.assert_close(to_places, padded_with_zeros(by_places[0], strings))
    torch.testing.assert_close(from_places, padded_with_zeros(by_places[1], strings))
    assert gradcheck(lambda *inputs: query_key_products(*inputs, HEADS, strings), (parts, query, key))


def test_values_by_the_weights_of_slots_and_places(strings):
    R, n, T = strings.pair_at.shape
    P, S = strings.part_count, strings.slot_part.shape[2]
    slot_weights, place_weights = drawn(R, n, T, S * HEADS), drawn(R, n * T, HEADS * T)
    parts, value, out = drawn(R, P, D), drawn(R, D, HEADS * HEAD), drawn(R, HEADS, HEAD, D)
    values = torch.einsum("rphe,rhed->rphd", (parts @ value).view(R, P, HEADS, HEAD), out)
    of_slots = torch.einsum("rntsh,rnshd->rntd", slot_weights.view(R, n, T, S, HEADS), slots_of(values, strings))
    of_places = torch.einsum("rnthu,ruhd->rntd", place_weights.view(R, n, T, HEADS, T), values[:, :T])
    wanted = of_slots + of_places + values[:, None, None, T].sum(3)
    mixed = mixed_values(slot_weights, place_weights, parts, value, out, strings)
    torch.testing.assert_close(mixed, wanted.view(R, n * T, D))
    assert gradcheck(lambda *inputs: mixed_values(*inputs, strings), (slot_weights, place_weights, parts, value, out))
