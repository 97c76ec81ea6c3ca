"""The part of every parameter that this process holds: all of it, or a shard.

    plain parameters, DDP              the whole parameter, the same in every process
    DTensor: FSDP's `fully_shard`,     a block of rows or columns
      tensor parallel, both at once
    FullyShardedDataParallel           a stretch of the flattened parameter

Sums of squares over all parts, each divided by the number of processes that hold it, are those of the whole parameter.
Nothing here talks to other processes.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.monitor.ranks import ranks_of
from foretrain.monitor.shards import local_part
from foretrain.monitor.wrappers import plain_name, unwrapped


@dataclass(frozen=True)
class Held:
    """What this process holds of one parameter."""

    name: str
    shape: tuple[int, ...]  # of the whole parameter
    offset: tuple[int, int]  # row and column at which the part begins
    copies: int  # how many processes hold the same part
    whole: bool  # whether the part is everything
    values: Callable[[], Tensor]
    gradient: Callable[[], Tensor | None]
    start: int | None = None  # where the part begins in the flattened parameter, if it is a stretch of that

    @property
    def is_matrix(self) -> bool:
        """Whether the parameter has two axes, neither of length 1."""
        return len(self.shape) == 2 and min(self.shape) > 1

    @property
    def is_stack(self) -> bool:
        """Whether the parameter is a stack of matrices, such as one for each expert."""
        return len(self.shape) == 3

    def block(self) -> Tensor:
        """The part as rows of the matrix; a stretch that begins or ends within a row is filled up with zeros."""
        values = self.values()
        if self.start is None:
            return values.flatten(0, -2) if self.is_stack and values.ndim == 3 else values
        width = self.shape[1]
        before = self.start % width
        return F.pad(values, (before, -(before + len(values)) % width)).reshape(-1, width)


def held_by_this_process(model: nn.Module) -> dict[str, Held]:
    """All trainable parameters of a model by the names they have without wrappers."""
    processes = len(ranks_of(model)) if dist.is_available() and dist.is_initialized() else 1
    stretches = {held.name: held for held in _stretches(model, processes)}
    parts = {}
    for name, parameter in unwrapped(model).named_parameters():
        plain = plain_name(name)
        if plain not in stretches and parameter.requires_grad and not hasattr(parameter, "_fqns"):
            parts[plain] = _held(plain, parameter, processes)
    return {**parts, **stretches}


def _held(name: str, parameter: nn.Parameter, processes: int) -> Held:
    shape, alive = tuple(parameter.shape), weakref.ref(parameter)  # who asks for gradients must not keep the weights
    if not hasattr(parameter, "placements"):
        return Held(name, shape, (0, 0), 1, True, lambda: _values(alive), lambda: _gradient(alive))
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset as place_of

    mesh, placements = parameter.device_mesh, parameter.placements  # type: ignore[attr-defined]
    pieces = math.prod(mesh.size(k) for k, placement in enumerate(placements) if not placement.is_replicate())
    offset = tuple(place_of(parameter.shape, mesh, placements)[1]) if len(shape) == 2 else (0, 0)

    def gradient() -> Tensor | None:
        whole = _gradient(alive)
        if whole is not None and whole.placements != placements:  # type: ignore[attr-defined]
            raise RuntimeError(f"the gradient of {name} is laid out in another way than {name}")
        return None if whole is None else local_part(whole)

    copies = processes // pieces if pieces > 1 else 1
    return Held(name, shape, offset, copies, pieces == 1, lambda: local_part(_values(alive)), gradient)


def _values(alive: weakref.ref[nn.Parameter]) -> Tensor:
    parameter = alive()
    return torch.empty(0, 0) if parameter is None else parameter.detach()


def _gradient(alive: weakref.ref[nn.Parameter]) -> Tensor | None:
    parameter = alive()
    return None if parameter is None or parameter.grad is None else parameter.grad.detach()


def _stretches(model: nn.Module, processes: int) -> Iterator[Held]:
    """What FullyShardedDataParallel has flattened and cut."""
    fsdp = sys.modules.get("torch.distributed.fsdp")  # whoever uses it has loaded it
    if fsdp is None:
        return
    for module_name, module in model.named_modules():
        handle = getattr(module, "_handle", None) if isinstance(module, fsdp.FullyShardedDataParallel) else None
        if handle is None or not handle.uses_sharded_strategy:
            continue
        flat = handle.flat_param
        copies = max(1, processes // handle.process_group.size())
        for fqn, shape, info in zip(flat._fqns, flat._shapes, flat._shard_param_infos, strict=True):
            if flat.requires_grad:
                name = plain_name(f"{module_name}.{fqn}" if module_name else fqn)
                yield _stretch(name, tuple(shape), info, flat, copies)


def _stretch(name: str, shape: tuple[int, ...], info: Any, flat: Any, copies: int) -> Held:
    first, count, start = info.offset_in_shard or 0, info.numel_in_shard or 0, info.intra_param_start_idx or 0
    alive = weakref.ref(flat)

    def values() -> Tensor:
        parameter = alive()
        if parameter is None:
            return torch.empty(0)
        shard = getattr(parameter, "_local_shard", parameter)  # before its first pass, the parameter is the shard
        return shard.detach()[first : first + count]

    def gradient() -> Tensor | None:
        whole = _gradient(alive)
        return None if whole is None else whole[first : first + count]

    return Held(name, shape, (start // shape[-1], 0), copies, False, values, gradient, start)
