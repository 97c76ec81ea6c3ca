"""What is recorded of the residual stream and of the hidden units after each block of a model.

    residual_norm    root mean square of the block's output, over tokens and width
    massive          its largest entry over the median of its entries, both without sign
    dead_units       share of the hidden units that no token of this batch switches on: after ReLU those that are zero
                     for every token, after GELU and SiLU (also where it is a gate) those that stay below 1e-3 of the
                     root mean square of all units

A block is one of a list of modules, or one of several parts of the same class, whose output has the shape of its input;
the parts of a block are no blocks. The median is that of at most 65536 entries, evenly spaced, and in a
distributed training the mean of the processes' medians. Units inside the experts of a mixture are left out: which of
them are switched on is decided by the router.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.monitor.compiled import inside_compiled_code
from foretrain.monitor.experts import mixtures_of
from foretrain.monitor.function_results import FunctionResults, tensors_in, unnoticed
from foretrain.monitor.guard import Guard
from foretrain.monitor.running_modules import Running
from foretrain.monitor.shards import Shard, local_part, shard_along, shard_of
from foretrain.monitor.tally import Arrays, Measures, Readings, Tally
from foretrain.monitor.wrappers import plain_name

PART = "activations"
SAMPLE = 1 << 16  # entries that a median is taken of
QUIET = 1e-3  # of the root mean square of all units, below which a unit that is never exactly zero is dead
PARTS_OF_A_BLOCK = 4  # modules, itself included, unless it holds two matrices itself
RELU, SMOOTH = "relu", "smooth"
_RELU_NAME = re.compile(r"^relu|^squaredrelu", re.IGNORECASE)
_SMOOTH_NAME = re.compile(r"gelu|silu|swish", re.IGNORECASE)
_FUNCTIONS: dict[Callable[..., Any], str] = {
    **dict.fromkeys((F.relu, F.relu_, F.relu6, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_), RELU),
    **dict.fromkeys((F.gelu, F.silu), SMOOTH),
}


@contextmanager
def reading_activations(model: nn.Module, running: Running, readings: Readings, guard: Guard) -> Iterator[None]:
    """Inside this block, `readings` get the part "activations" of every block of the model that runs."""
    reader = _ActivationReader(running, readings, guard)
    handles: list[Any] = []
    try:
        blocks = blocks_of(model)
        for name, block in blocks.items():
            handles.append(block.module.register_forward_pre_hook(partial(reader.enter, name)))
            handles.append(block.module.register_forward_hook(reader.leave, with_kwargs=True, always_call=True))
        for name, module in model.named_modules():
            kind = kind_of(module)
            if kind is not None and not isinstance(module, torch.jit.ScriptModule):
                reader.modules.add(plain_name(name))
                handles.append(module.register_forward_hook(partial(reader.module_ended, kind)))
        reader.experts = {mixture.experts for mixture in mixtures_of(model).values()}
        with ExitStack() as stack:
            stack.enter_context(FunctionResults(_FUNCTIONS, reader.function_ended))
            yield
    finally:
        for handle in handles:
            handle.remove()
    with guard("read activations"):
        listed = {name for name, block in blocks.items() if block.listed}
        for name in superfluous(readings.of(PART), listed):
            readings.tallies.pop((PART, name))


@dataclass(frozen=True)
class BlockCandidate:
    """A module that may be a block of the residual stream."""

    module: nn.Module
    listed: bool  # whether it is in a list, or a part of its own that has others of its class beside it


def blocks_of(model: nn.Module) -> dict[str, BlockCandidate]:
    """Modules that may be blocks of the residual stream, by their names, without those inside experts."""
    experts = {mixture.experts for mixture in mixtures_of(model).values()}
    blocks: dict[str, BlockCandidate] = {}
    for name, parent in model.named_modules():
        if any(_inside(plain_name(name), container) for container in experts):
            continue
        classes = Counter(type(child) for child in parent.children())
        for child_name, child in parent.named_children():
            listed = isinstance(parent, nn.ModuleList | nn.Sequential | nn.ModuleDict)
            path = plain_name(f"{name}.{child_name}" if name else child_name)
            if (listed or classes[type(child)] > 1) and _may_be_block(child) and path not in experts:
                blocks[path] = BlockCandidate(child, listed)
    return blocks


def superfluous(names: Iterable[str], listed: Container[str]) -> list[str]:
    """The names of what lies inside a block, and of what is none because blocks of a list ran inside of it, such as an
    encoder beside a decoder."""
    paths = {name: name.partition("#")[0] for name in names}
    in_lists = {path for path in paths.values() if path in listed}
    hulls = {path for path in paths.values() if path not in listed and any(_inside(other, path) for other in in_lists)}
    kept = set(paths.values()) - hulls
    parts = {path for path in kept if any(path != other and _inside(path, other) for other in kept)}
    return [name for name, path in paths.items() if path in hulls | parts]


def kind_of(module: nn.Module) -> str | None:
    """Which kind of activation a module computes, by the name of its class."""
    if any(True for _ in module.children()):
        return None
    name = type(module).__name__
    if _RELU_NAME.search(name):
        return RELU
    return SMOOTH if _SMOOTH_NAME.search(name) else None


@dataclass
class _Open:
    """A block that is running, and what its hidden units have done so far."""

    name: str
    sums: dict[str, Tensor] = field(default_factory=dict)
    largest: dict[str, Tensor] = field(default_factory=dict)


class _ActivationReader:
    def __init__(self, running: Running, readings: Readings, guard: Guard) -> None:
        self.running, self.readings, self.guard = running, readings, guard
        self.modules: set[str] = set()  # that compute activations
        self.experts: set[str] = set()
        self._open: list[_Open] = []
        self._calls: Counter[str] = Counter()

    def enter(self, name: str, *_: Any) -> None:
        if self.running.here():
            self._open.append(_Open(name))

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        block = self._open.pop() if self._open and self.running.here() else None
        if block is None or inside_compiled_code():
            return
        with self.guard("read activations"), unnoticed(output):
            given, result = next(tensors_in((args, kwargs)), None), next(tensors_in((output,)), None)
            if given is None or result is None or result.shape != given.shape or result.ndim < 2:
                return
            self._calls[block.name] += 1
            number = self._calls[block.name]
            name = block.name if number == 1 else f"{block.name}#{number}"
            self.readings.add(PART, name, _tally(local_part(result.detach()), block))

    def module_ended(self, kind: str, module: nn.Module, args: Any, output: Any) -> None:
        if self.running.here() and not inside_compiled_code():
            self._units(kind, output)

    def function_ended(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        if not self.running.stack or self.running.stack[-1] not in self.modules:  # else it is the module's that ends
            self._units(_FUNCTIONS[func], result)

    def _units(self, kind: str, output: Any) -> None:
        if not self._open or not isinstance(output, Tensor) or output.ndim < 2 or self._in_experts():
            return
        with self.guard("read activations"), unnoticed(output):
            local, shard = local_part(output.detach()), shard_along(output, output.ndim - 1)
            if shard == Shard() and self.running.module is not None:
                shard = shard_of(self.running.module)
            top = _top(local.flatten(0, -2), 0)
            square, entries = _square(local)
            for block in self._open:
                number = len(block.largest)
                block.largest[f"{kind}_{number}"] = shard.placed(top)
                block.sums[f"square_{number}"], block.sums[f"entries_{number}"] = square, entries

    def _in_experts(self) -> bool:
        return any(name in self.experts for name in self.running.stack)


def _tally(x: Tensor, block: _Open) -> Tally:
    square, entries = _square(x)
    sums = {"square": square, "entries": entries, "median": _median(x), "processes": torch.ones_like(entries)}
    largest = {"top": _top(x, tuple(range(x.ndim)))}
    return Tally({**sums, **block.sums}, {**largest, **block.largest}, _finish)


def _top(x: Tensor, axes: int | tuple[int, ...]) -> Tensor:
    """The largest entry without sign, 20 times faster than as a norm."""
    return torch.maximum(x.amax(axes), -x.amin(axes)).float()


def _square(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of squares, and the number of entries."""
    square = torch.linalg.vector_norm(x, dtype=torch.promote_types(x.dtype, torch.float32)).square()
    return square, torch.full_like(square, x.numel())


