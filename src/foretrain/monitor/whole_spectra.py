"""Effective ranks of matrices that are shards, or on an accelerator: these need every singular value.

Shards are put together for a moment, at most 64 MB at once, never the whole model. Only matrices with a side of at most
1024 are measured: for larger ones an accelerator would stand still for seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from foretrain.measures.matrices import LARGE
from foretrain.monitor.held import Held
from foretrain.monitor.spectra import AddUp

LONGEST_SIDE = 1024  # of the shorter side
AT_ONCE = 1 << 24  # entries that are put together at once


def effective_ranks(matrices: Mapping[str, Held], add_up: AddUp) -> dict[str, Tensor]:
    """exp of the entropy of the singular values, on the device."""
    ranks = {}
    small = {name: held for name, held in matrices.items() if min(held.shape) <= LONGEST_SIDE}
    for names in _batches(small):
        for name, W in zip(names, add_up([_padded(small[name]) for name in names]), strict=True):
            ranks[name] = _effective_rank(W)
    return ranks


def _batches(matrices: Mapping[str, Held]) -> Iterator[list[str]]:
    batch: list[str] = []
    room = AT_ONCE
    for name, held in matrices.items():
        size = held.shape[0] * held.shape[1]
        if batch and size > room:
            yield batch
            batch, room = [], AT_ONCE
        batch.append(name)
        room -= size
    if batch:
        yield batch


def _padded(held: Held) -> Tensor:
    """The matrix with zeros where other processes hold it; they add up to the whole."""
    block, (row, column) = held.block(), held.offset
    wide = torch.promote_types(block.dtype, torch.float32)
    if held.whole:
        return block.to(wide)
    whole = torch.zeros(held.shape, dtype=wide, device=block.device)
    whole[row : row + block.shape[0], column : column + block.shape[1]] = block / held.copies
    return whole


def _effective_rank(W: Tensor) -> Tensor:
    W = W if W.device.type == "mps" else W.double()
    if min(W.shape) < LARGE:
        values = torch.linalg.svdvals(W)
    else:
        W = W if W.shape[0] >= W.shape[1] else W.mT
        values = torch.linalg.eigvalsh(W.mT @ W).clamp(min=0).sqrt()
    shares = values / values.sum()
    return torch.exp(-torch.special.xlogy(shares, shares).sum())
