"""The loss of a language model, with a gradient that is made on the spot.

torch's cross-entropy walks through the logits, which are by far the largest tensor here, about eight times in a step.
This one takes a block of rows while it is in the cache, turns its logits into their own gradient, and is done.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

BLOCK = 1 << 19  # logits at once: 2 MB


def cross_entropy(logits: Float[Tensor, "row vocabulary"], targets: Int[Tensor, "row"]) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats. If a gradient is wanted, it overwrites the logits: do not use them again."""
    if not (logits.requires_grad and torch.is_grad_enabled()) or logits.dtype != torch.float32:
        return F.cross_entropy(logits, targets)
    return _CrossEntropy.apply(logits, targets)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        gradient = logits.detach()  # the same memory
        count = len(gradient)
        losses = gradient.new_empty(count)
        rows = max(1, BLOCK // gradient.shape[1])
        for first in range(0, count, rows):
            block, target = gradient[first : first + rows], targets[first : first + rows, None]
            block -= block.amax(-1, keepdim=True)
            chosen = block.gather(-1, target)[:, 0]
            total = block.exp_().sum(-1, keepdim=True)
            losses[first : first + rows] = total[:, 0].log() - chosen
            block /= total * count
            block.scatter_add_(-1, target, block.new_full(target.shape, -1 / count))
        ctx.gradient = gradient
        return losses.mean()

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor, None]:
        gradient, ctx.gradient = ctx.gradient, None
        unchanged = factor.device.type == "cpu" and float(factor) == 1.0  # elsewhere, asking would wait for the device
        return gradient if unchanged else gradient.mul_(factor), None
