"""Reads models that are compiled with torch.compile, without making them compile again.

Compiled code does not stop to be read, so the step that is measured runs eagerly: `eager_step` switches every compiled
function back to plain Python for that time. All other steps run the compiled code, which stays as it is. The measured
step has eager arithmetic. Backends that compute in another order, such as Inductor, differ from it in the last bits;
so training with a monitor is the same to the bit only for models that are not compiled, or whose backend keeps the
order ("eager", "aot_eager").

The switch has to be thrown before compiled code begins to run. It can be where

    compiled = torch.compile(model)     the monitor is put on `compiled`, not on `model`
    model.compile()                     the monitor is put on `model` after this line
    parts of the model are compiled     the monitor is put on the model

A hook on a module that runs inside compiled code does nothing, so that it cannot break the graph.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn


def eager_step() -> AbstractContextManager[None]:
    """Inside this block nothing runs compiled and nothing is compiled; what was compiled before is kept."""
    if not {"torch._dynamo", "torch.nn.attention.flex_attention"} & sys.modules.keys():  # which compiles itself on use
        return nullcontext()  # nothing was compiled, and loading the compiler takes seconds
    return torch.compiler.set_stance("force_eager")


def inside_compiled_code() -> bool:
    """Whether this line is run by compiled code, or read by the compiler; then it is too late for `eager_step`."""
    if torch.compiler.is_compiling():  # the compiler reads this as True and leaves out the rest
        return True
    if "torch._dynamo" not in sys.modules:
        return False
    from torch._C._dynamo.eval_frame import get_eval_frame_callback

    return get_eval_frame_callback() not in (None, False)


class AroundCompiledCall:
    """Calls `before(model)` and `after(model, arguments, output)` around each call of a model that was compiled by
    `model.compile()`.

    Hooks of such a model are part of its compiled code; these two are not. A model that is not compiled in this way is
    left alone.
    """

    def __init__(self, model: nn.Module, before: Callable[..., None], after: Callable[..., None]) -> None:
        self._model = weakref.ref(model)
        if model._compiled_call_impl is not None:
            model._compiled_call_impl = _Call(self, model._compiled_call_impl, before, after)

    def remove(self) -> None:
        """Leave the model as it was, unless someone else has wrapped it since: then nothing is called any more."""
        model = self._model()
        call = None if model is None else model._compiled_call_impl
        if isinstance(call, _Call) and call.handle() is self and model is not None:
            model._compiled_call_impl = call.compiled


class _Call:
    """A compiled call with something before and after it, as long as the handle that made it lives."""

    def __init__(
        self, handle: AroundCompiledCall, compiled: Any, before: Callable[..., None], after: Callable[..., None]
    ) -> None:
        self.handle, self.model = weakref.ref(handle), handle._model
        self.compiled, self.before, self.after = compiled, before, after

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model = self.model()
        if inside_compiled_code() or self.handle() is None or model is None:
            return self.compiled(*args, **kwargs)
        self.before(model)
        output = None
        try:
            output = self.compiled(*args, **kwargs)
            return output
        finally:
            self.after(model, args, output)
