"""Tells when a backward pass has ended: then all gradients are there, and added up over processes.

Hooks on the parameters come too early: data-parallel wrappers add gradients up after that, at the very end of the pass.
So a hook on the model's outputs, which runs when the pass begins, asks the autograd engine for a call at its end. What
the wrappers have asked for in the meantime comes first, because that call only asks for another one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import unserializable_hook

MOST = 8  # outputs that get a hook


def call_after_backward(output: Any, call: Callable[[], None]) -> bool:
    """Call this after every backward pass through one of these outputs; False if none of them has a gradient.

    Compiled autograd takes no such calls, so with it this does nothing.
    """
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    if compiled is not None and compiled.compiled_autograd_enabled:
        return False
    queued: list[bool] = []

    @unserializable_hook  # torch would warn where somebody saves the output
    def begins(_: Tensor) -> None:
        if not queued:
            queued.append(True)
            _queue(lambda: _queue(ended))

    def ended() -> None:
        queued.clear()
        call()

    reached = [tensor for _, tensor in zip(range(MOST), _with_gradient(output), strict=False)]
    for tensor in reached:
        tensor.register_hook(begins)
    return bool(reached)


def _queue(call: Callable[[], None]) -> None:
    torch.autograd.Variable._execution_engine.queue_callback(call)


def _with_gradient(output: Any, depth: int = 0) -> Iterator[Tensor]:
    """The tensors in an output that autograd follows, whatever holds them."""
    if isinstance(output, Tensor):
        if output.requires_grad and not output.is_leaf:  # a parameter would keep the hook
            yield output
        return
    if isinstance(output, Mapping):
        parts: Any = output.values()
    elif isinstance(output, list | tuple):
        parts = output
    else:
        parts = vars(output).values() if is_dataclass(output) else ()
    if depth < 4:
        for part in parts:
            yield from _with_gradient(part, depth + 1)
