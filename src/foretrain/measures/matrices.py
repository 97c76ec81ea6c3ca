"""Preparing one weight matrix for a spectrum: its number type, its size, and whether its entries are finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from foretrain.core.errors import require

LARGE = 256  # both sides; at this size Lanczos overtakes svdvals, below it the exact values are cheap
_SAFE = 1e-15, 1e15  # within these, neither σ² nor σ⁴ of the usual numbers leaves float32


@dataclass(frozen=True)
class Prepared:
    """A matrix ready for Lanczos: finite, float32 or float64, at least as tall as wide, and divided by `scale`."""

    W: Float[Tensor, "m n"]
    norm: float  # of W, Frobenius
    scale: float

    def random(self, generator: torch.Generator) -> Float[Tensor, "m"]:
        """A random vector whose length is about 1."""
        height = self.W.shape[0]
        return torch.randn(height, generator=generator, device="cpu").div_(math.sqrt(height)).to(self.W)

    def singular_values(self) -> Float[Tensor, "n"]:
        """All of them, in float64 and in ascending order, from the Gram matrix unless W is small."""
        W = self.W.cpu() if self.W.device.type == "mps" else self.W  # has no float64
        if min(W.shape) < LARGE:
            return torch.linalg.svdvals(W.double()).flip(0)
        return torch.linalg.eigvalsh(W.double().mT @ W.double()).clamp(min=0).sqrt()


def prepare(matrix: Tensor, name: str) -> Prepared:
    """Raise an InputError that names the matrix if it is empty, not a matrix, or has an infinite or undefined entry."""
    require(matrix.ndim == 2, f"{name} must be a matrix with 2 axes; its shape is {list(matrix.shape)}.")
    require(matrix.numel() > 0, f"{name} has no entries: its shape is {list(matrix.shape)}.")
    require(not matrix.is_complex(), f"{name} must have real entries; its type is {matrix.dtype}.")
    W = matrix.detach()
    if W.dtype not in (torch.float32, torch.float64):
        W = W.float()
    if 1 not in W.stride():
        W = W.contiguous()
    W = W if W.shape[0] >= W.shape[1] else W.mT
    norm, scale = _norm(W), 1.0
    if not _SAFE[0] < norm < _SAFE[1]:
        scale = float(W.abs().max())
        require(math.isfinite(scale), f"{name} has an entry that is infinite or not a number.")
        if scale > 0:
            W = W / scale
            norm = _norm(W)
    return Prepared(W, norm, scale)


@contextmanager
def plain_arithmetic(device: torch.device) -> Iterator[None]:
    """No gradients, and no autocast: a training loop may call from inside one, which would multiply in bfloat16."""
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        yield


def _norm(W: Tensor) -> float:
    """First along the contiguous axis: over a strided view as a whole, torch is 8 times slower and off by 1e-4."""
    lines = torch.linalg.vector_norm(W, dim=-1 if W.stride(-1) == 1 else -2)
    return float(lines.cpu().double().norm())
