"""Which module of a model is running: attention is recorded under the name of the module that computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident

import torch
from torch import nn

from foretrain.monitor.wrappers import plain_name

CROSS = ("cross", "encoder_attn", "encdecattention")  # in the names that Hugging Face's families use


@dataclass
class Running:
    """The modules that are running now, outermost first, and how often each has computed attention."""

    stack: list[str] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    entered: list[str] = field(default_factory=list)  # every module that ran, in order
    thread: int = field(default_factory=get_ident)  # another one may call the model, too
    modules: dict[str, nn.Module] = field(default_factory=dict)  # all of them, by name

    @property
    def module(self) -> nn.Module | None:
        """The innermost module that is running."""
        return self.modules.get(self.stack[-1]) if self.stack else None

    def here(self) -> bool:
        """Whether this is the thread that is followed."""
        return get_ident() == self.thread

    def in_cross_attention(self) -> bool:
        """Whether the running module is called so that its keys are other tokens than its queries."""
        name = self.stack[-1].lower() if self.stack else ""
        return any(part in name for part in CROSS)

    def next_call(self) -> str:
        """A name for the attention call that is made now: the running module, and a number from its second call on."""
        name = self.stack[-1] if self.stack else ""
        self.calls[name] = self.calls.get(name, 0) + 1
        return name if self.calls[name] == 1 else f"{name}#{self.calls[name]}"


@contextmanager
def names_of_running_modules(model: nn.Module) -> Iterator[Running]:
    """Follow which module runs, by hooks on everything below the model that are gone afterwards.

    The model itself gets none: hooks that are added to a module while it runs are called in part only.
    """
    running = Running()
    handles = []
    try:
        for name, module in model.named_modules():
            if module is not model and not isinstance(module, torch.jit.ScriptModule):  # which takes no hooks
                running.modules[plain_name(name)] = module
                handles.append(module.register_forward_pre_hook(_entering(running, plain_name(name))))
                handles.append(module.register_forward_hook(_leaving(running), always_call=True))
        yield running
    finally:
        for handle in handles:
            handle.remove()


def _entering(running: Running, name: str) -> Callable[..., None]:
    def enter(*_: object) -> None:
        if running.here():
            running.stack.append(name)
            running.entered.append(name)

    return enter


def _leaving(running: Running) -> Callable[..., None]:
    def leave(*_: object) -> None:  # returns nothing: a hook that returns something replaces the output
        if running.stack and running.here():
            running.stack.pop()

    return leave
