"""Products and softmax of many small matrices.

NumPy's BLAS multiplies small matrices one by one, wherever they are in memory. On these sizes that is up to four times
as fast as torch's batched product, and interleaved heads need not be copied first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


class _Product(torch.autograd.Function):
    """x·y over leading axes. With `rows_first`, the result [run, head, row, b] is stored as [run, row, head, b]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, rows_first: bool) -> Tensor:
        ctx.save_for_backward(x, y)
        *leading, rows, _ = x.shape
        if rows_first:
            run, heads = leading
            result = x.new_empty(run, rows, heads, y.shape[-1]).transpose(1, 2)
        else:
            result = x.new_empty(*leading, rows, y.shape[-1])
        return _multiply(x, y, result)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (x, y), (gradient,) = ctx.saved_tensors, gradients
        needs_x, needs_y = ctx.needs_input_grad[:2]
        return (
            _multiply(gradient, y.mT, torch.empty_like(x)) if needs_x else None,
            _multiply(x.mT, gradient, torch.empty_like(y)) if needs_y else None,
            None,
        )


def _multiply(x: Tensor, y: Tensor, result: Tensor) -> Tensor:
    with np.errstate(all="ignore"):  # like torch: the training loop checks the losses
        np.matmul(x.detach().numpy(), y.detach().numpy(), out=result.numpy())
    return result


def heads_first(rows: Float[np.ndarray, "row head a"]) -> Float[np.ndarray, "head row a"]:
    """Swap the axes of rows and heads; the result is a view, and a second swap undoes the first."""
    return rows.swapaxes(0, 1)


def times_transposed(x: np.ndarray, y: np.ndarray, result: np.ndarray) -> np.ndarray:
    """x·yᵀ for larger matrices, where torch's BLAS is faster."""
    torch.matmul(torch.from_numpy(x), torch.from_numpy(y).mT, out=torch.from_numpy(result))
    return result


def product(x: Float[Tensor, "matrix i j"], y: Float[Tensor, "matrix j k"]) -> Float[Tensor, "matrix i k"]:
    """x·y, matrix by matrix."""
    products: Tensor = _Product.apply(x, y, False)
    return products


def product_per_head(x: Float[Tensor, "run row head a"], matrices: Float[Tensor, "run head a b"]) -> Tensor:
    """Each head's rows times the head's own matrix: [run, row, head, b]."""
    products: Tensor = _Product.apply(x.transpose(1, 2), matrices, True)
    return products.transpose(1, 2)


def softmax_over_short_axis(logits: Tensor) -> Tensor:
    """Softmax over the last axis, which is short. Along the first axis torch handles many rows per instruction."""
    return torch.softmax(logits.movedim(-1, 0).contiguous(), dim=0).movedim(0, -1).contiguous()
