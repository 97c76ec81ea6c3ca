"""Effective ranks of matrices that are shards, or on an accelerator: these need every singular value.

Shards are put together for a moment, at most 64 MB at once, never the whole model. Only matrices whose shorter side is
at most 1024 are measured: for larger ones an accelerator would stand still for seconds. And an accelerator makes the
host wait for every decomposition, so there matrices of one size are decomposed together, and at each record it is the
turn of a few sizes only.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from foretrain.monitor.held import Held
from foretrain.monitor.spectra import AddUp

LONGEST_SIDE = 1024  # of the shorter side
AT_ONCE = 1 << 24  # entries that are put together, and entries of Gram matrices that are decomposed, at once
WAITS = 3  # decompositions at one record, on an accelerator


def effective_ranks(matrices: Mapping[str, Held], add_up: AddUp, turn: int, every: int) -> dict[str, Tensor]:
    """exp of the entropy of the singular values, on the device: of all matrices at every so many turns on the CPU, of
    some of them at every turn on an accelerator."""
    batches = _batches({name: held for name, held in matrices.items() if min(held.shape) <= LONGEST_SIDE})
    if not batches:
        return {}
    if matrices[batches[0][0]].values().device.type == "cpu":
        batches = batches if turn % every == 0 else []
    elif len(batches) > WAITS:
        batches = [batches[(turn * WAITS + k) % len(batches)] for k in range(WAITS)]
    ranks: dict[str, Tensor] = {}
    for names in batches:
        whole = add_up([_padded(matrices[name]) for name in names])
        ranks |= dict(zip(names, _of_grams(torch.stack([_gram(W) for W in whole])), strict=True))
    return ranks


def _batches(matrices: Mapping[str, Held]) -> list[list[str]]:
    """Names of matrices of one size, as many as are measured at once."""
    batches: list[list[str]] = []
    by_size: dict[tuple[int, ...], list[str]] = {}
    for name, held in matrices.items():
        by_size.setdefault(tuple(sorted(held.shape)), []).append(name)
    for (short, long), names in by_size.items():
        most = max(1, AT_ONCE // (short * long))
        batches += [names[first : first + most] for first in range(0, len(names), most)]
    return batches


def _padded(held: Held) -> Tensor:
    """The matrix with zeros where other processes hold it; they add up to the whole."""
    block, (row, column) = held.block(), held.offset
    wide = torch.promote_types(block.dtype, torch.float32)
    if held.whole:
        return block.to(wide)
    whole = torch.zeros(held.shape, dtype=wide, device=block.device)
    whole[row : row + block.shape[0], column : column + block.shape[1]] = block / held.copies
    return whole


def _gram(W: Tensor) -> Tensor:
    W = W if W.device.type == "mps" else W.double()
    W = W if W.shape[0] >= W.shape[1] else W.mT
    return W.mT @ W


def _of_grams(grams: Tensor) -> Tensor:
    """From WᵀW of several matrices."""
    values = torch.linalg.eigvalsh(grams).clamp(min=0).sqrt()
    shares = values / values.sum(-1, keepdim=True)
    return torch.exp(-torch.special.xlogy(shares, shares).sum(-1))
