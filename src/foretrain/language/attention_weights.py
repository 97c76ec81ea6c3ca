"""The attention weights of a forward pass, mean over heads, for every way of computing attention that the monitor
knows; fused attention, which never shows its weights, is computed again from queries and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from foretrain.monitor.capture import reader_of
from foretrain.monitor.running_modules import names_of_running_modules
from foretrain.monitor.statistics import cut


@contextmanager
def attention_weights_of(
    model: nn.Module, inside: Sequence[str] = ("",)
) -> Iterator[dict[str, Float[Tensor, "sample query key"]]]:
    """Attention weights of every attention call made in this `with` block, mean over heads, by the name of the module
    that makes it; `inside` lists the names of modules outside of which calls are left out.

    What the model computes does not change.
    """
    weights: dict[str, Tensor] = {}
    with names_of_running_modules(model) as running:

        def wanted() -> bool:
            return any(not name or name in running.stack for name in inside)

        def record(mean: Tensor) -> None:
            weights[running.next_call()] = mean

        with _WeightReader(wanted, record):
            yield weights


class _WeightReader(TorchFunctionMode):
    def __init__(self, wanted: Callable[[], bool], record: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.wanted, self.record = wanted, record

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        read = reader_of(func, args, kwargs)
        if read is not None and self.wanted():
            with torch.no_grad():
                call = read(*args, **kwargs)
                if call is not None:
                    samples, heads, *_ = call.shape
                    parts = (call.part(one, slice(0, heads)) for one in cut(samples, 1))
                    self.record(torch.cat([part.weights().mean(1) for part in parts]))
        return func(*args, **kwargs)
