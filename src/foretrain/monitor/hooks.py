"""Hooks that do not keep their monitor alive, and that a copy of the model may take along."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import Any

from torch import nn

from foretrain.monitor.compiled import inside_compiled_code


class MonitorHook:
    """Calls a method of a monitor, as long as that lives, with the module and whatever else torch passes to hooks."""

    def __init__(self, monitor: Any, method: str) -> None:
        self.monitor, self.method = weakref.ref(monitor), method

    def __call__(self, module: nn.Module, *rest: Any) -> None:
        if inside_compiled_code():
            return  # a hook that did more would break the graph
        self.now(module, *rest)

    def now(self, *arguments: Any) -> None:
        """Call it wherever this line is run."""
        monitor = self.monitor()
        if monitor is not None:
            getattr(monitor, self.method)(*arguments)

    def __deepcopy__(self, _: dict[int, Any]) -> MonitorHook:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """In a saved copy of the model, something that does nothing, and that can be loaded without foretrain."""
        return getattr, (nullcontext(), "__exit__")
