"""Attention from parts of rows against its formula, and its gradients against differences, for any kind of strings."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from foretrain.models.stacked.part_attention import part_products, part_values
from foretrain.models.stacked.string_rows import StringRows, string_rows

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
def strings(request) -> StringRows:
    own = torch.tensor(request.param)
    other = torch.tensor(STRINGS["none fixed"]) if request.param is FEWER_TOKENS else own
    return string_rows(torch.stack([own, 8 + other.flip(0)]))


def free(strings: StringRows) -> list[int]:
    return [place for place in range(strings.strings.shape[2]) if place not in strings.fixed.tolist()]


def filled_up_with_zeros(table: Tensor, strings: StringRows) -> Tensor:
    """[run, part, ...] with zeros for what no string of the run holds."""
    counts = [len(of_run[:, free(strings)].unique()) for of_run in strings.strings]
    own = torch.arange(strings.parts) < torch.tensor(counts)[:, None] + strings.strings.shape[2] + 2
    return torch.where(own.view(*own.shape, *[1] * (table.ndim - 2)), table, 0)


def test_each_run_has_its_own_number_of_parts():
    fewer, more = torch.tensor(FEWER_TOKENS), torch.tensor(STRINGS["none fixed"])
    strings = string_rows(torch.stack([fewer, more]))
    assert strings.parts == 3 + 2 + 6
    assert strings.parts_by_run == [3 + 2 + 3, 3 + 2 + 6]
    assert strings.of_runs(torch.tensor([1, 0])).parts_by_run == [3 + 2 + 6, 3 + 2 + 3]
    assert strings.some(torch.tensor([[0, 2], [0, 1]])).parts_by_run == [3 + 2 + 2, 3 + 2 + 3]


def slots_of(table: Tensor, strings: StringRows) -> Tensor:
    """[run, sample, slot, head, ...] of a table [run, part, head, ...]."""
    return torch.stack([of_run[rows] for of_run, rows in zip(table, strings.slot_part, strict=True)])


def test_products_of_queries_and_keys(strings):
    R, T, P = *strings.pair_row.shape[::2], strings.parts
    parts, query, key = drawn(R, P, D), drawn(R, D, HEADS * HEAD), 2 * drawn(R, D, HEADS * HEAD)
    tokens, to_places, of_places = part_products(parts, query, key, HEADS, strings)
    q, k = ((parts @ weight).view(R, P, HEADS, HEAD) for weight in (query, key))
    wanted = torch.einsum("rnahe,rnbhe->rnahb", slots_of(q, strings), slots_of(k, strings))
    torch.testing.assert_close(tokens, wanted)
    by_places = torch.einsum("rphe,rthe->rpht", q, k[:, :T]), torch.einsum("rphe,rthe->rpht", k, q[:, : T + 1])
    torch.testing.assert_close(to_places, filled_up_with_zeros(by_places[0], strings))
    torch.testing.assert_close(of_places, filled_up_with_zeros(by_places[1], strings))
    assert gradcheck(lambda *inputs: part_products(*inputs, HEADS, strings), (parts, query, key))


def test_values_by_the_weights_of_slots_and_places(strings):
    R, n, T = strings.pair_row.shape
    P, S = strings.parts, strings.slot_part.shape[2]
    slot_weights, weights = drawn(R, n, T, S * HEADS), drawn(R, n * T, HEADS * T)
    parts, value, out = drawn(R, P, D), drawn(R, D, HEADS * HEAD), drawn(R, HEADS, HEAD, D)
    values = torch.einsum("rphe,rhed->rphd", (parts @ value).view(R, P, HEADS, HEAD), out)
    of_slots = torch.einsum("rntsh,rnshd->rntd", slot_weights.view(R, n, T, S, HEADS), slots_of(values, strings))
    of_places = torch.einsum("rnthu,ruhd->rntd", weights.view(R, n, T, HEADS, T), values[:, :T])
    wanted = of_slots + of_places + values[:, None, None, T].sum(3)
    found = part_values(slot_weights, weights, parts, value, out, strings)
    torch.testing.assert_close(found, wanted.view(R, n * T, D))
    assert gradcheck(lambda *inputs: part_values(*inputs, strings), (slot_weights, weights, parts, value, out))
