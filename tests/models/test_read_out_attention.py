"""Attention at the read-out position against its formula, and its gradients against differences."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import gradcheck

from foretrain.models.stacked.read_out_attention import read_out_scores, read_out_values

RUNS, SAMPLES, PLACES, D, HEADS, HEAD = 2, 3, 4, 5, 2, 3


def drawn(*shape: int) -> Tensor:
    draw = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()


def test_scores_are_products_of_the_last_query_with_all_keys():
    states, query = drawn(RUNS, SAMPLES, PLACES, D), drawn(RUNS, D, HEADS * HEAD)
    key = drawn(RUNS, D, HEADS, HEAD)
    q = torch.einsum("rnd,rdhe->rnhe", states[:, :, -1], query.view(RUNS, D, HEADS, HEAD))
    k = torch.einsum("rntd,rdhe->rnthe", states, key)
    torch.testing.assert_close(read_out_scores(states, query, key), torch.einsum("rnhe,rnthe->rnht", q, k))
    assert gradcheck(read_out_scores, (states, query, key))


def test_values_are_mixed_by_their_weights_and_go_through_the_last_matrix():
    weights, states = drawn(RUNS, SAMPLES, HEADS, PLACES), drawn(RUNS, SAMPLES, PLACES, D)
    value, out = drawn(RUNS, D, HEADS, HEAD), drawn(RUNS, HEADS * HEAD, D)
    v = torch.einsum("rntd,rdhe->rnthe", states, value)
    mixed = torch.einsum("rnht,rnthe->rnhe", weights, v)
    wanted = torch.einsum("rnhe,rhed->rnd", mixed, out.view(RUNS, HEADS, HEAD, D))
    torch.testing.assert_close(read_out_values(weights, states, value, out), wanted)
    assert gradcheck(read_out_values, (weights, states, value, out))


def test_gradients_may_come_as_views():
    inputs = (drawn(RUNS, SAMPLES, PLACES, D), drawn(RUNS, D, HEADS * HEAD), drawn(RUNS, D, HEADS, HEAD))
    scores = read_out_scores(*inputs)
    of_view = torch.autograd.grad(scores.sum(), inputs, retain_graph=True)  # ones that share one place in memory
    of_copy = torch.autograd.grad(scores, inputs, torch.ones_like(scores))
    for view, copy in zip(of_view, of_copy, strict=True):
        torch.testing.assert_close(view, copy)