def _median(x: Tensor) -> Tensor:
    """Of the entries without sign. The step has no divisor in common with the width: else it would see a few channels
    only."""
    step = max(1, x.numel() // SAMPLE)
    while math.gcd(step, x.shape[-1]) > 1 and step > 1:
        step += 1
    return x.reshape(-1)[::step].float().abs().median()


def _finish(arrays: Arrays) -> Measures:
    with np.errstate(divide="ignore", invalid="ignore"):
        measures = {
            "residual_norm": float(np.sqrt(arrays["square"] / arrays["entries"])),
            "massive": float(arrays["top"] * arrays["processes"] / arrays["median"]),
        }
    dead = units = 0
    for name, largest in arrays.items():
        kind, _, number = name.partition("_")
        if kind in (RELU, SMOOTH):
            size = math.sqrt(float(arrays[f"square_{number}"] / arrays[f"entries_{number}"]))
            dead += int((largest <= (0.0 if kind == RELU else QUIET * size)).sum())
            units += largest.size
    return {**measures, "dead_units": dead / units} if units else measures


def _may_be_block(module: nn.Module) -> bool:
    if isinstance(module, torch.jit.ScriptModule):  # which takes no hooks
        return False
    matrices = sum(parameter is not None and parameter.ndim > 1 for parameter in module._parameters.values())
    return matrices > 1 or sum(1 for _ in module.modules()) >= PARTS_OF_A_BLOCK


def _inside(inner_name: str, outer_name: str) -> bool:
    return inner_name == outer_name or inner_name.startswith(f"{outer_name}.")
