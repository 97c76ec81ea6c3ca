"""Which processes train a model together: not always all of them, as where two models are trained side by side."""

from __future__ import annotations

import sys
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def ranks_of(model: nn.Module) -> list[int]:
    """The ranks of the processes that hold this model or parts of it; all, where its wrapper does not say."""
    everybody = list(range(dist.get_world_size()))
    ranks = _of_shards(model) or _of_wrapper(model)
    return ranks if ranks and dist.get_rank() in ranks else everybody


def _of_shards(model: nn.Module) -> list[int]:
    """Those of the largest mesh over which a parameter is spread; with data parallelism around it, nobody knows."""
    meshes: list[Any] = [p.device_mesh for p in model.parameters() if hasattr(p, "device_mesh")]
    if not meshes or isinstance(model, DistributedDataParallel):
        return []
    return sorted(max(meshes, key=lambda mesh: mesh.size()).mesh.flatten().tolist())


def _of_wrapper(model: nn.Module) -> list[int]:
    fsdp = sys.modules.get("torch.distributed.fsdp")  # whoever uses it has loaded it
    group: Any = None
    if isinstance(model, DistributedDataParallel):
        group = None if any(hasattr(p, "device_mesh") for p in model.parameters()) else model.process_group
    elif fsdp is not None and isinstance(model, fsdp.FullyShardedDataParallel):
        hybrid = "HYBRID" in str(getattr(model, "sharding_strategy", ""))
        group = None if hybrid else model.process_group
    return [] if group is None else sorted(dist.get_process_group_ranks(group))
