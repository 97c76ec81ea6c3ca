"""Attention with one query per string (at the read-out place), run by run.

q·(y·W_K) is (q·W_Kᵀ)·y, and values can be mixed before W_V, so keys and values cost one row per string and head. Going
run by run keeps a run's arrays in the processor's cache until they have been used. Where heads would be multiplied by
the transpose of a weight, which is slow, rows are stored transposed as well (names in _T). Names such as by_x are
gradients with respect to x; d is the width of the embedding, e that of a head.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from foretrain.models.stacked.run_views import by_run
from foretrain.models.stacked.small_products import heads_first, times_transposed


class _Scores(torch.autograd.Function):
    """Products of the last place's query with the keys of all places, head by head."""

    @staticmethod
    @np.errstate(all="ignore")  # like torch: the training loop checks the losses
    def forward(ctx: Any, states: Tensor, query: Tensor, key: Tensor) -> Tensor:
        (R, n, T, d), (*_, H, e) = states.shape, key.shape
        q_T = states.new_empty(R, H, e, n)  # [run, head, e, sample]
        q_through_key = states.new_empty(R, n, H, d)  # [run, sample, head, d]
        scores = states.new_empty(R, n, H, T)  # [run, sample, head, place]
        ctx.save_for_backward(states, query, key, q_T, q_through_key)
        for run in by_run(
            y=states,  # [sample, place, d]
            W_Q=query,  # [d, head·e]
            W_K=key,  # [d, head, e]
            q_T=q_T,  # [head, e, sample]
            q_through_key=q_through_key,  # [sample, head, d]: q·W_Kᵀ
            scores=scores,  # [sample, head, place]
        ):
            np.matmul(run.W_Q.T, run.y[:, -1].T, out=run.q_T.reshape(H * e, n))
            np.matmul(run.q_T.swapaxes(1, 2), run.W_K.transpose(1, 2, 0), out=heads_first(run.q_through_key))
            np.matmul(run.q_through_key, run.y.swapaxes(1, 2), out=run.scores)
        return scores

    @staticmethod
    @once_differentiable
    @np.errstate(all="ignore")
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        states, query, key, q_T, q_through_key = ctx.saved_tensors
        (by_scores,) = gradients
        (_, n, _, d), (*_, H, e) = states.shape, key.shape
        by_states, by_query, by_key = (torch.empty_like(x) for x in (states, query, key))
        by_q_through_key = states.new_empty(n, H, d).numpy()  # [sample, head, d]
        by_q = states.new_empty(n, H * e).numpy()  # [sample, head·e]
        by_last_y = states.new_empty(n, d).numpy()  # [sample, d]
        for run in by_run(
            y=states,  # [sample, place, d]
            W_Q=query,  # [d, head·e]
            W_K=key,  # [d, head, e]
            q_T=q_T,  # [head, e, sample]
            q_through_key=q_through_key,  # [sample, head, d]
            by_scores=by_scores,  # [sample, head, place]
            by_y=by_states,  # [sample, place, d]
            by_W_Q=by_query,  # [d, head·e]
            by_W_K=by_key,  # [d, head, e]
        ):
            np.matmul(run.by_scores, run.y, out=by_q_through_key)
            np.matmul(run.by_scores.swapaxes(1, 2), run.q_through_key, out=run.by_y)
            np.matmul(heads_first(by_q_through_key), heads_first(run.W_K), out=heads_first(by_q.reshape(n, H, e)))
            np.matmul(by_q_through_key.transpose(1, 2, 0), run.q_T.swapaxes(1, 2), out=heads_first(run.by_W_K))
            run.by_y[:, -1] += times_transposed(by_q, run.W_Q, by_last_y)
            np.matmul(run.y[:, -1].T, by_q, out=run.by_W_Q)
        return by_states, by_query, by_key


class _ReadOutValues(torch.autograd.Function):
    """Values of all places, mixed by their weights, through W_O."""

    @staticmethod
    @np.errstate(all="ignore")
    def forward(ctx: Any, weights: Tensor, states: Tensor, value: Tensor, out: Tensor) -> Tensor:
        (R, n, _, d), (*_, H, e) = states.shape, value.shape
        v, result = states.new_empty(R, n, H * e), states.new_empty(R, n, d)  # [run, sample, head·e or d]
        ctx.save_for_backward(weights, states, value, out, v)
        mix = states.new_empty(n, H, d).numpy()  # [sample, head, d]
        for run in by_run(
            weights=weights,  # [sample, head, place]
            y=states,  # [sample, place, d]
            W_V=value,  # [d, head, e]
            W_O=out,  # [head·e, d]
            v=v,  # [sample, head·e]
            result=result,  # [sample, d]
        ):
            np.matmul(run.weights, run.y, out=mix)
            np.matmul(heads_first(mix), heads_first(run.W_V), out=heads_first(run.v.reshape(n, H, e)))
            np.matmul(run.v, run.W_O, out=run.result)
        return result

    @staticmethod
    @once_differentiable
    @np.errstate(all="ignore")
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        weights, states, value, out, v = ctx.saved_tensors
        (by_result,) = gradients
        (_, n, _, d), (*_, H, e) = states.shape, value.shape
        by_weights, by_states, by_value, by_out = (torch.empty_like(x) for x in (weights, states, value, out))
        mix, by_mix = (states.new_empty(n, H, d).numpy() for _ in range(2))  # [sample, head, d]
        by_v_T = states.new_empty(H, e, n).numpy()  # [head, e, sample]
        for run in by_run(
            weights=weights,  # [sample, head, place]
            y=states,  # [sample, place, d]
            W_V=value,  # [d, head, e]
            W_O=out,  # [head·e, d]
            v=v,  # [sample, head·e]
            by_result=by_result,  # [sample, d]
            by_weights=by_weights,  # [sample, head, place]
            by_y=by_states,  # [sample, place, d]
            by_W_V=by_value,  # [d, head, e]
            by_W_O=by_out,  # [head·e, d]
        ):
            times_transposed(run.W_O, run.by_result, by_v_T.reshape(H * e, n))
            np.matmul(run.v.T, run.by_result, out=run.by_W_O)
            np.matmul(run.weights, run.y, out=mix)
            np.matmul(mix.transpose(1, 2, 0), by_v_T.swapaxes(1, 2), out=heads_first(run.by_W_V))
            np.matmul(by_v_T.swapaxes(1, 2), run.W_V.transpose(1, 2, 0), out=heads_first(by_mix))
            np.matmul(by_mix, run.y.swapaxes(1, 2), out=run.by_weights)
            np.matmul(run.weights.swapaxes(1, 2), by_mix, out=run.by_y)
        return by_weights, by_states, by_value, by_out


def read_out_scores(
    states: Float[Tensor, "run sample place d"], query: Float[Tensor, "run d h"], key: Float[Tensor, "run d head e"]
) -> Float[Tensor, "run sample head place"]:
    """Products of the last place's query with the keys of all places."""
    scores: Tensor = _Scores.apply(states, query, key)
    return scores


def read_out_values(
    weights: Float[Tensor, "run sample head place"],
    states: Float[Tensor, "run sample place d"],
    value: Float[Tensor, "run d head e"],
    out: Float[Tensor, "run h d"],
) -> Float[Tensor, "run sample d"]:
    """Values of all places, mixed by their weights, through W_O."""
    values: Tensor = _ReadOutValues.apply(weights, states, value, out)
    return values
