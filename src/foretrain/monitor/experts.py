"""What is recorded of each mixture of experts: how sure its router is, and how evenly it loads the experts.

    router_entropy   mean entropy of the router's distribution over experts, as a share of the largest possible
    load             share of all assignments that each expert gets
    busiest          the largest load times the number of experts: 1 if all are loaded alike
    dropped          share of tokens that no expert takes, in models whose experts have a capacity

A mixture is a module with a child called "experts", or the like, that is a list of modules or holds one matrix per
expert. What its router does is seen in the functions it calls, whoever wrote it: the softmax (or sigmoid, whose values
are then divided by their sum) over as many numbers as there are experts, and the last `topk` (or the first `argmax`)
of that many. Without either, the numbers that `topk` is given are taken for logits. Padded tokens count as any others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.monitor.compiled import inside_compiled_code
from foretrain.monitor.function_results import FunctionResults, unnoticed
from foretrain.monitor.guard import Guard
from foretrain.monitor.running_modules import Running
from foretrain.monitor.shards import local_part
from foretrain.monitor.tally import Arrays, Measures, Readings, Tally
from foretrain.monitor.wrappers import plain_name

PART = "experts"
_SOFTMAX = (torch.softmax, Tensor.softmax, F.softmax, torch.log_softmax, Tensor.log_softmax, F.log_softmax)
_SIGMOID = (torch.sigmoid, Tensor.sigmoid, F.sigmoid)
_TOP = (torch.topk, Tensor.topk)
_ARGMAX = (torch.argmax, Tensor.argmax)
_MAX = (torch.max, Tensor.max)
_WATCHED = frozenset((*_SOFTMAX, *_SIGMOID, *_TOP, *_ARGMAX, *_MAX))


@dataclass(frozen=True)
class Mixture:
    """A mixture of experts in a model."""

    module: nn.Module
    experts: str  # the name of the child that holds the experts
    count: int

    @property
    def has_capacity(self) -> bool:
        """Whether it, or its router, may turn tokens away."""
        holders = (self.module, *self.module.children())
        return any("capacity" in name and value for holder in holders for name, value in vars(holder).items())


def mixtures_of(model: nn.Module) -> dict[str, Mixture]:
    """All mixtures of experts in a model, by name."""
    mixtures = {}
    for name, module in model.named_modules():
        for child_name, child in module.named_children():
            count = _expert_count(child) if "expert" in child_name and "shared" not in child_name else 0
            if count > 1:
                plain = plain_name(name)
                mixtures[plain] = Mixture(module, f"{plain}.{child_name}" if plain else child_name, count)
    return mixtures


def _expert_count(module: nn.Module) -> int:
    if isinstance(module, nn.ModuleList | nn.ModuleDict):
        return len(module)
    return next((len(parameter) for parameter in module.parameters() if parameter.ndim == 3), 0)


@contextmanager
def reading_experts(model: nn.Module, running: Running, readings: Readings, guard: Guard) -> Iterator[None]:
    """Inside this block, `readings` get the part "experts" of every mixture that runs."""
    mixtures = mixtures_of(model)
    if not mixtures:
        yield
        return
    reader = _ExpertReader(mixtures, running, readings, guard)
    handles: list[Any] = []
    try:
        for name, mixture in mixtures.items():
            handles.append(mixture.module.register_forward_pre_hook(partial(reader.enter, name)))
            handles.append(mixture.module.register_forward_hook(reader.leave, always_call=True))
            if mixture.has_capacity:
                for child in mixture.module.children():
                    handles.append(child.register_forward_hook(reader.child_ended))
        with FunctionResults(_WATCHED, reader.function_ended):
            yield
    finally:
        for handle in handles:
            handle.remove()


@dataclass
class _Routing:
    """What the router of a running mixture has done so far; [token, expert] and [token, choice]."""

    name: str
    mixture: Mixture
    distribution: Tensor | None = None
    chosen: Tensor | None = None
    choices: int = 0  # how often it asked for the best expert
    taken: Tensor | None = None  # 1 where an expert takes a token


class _ExpertReader:
    def __init__(self, mixtures: dict[str, Mixture], running: Running, readings: Readings, guard: Guard) -> None:
        self.mixtures, self.running, self.readings, self.guard = mixtures, running, readings, guard
        self._open: list[_Routing] = []
        self._calls: Counter[str] = Counter()

    def enter(self, name: str, *_: Any) -> None:
        self._open.append(_Routing(name, self.mixtures[name]))

    def leave(self, module: nn.Module, args: Any, output: Any) -> None:
        routing = self._open.pop() if self._open else None
        if (
            inside_compiled_code()
            or routing is None
            or output is None
            or routing.distribution is None
            or routing.chosen is None
        ):
            return
        with self.guard("read experts"), unnoticed(routing.distribution):
            self._calls[routing.name] += 1
            number = self._calls[routing.name]
            self.readings.add(PART, routing.name if number == 1 else f"{routing.name}#{number}", _tally(routing))

    def child_ended(self, module: nn.Module, args: Any, output: Any) -> None:
        """A router that turns tokens away returns which of them each expert takes, as zeros and ones."""
        if self._open and isinstance(output, tuple) and not inside_compiled_code():
            with self.guard("read experts"):
                for value in output:
                    if isinstance(value, Tensor) and not value.is_floating_point() and self._is_over_experts(value):
                        self._open[-1].taken = value.detach()

    def function_ended(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        given = args[0] if args else kwargs.get("input")
        if not self._open or not isinstance(given, Tensor) or not self._is_over_experts(given):
            return
        routing = self._open[-1]
        if routing.mixture.experts in self.running.stack or not given.is_floating_point():
            return
        with self.guard("read experts"), unnoticed(given):
            given = local_part(given.detach())
            if func in _TOP:
                routing.chosen = local_part(result[1].detach())
                if routing.distribution is None:
                    routing.distribution = _softmax(given)
            elif routing.chosen is None and func in _SIGMOID:
                scores = given.float().sigmoid()
                routing.distribution = scores / scores.sum(-1, keepdim=True)
            elif routing.chosen is None and func in _SOFTMAX:
                routing.distribution = _softmax(given)
            elif func in _ARGMAX or (func in _MAX and routing.chosen is None):
                self._best(routing, given, result)

    def _best(self, routing: _Routing, given: Tensor, result: Any) -> None:
        index = result if isinstance(result, Tensor) else result[1]
        if index.is_floating_point() or index.numel() != given.numel() // given.shape[-1]:
            return  # the largest of all numbers, or along another axis
        routing.choices += 1
        if routing.chosen is None:
            routing.chosen = local_part(index.detach()).reshape(given.shape[:-1])[..., None]

    def _is_over_experts(self, tensor: Tensor) -> bool:
        return tensor.ndim > 1 and tensor.shape[-1] == self._open[-1].mixture.count


def _softmax(logits: Tensor) -> Tensor:
    return logits.float().log_softmax(-1).exp()  # a softmax here could be taken for attention


def _tally(routing: _Routing) -> Tally:
    assert routing.distribution is not None
    assert routing.chosen is not None
    weights = routing.distribution.flatten(0, -2)
    entropy = torch.special.entr(weights).sum()
    chosen = routing.chosen.reshape(-1)
    load = torch.zeros(routing.mixture.count, device=weights.device)
    load.scatter_add_(0, chosen, torch.ones_like(chosen, dtype=load.dtype))
    sums = {"entropy": entropy, "tokens": torch.full_like(entropy, len(weights)), "load": load}
    if (
        routing.taken is not None and routing.choices < 2
    ):  # if it chooses several times, they are about the first one only
        sums["dropped"] = (~routing.taken.bool().any(-1)).sum().float()
    return Tally(sums, {}, _finish)


def _finish(arrays: Arrays) -> Measures:
    load, tokens = arrays["load"] / arrays["load"].sum(), float(arrays["tokens"])
    measures: Measures = {
        "router_entropy": float(arrays["entropy"]) / tokens / math.log(load.size),
        "load": load.tolist(),
        "busiest": float(load.max() * load.size),
    }
    if "dropped" in arrays:
        measures["dropped"] = float(arrays["dropped"]) / tokens
    return measures
