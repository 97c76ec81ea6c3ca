"""Watches a model while it trains: every so many steps, the attention of one forward pass is read."""

from __future__ import annotations

import math
import weakref
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import xarray as xr
from torch import Tensor, nn

from foretrain.core.errors import require_whole
from foretrain.runs.monitored import Record, append_line, as_dataset, read_lines
from foretrain.monitor.statistics import NAMES
from foretrain.monitor.watch import attention_of


class Monitor:
    """Records what attention does during training, without changing a bit of it.

        monitor = Monitor(model, every=50, file="run.jsonl")
        for batch in data:
            loss = model(batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss=loss)
        monitor.dataset()["attention_entropy"]  # over (step, layer, head)

    Step 0 is measured, then every `every` steps: the first forward pass of that step in training mode. With gradient
    accumulation, call `step` once per update. With a `file`, each record is added to it as a line of JSON, and a
    resumed training goes on with the same file.
    """

    def __init__(self, model: nn.Module, *, every: int = 50, file: str | Path | None = None) -> None:
        require_whole("every", every, 1)
        self.every, self.steps = every, 0
        self.records: list[Record] = []
        self.file = Path(file) if file is not None else None
        if self.file is not None and self.file.exists():
            self.records = read_lines(self.file)
            self.steps = max((record["step"] + 1 for record in self.records), default=0)
        self._model = weakref.ref(model)
        self._attention: dict[str, Tensor] = {}
        self._seen = False  # whether this step's forward pass has been read
        self._open: ExitStack | None = None
        before, after = _Hook(self, "_begin"), _Hook(self, "_end")
        self._handles = [
            model.register_forward_pre_hook(before),
            model.register_forward_hook(after, always_call=True),  # also where the model raises
        ]

    @property
    def due(self) -> bool:
        """Whether the next forward pass in training mode will be read."""
        return self.steps % self.every == 0 and not self._seen

    def step(self, *, loss: Tensor | float | None = None) -> None:
        """Call this after every update of the weights."""
        if self._attention:
            attention = {
                layer: dict(zip(NAMES, statistics.tolist(), strict=True))
                for layer, statistics in self._attention.items()
            }
            value = math.nan if loss is None else float(loss.detach() if isinstance(loss, Tensor) else loss)
            self.records.append({"step": self.steps, "loss": value, "attention": attention})
            if self.file is not None:
                append_line(self.file, self.records[-1])
        self._attention, self._seen = {}, False
        self.steps += 1

    def dataset(self) -> xr.Dataset:
        """Everything recorded so far, over (step, layer, head)."""
        return as_dataset(self.records)

    def detach(self) -> None:
        """Leave the model as it was."""
        self._end(None)
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.detach()

    def _begin(self, module: nn.Module | None) -> None:
        model = self._model()
        if model is None or module is not model or self._open is not None:
            return  # a copy of the model has our hooks but is not ours
        if self.due and model.training and torch.is_grad_enabled():
            self._open = ExitStack()
            self._attention = self._open.enter_context(attention_of(model))
            self._seen = True

    def _end(self, _: nn.Module | None) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()


class _Hook:
    """A hook that does not keep its monitor alive, and that a copy of the model may take along."""

    def __init__(self, monitor: Monitor, method: str) -> None:
        self.monitor, self.method = weakref.ref(monitor), method

    def __call__(self, module: nn.Module, *_: Any) -> None:
        monitor = self.monitor()
        if monitor is not None:
            getattr(monitor, self.method)(module)

    def __deepcopy__(self, _: dict[int, Any]) -> _Hook:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_hook, ()


def _no_hook() -> Any:
    """What a monitor's hook becomes in a saved copy of the model: nothing."""
    return _nothing


def _nothing(*_: Any) -> None: ...
