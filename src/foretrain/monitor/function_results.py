"""Hands the results of some torch functions to a reader, without a trace in what the model computes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack


class FunctionResults(TorchFunctionMode):
    """While it is active, calls `ended(function, args, kwargs, result)` after each call of one of these functions."""

    def __init__(self, functions: Container[Any], ended: Callable[[Callable[..., Any], Any, Any, Any], None]) -> None:
        super().__init__()
        self.functions, self.ended = functions, ended

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in self.functions and not torch.compiler.is_compiling():
            self.ended(func, args, kwargs, result)
        return result


@contextmanager
def unnoticed(*values: Any) -> Iterator[None]:
    """Without autograd and autocast, on the device of the first tensor among these values.

    Selective checkpointing keeps the results of some functions by the order in which they are called. What is computed
    here must not be among them.
    """
    tensor = next(tensors_in(values), None)
    device = "cpu" if tensor is None else tensor.device.type
    autocast: Any = nullcontext()
    if torch.amp.is_autocast_available(device):  # not on the meta device
        autocast = torch.autocast(device, enabled=False)
    stack = _get_current_dispatch_mode_stack()
    checkpoints = any(type(mode).__module__ == torch.utils.checkpoint.__name__ for mode in stack)
    with torch.no_grad(), autocast, _disable_current_modes() if checkpoints else nullcontext():
        yield


def tensors_in(values: Any) -> Iterator[Tensor]:
    """All floating tensors among values and what they contain, the first ones first."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, Tensor) and value.is_floating_point():
            yield value
        elif isinstance(value, tuple | list | dict):  # an output of Hugging Face's models is a dict, too
            yield from tensors_in(value)
