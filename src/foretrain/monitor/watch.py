"""Watches one forward pass of a model: its attention, its activations, and the choices among its experts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from foretrain.monitor.activations import reading_activations
from foretrain.monitor.capture import AttentionReader
from foretrain.monitor.compiled import eager_step
from foretrain.monitor.experts import reading_experts
from foretrain.monitor.guard import Guard, no_guard
from foretrain.monitor.projections import SEPARATE
from foretrain.monitor.running_modules import Running, names_of_running_modules
from foretrain.monitor.shards import Shard, shard_of
from foretrain.monitor.statistics import RowSums
from foretrain.monitor.tally import Readings
from foretrain.monitor.wrappers import plain_name, unwrapped


@contextmanager
def attention_of(model: nn.Module, guard: Guard = no_guard) -> Iterator[dict[str, Tensor]]:
    """Statistics [statistic, head] of every attention call inside this block, by the name of the module that makes it.

    Nothing that the model computes changes, but a compiled model runs eagerly inside. An attention module that ran
    without being read is named in a warning. Errors while reading are left to `guard`.
    """
    calls: dict[str, Tensor] = {}

    def record(name: str, sums: RowSums, _: Shard) -> None:
        calls[name] = sums.statistics()

    with _watching(unwrapped(model), record, guard):
        yield calls


@contextmanager
def forward_pass_of(model: nn.Module, guard: Guard = no_guard) -> Iterator[Readings]:
    """What can be seen in the forward pass inside this block: the parts "attention", "activations" and "experts".

    The same holds as for `attention_of`, and nothing is read by the host before `Readings.read`. Under tensor
    parallelism each process fills in the heads and units that it computes, and zeros for the others.
    """
    readings, model = Readings(), unwrapped(model)

    def record(name: str, sums: RowSums, shard: Shard) -> None:
        readings.add("attention", name, sums.tally(shard))

    with _watching(model, record, guard) as running, ExitStack() as others:
        with guard("read activations"):
            others.enter_context(reading_activations(model, running, readings, guard))
        with guard("read experts"):
            others.enter_context(reading_experts(model, running, readings, guard))
        yield readings


@contextmanager
def _watching(model: nn.Module, record: Callable[[str, RowSums, Shard], None], guard: Guard) -> Iterator[Running]:
    with eager_step(), names_of_running_modules(model) as running:

        def record_call(sums: RowSums, shard: Shard) -> None:
            module = running.module
            if shard == Shard() and module is not None:
                shard = shard_of(module)
            record(running.next_call(), sums, shard)

        with AttentionReader(record_call, running.in_cross_attention, guard):
            yield running
    unread = unread_attention(model, running)
    if unread:
        warnings.warn(
            f"Attention could not be read in {', '.join(unread)}: they compute it in a way that is not known here.",
            stacklevel=5,
        )


def unread_attention(model: nn.Module, running: Running) -> list[str]:
    """Modules that look like attention and ran, but in which no attention was seen; only the innermost are named."""
    modules = {plain_name(name): module for name, module in model.named_modules()}
    ran = [name for name in dict.fromkeys(running.entered) if _looks_like_attention(modules[name])]
    silent = [name for name in ran if not any(_inside(call, name) for call in running.calls)]
    return [name for name in silent if not any(other != name and _inside(other, name) for other in silent)]


def _looks_like_attention(module: nn.Module) -> bool:
    """By the name of its class, or because it holds matrices for queries, keys and values."""
    parts = set(module._modules)
    return "attention" in type(module).__name__.lower() or any(parts.issuperset(group) for group in SEPARATE)


def _inside(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")
