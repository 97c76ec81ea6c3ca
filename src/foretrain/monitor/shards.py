"""Where the heads or hidden units of a module lie among those of all processes.

Under tensor parallelism the rows of a module's matrices are spread over processes, and each one computes some heads,
or some units, of the whole. What it measures of them is put in its place in a tensor for all of them, so that adding
up, or taking the largest, over all processes gives the whole.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Shard:
    """The `index`-th of `count` equal parts."""

    index: int = 0
    count: int = 1

    def placed(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """These values in their place along the last axis, with `fill` where those of other processes are."""
        if self.count == 1:
            return values
        size = values.shape[-1]
        whole = values.new_full((*values.shape[:-1], self.count * size), fill)
        whole[..., self.index * size : (self.index + 1) * size] = values
        return whole


WHOLE = Shard()


def shard_of(*modules: nn.Module) -> Shard:
    """How the matrices of these modules, or of their children, are cut by rows at this moment.

    With FSDP's `fully_shard` alone they are whole while their module runs. A child that is wrapped by itself is whole
    only while it runs, and is left out.
    """
    if not _dtensors_exist():
        return WHOLE
    held = [module for parent in modules for module in (parent, *parent.children())]
    for module in held:
        if module in modules or not _is_sharded_by_itself(module):
            for parameter in module._parameters.values():
                if parameter is not None and parameter.ndim == 2 and (shard := shard_along(parameter, 0)) != WHOLE:
                    return shard
    return WHOLE


def shard_along(tensor: Tensor, axis: int) -> Shard:
    """Which part along this axis the process holds of a tensor that may be spread over processes."""
    index, count = 0, 1
    for dimension, placement in enumerate(getattr(tensor, "placements", ())):
        if placement.is_shard(axis):
            mesh: Any = tensor.device_mesh  # type: ignore[attr-defined]
            count *= mesh.size(dimension)
            index = index * mesh.size(dimension) + mesh.get_local_rank(dimension)
    return Shard(index, count)


def local_part(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor; nothing is sent. Refuses one whose parts have to be added first."""
    if not hasattr(tensor, "placements"):
        return tensor
    if any(placement.is_partial() for placement in tensor.placements):
        raise ValueError("a tensor whose parts are still to be added over processes cannot be read")
    part: Tensor = tensor.to_local()  # type: ignore[attr-defined]
    return part


def _dtensors_exist() -> bool:
    return "torch.distributed.tensor" in sys.modules and torch.distributed.is_initialized()


def _is_sharded_by_itself(module: nn.Module) -> bool:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and hasattr(fsdp, "FSDPModule") and isinstance(module, fsdp.FSDPModule)
