"""Attention with one query per string, run by run: what belongs to a run stays in the cache until it is used.

q·(y·W_K) is (q·W_Kᵀ)·y, and values are mixed before W_V, so keys and values cost one row per string and head. Where
heads would be multiplied by the transpose of a weight, which is slow, the rows lie transposed as well. Names such as
by_x are gradients by x.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from foretrain.models.stacked.small_products import arrays, heads_first, times_transposed


class _Scores(torch.autograd.Function):
    """Products of the last place's query with the keys of all places, head by head."""

    @staticmethod
    @np.errstate(all="ignore")  # as torch: who trains looks at the losses
    def forward(ctx: Any, states: Tensor, query: Tensor, key: Tensor) -> Tensor:
        (R, n, T, d), (*_, H, e) = states.shape, key.shape
        q, looked, scores = (states.new_empty(R, *shape) for shape in ((H, e, n), (n, H, d), (n, H, T)))
        ctx.save_for_backward(states, query, key, q, looked)
        for y, W_Q, W_K, q_T, look, score in zip(*arrays(states, query, key, q, looked, scores), strict=True):
            np.matmul(W_Q.T, y[:, -1].T, out=q_T.reshape(H * e, n))
            np.matmul(q_T.swapaxes(1, 2), W_K.transpose(1, 2, 0), out=heads_first(look))
            np.matmul(look, y.swapaxes(1, 2), out=score)
        return scores

    @staticmethod
    @once_differentiable
    @np.errstate(all="ignore")
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        states, query, key, *_ = ctx.saved_tensors
        (_, n, _, d), (*_, H, e) = states.shape, key.shape
        found = [torch.empty_like(x) for x in (states, query, key)]
        by_look, by_q, by_asking = (states.new_empty(shape).numpy() for shape in ((n, H, d), (n, H * e), (n, d)))
        for y, W_Q, W_K, q_T, look, by_score, by_y, by_W_Q, by_W_K in zip(
            *arrays(*ctx.saved_tensors, *gradients, *found), strict=True
        ):
            np.matmul(by_score, y, out=by_look)
            np.matmul(by_score.swapaxes(1, 2), look, out=by_y)
            np.matmul(heads_first(by_look), heads_first(W_K), out=heads_first(by_q.reshape(n, H, e)))
            np.matmul(by_look.transpose(1, 2, 0), q_T.swapaxes(1, 2), out=heads_first(by_W_K))
            by_y[:, -1] += times_transposed(by_q, W_Q, by_asking)
            np.matmul(y[:, -1].T, by_q, out=by_W_Q)
        return tuple(found)


class _Mixed(torch.autograd.Function):
    """Values of all places by their weights, through W_O."""

    @staticmethod
    @np.errstate(all="ignore")
    def forward(ctx: Any, weights: Tensor, states: Tensor, value: Tensor, out: Tensor) -> Tensor:
        (R, n, _, d), (*_, H, e) = states.shape, value.shape
        values, found = states.new_empty(R, n, H * e), states.new_empty(R, n, d)
        ctx.save_for_backward(weights, states, value, out, values)
        mix = states.new_empty(n, H, d).numpy()
        for w, y, W_V, W_O, v, one in zip(*arrays(weights, states, value, out, values, found), strict=True):
            np.matmul(w, y, out=mix)
            np.matmul(heads_first(mix), heads_first(W_V), out=heads_first(v.reshape(n, H, e)))
            np.matmul(v, W_O, out=one)
        return found

    @staticmethod
    @once_differentiable
    @np.errstate(all="ignore")
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        weights, states, value, out, _ = ctx.saved_tensors
        (_, n, _, d), (*_, H, e) = states.shape, value.shape
        found = [torch.empty_like(x) for x in (weights, states, value, out)]
        mix, by_mix, by_v_T = (states.new_empty(shape).numpy() for shape in ((n, H, d), (n, H, d), (H, e, n)))
        for w, y, W_V, W_O, v, by_one, by_w, by_y, by_W_V, by_W_O in zip(
            *arrays(*ctx.saved_tensors, *gradients, *found), strict=True
        ):
            times_transposed(W_O, by_one, by_v_T.reshape(H * e, n))
            np.matmul(v.T, by_one, out=by_W_O)
            np.matmul(w, y, out=mix)
            np.matmul(mix.transpose(1, 2, 0), by_v_T.swapaxes(1, 2), out=heads_first(by_W_V))
            np.matmul(by_v_T.swapaxes(1, 2), W_V.transpose(1, 2, 0), out=heads_first(by_mix))
            np.matmul(by_mix, y.swapaxes(1, 2), out=by_w)
            np.matmul(w.swapaxes(1, 2), by_mix, out=by_y)
        return tuple(found)


def read_out_scores(
    states: Float[Tensor, "run sample place d"], query: Float[Tensor, "run d h"], key: Float[Tensor, "run d head e"]
) -> Float[Tensor, "run sample head place"]:
    """Products of the last place's query with the keys of all places."""
    found: Tensor = _Scores.apply(states, query, key)
    return found


def read_out_values(
    weights: Float[Tensor, "run sample head place"],
    states: Float[Tensor, "run sample place d"],
    value: Float[Tensor, "run d head e"],
    out: Float[Tensor, "run h d"],
) -> Float[Tensor, "run sample d"]:
    """Values of all places by their weights, through W_O."""
    found: Tensor = _Mixed.apply(weights, states, value, out)
    return found
