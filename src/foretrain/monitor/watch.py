"""Watches the attention of a model during one forward pass."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from foretrain.monitor.capture import AttentionReader
from foretrain.monitor.compiled import eager_step
from foretrain.monitor.guard import Guard, no_guard
from foretrain.monitor.projections import SEPARATE
from foretrain.monitor.running_modules import Running, names_of_running_modules
from foretrain.monitor.wrappers import plain_name, unwrapped


@contextmanager
def attention_of(model: nn.Module, guard: Guard = no_guard) -> Iterator[dict[str, Tensor]]:
    """Statistics [statistic, head] of every attention call inside this block, by the name of the module that makes it.

    Nothing that the model computes changes, but a compiled model runs eagerly inside. An attention module that ran
    without being read is named in a warning. Errors while reading are left to `guard`.
    """
    calls: dict[str, Tensor] = {}
    model = unwrapped(model)
    with eager_step(), names_of_running_modules(model) as running:

        def record(statistics: Tensor) -> None:
            calls[running.next_call()] = statistics

        with AttentionReader(record, running.in_cross_attention, guard):
            yield calls
    unread = unread_attention(model, running)
    if unread:
        warnings.warn(
            f"Attention could not be read in {', '.join(unread)}: they compute it in a way that is not known here.",
            stacklevel=3,
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
