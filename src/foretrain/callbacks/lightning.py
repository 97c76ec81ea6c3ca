"""The monitor as a callback of Lightning's Trainer."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foretrain.callbacks.stopping import Stopping, require_options
from foretrain.core.errors import InputError, require_whole
from foretrain.monitor.monitor import Monitor


def _library() -> Any:
    """Lightning comes under two names, and each has its own class for callbacks."""
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        return _under_its_old_name()
    try:
        import lightning.pytorch
    except ImportError:
        return _under_its_old_name()
    return lightning.pytorch


def _under_its_old_name() -> Any:
    try:
        import pytorch_lightning
    except ImportError as error:
        raise InputError("foretrain.callbacks.Lightning needs lightning; pip install lightning.") from error
    return pytorch_lightning


_Callback: Any = _library().Callback


class Lightning(_Callback):
    """Watches the model of a lightning.Trainer, and leaves the training the same to the bit.

        callback = foretrain.callbacks.Lightning(every=50, file="run.jsonl")
        lightning.Trainer(max_steps=1000, callbacks=[callback]).fit(module, data)
        callback.monitor.dataset()

    Steps are Lightning's own, `global_step`: updates of the weights, however many batches each of them takes. All that
    `training_step` computes of a measured step's first batch is read, up to the backward pass, so it need not call the
    module itself. A training that resumes from a checkpoint goes on with the same file at the step of the checkpoint.
    With `stop_on={"loss"}` the training ends after an alarm of one of these kinds. `options` are further ones of
    Monitor.
    """

    def __init__(
        self,
        every: int = 50,
        file: str | Path | None = None,
        sinks: tuple[Any, ...] | list[Any] = (),
        stop_on: Collection[str] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        require_whole("every", every, 1)
        require_options("Lightning", options)
        self._stopping = Stopping(stop_on)
        self.options = {"every": every, "file": file, "sinks": sinks, **options}
        self.monitor: Monitor | None = None
        self._losses: list[Tensor] = []  # of the batches of this step
        self._why: str | None = None  # the training was ended

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Put the monitor on the model, at the step where this training begins."""
        self.detach()
        planned = trainer.estimated_stepping_batches
        total = int(planned) if 0 < planned < math.inf else None
        step = trainer.global_step
        self.monitor = Monitor(pl_module, **{"total": total, "resume": step > 0, "start": step, **self.options})
        self._losses = []

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Read this batch, if it is the first of a step that is to be measured."""
        if self.monitor is not None:
            self.monitor.begin()

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Tensor) -> None:
        """The forward pass is through."""
        if self.monitor is not None:
            self.monitor.end()

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """All gradients of this batch are there."""
        if self.monitor is not None:
            self.monitor.backward_ended()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Record the step, if this batch was its last one."""
        if self.monitor is None:
            return
        self.monitor.end()  # a training step that returns nothing has no backward pass
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if isinstance(loss, Tensor) and loss.numel() == 1:
            self._losses.append(loss.detach().clone())
        # two optimizers that are stepped by hand make two steps of one batch
        while self.monitor.steps < trainer.global_step:
            self.monitor.step(loss=self._loss(pl_module))
            self._losses = []
        why = self._stopping.reason(self.monitor)
        if why is not None:
            self._why = why
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Leave the model as it was."""
        self.detach()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Leave the model as it was, also if training raises."""
        self.detach(finished=False)

    def detach(self, *, finished: bool = True) -> None:
        """Leave the model as it was; Lightning does this at the end of training."""
        if self.monitor is not None:
            self.monitor.detach(finished=finished, why=self._why)

    def _loss(self, pl_module: Any) -> Tensor | None:
        """The loss of a step. Lightning divides the loss of each batch by their number, unless steps are by hand."""
        if not self._losses:
            return None
        losses = torch.stack([loss.reshape(()) for loss in self._losses])
        return losses.sum() if pl_module.automatic_optimization else losses.mean()
