"""Products and softmax of many small matrices: torch's own numbers, without the copies it makes of such shapes."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


class _Products(torch.autograd.Function):
    """x·yᵀ of many small matrices. Torch's own gradient of y comes out transposed and is copied; this one does not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return torch.bmm(x, y.mT)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        (gradient,) = gradients
        return _sums(gradient, y), _sums(gradient.mT, x)


def _sums(weights: Float[Tensor, "matrix i j"], rows: Float[Tensor, "matrix j d"]) -> Tensor:
    """weights·rows; of two rows torch would add up number by number."""
    if rows.shape[1] > 2:
        return torch.bmm(weights, rows)
    out = weights[:, :, :1] * rows[:, :1]
    return out.addcmul_(weights[:, :, 1:], rows[:, 1:]) if rows.shape[1] == 2 else out


def products(x: Tensor, y: Tensor) -> Tensor:
    """x·yᵀ over the first axis."""
    product: Tensor = _Products.apply(x, y)
    return product


class _PerHead(torch.autograd.Function):
    """Each head's rows times its own matrix. Nothing is copied: BLAS steps over the other heads by itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrices: Tensor) -> Tensor:
        ctx.save_for_backward(x, matrices)
        return _each_run(x.transpose(1, 2), matrices).transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (x, matrices), (gradient,) = ctx.saved_tensors, gradients
        by_x = _each_run(gradient.transpose(1, 2), matrices.mT)
        by_matrices = torch.empty_like(matrices)  # in the order of the parameter that they view
        for rows, wanted, into in zip(x, gradient, by_matrices, strict=True):
            torch.bmm(rows.permute(1, 2, 0), wanted.transpose(0, 1), out=into)
        return by_x.transpose(1, 2), by_matrices


def _each_run(x: Tensor, y: Tensor) -> Tensor:
    """x·y over [run, head]; of more than one run at once torch would make copies."""
    out = x.new_empty(*x.shape[:3], y.shape[3])
    for left, right, into in zip(x, y, out, strict=True):
        torch.bmm(left, right, out=into)
    return out


def per_head(x: Float[Tensor, "run row head a"], matrices: Float[Tensor, "run head a b"]) -> Tensor:
    """[run, row, head, b]"""
    found: Tensor = _PerHead.apply(x, matrices)
    return found


def softmax_over_few(logits: Tensor) -> Tensor:
    """Softmax over the last axis, which is short: along the first axis torch does many rows in one instruction."""
    return torch.softmax(logits.movedim(-1, 0).contiguous(), dim=0).movedim(0, -1).contiguous()
