"""The monitor as a callback of the Hugging Face Trainer."""

from __future__ import annotations

import weakref
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foretrain.callbacks.stopping import Stopping, require_options
from foretrain.core.errors import InputError, require_whole
from foretrain.monitor.compiled import eager_step, inside_compiled_code
from foretrain.monitor.monitor import Monitor

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise InputError("foretrain.callbacks.HuggingFace needs transformers; pip install 'foretrain[hf]'.") from error


class HuggingFace(TrainerCallback):
    """Watches the model of a transformers.Trainer, and leaves the training the same to the bit.

        callback = foretrain.callbacks.HuggingFace(every=50, file="run.jsonl")
        Trainer(model, arguments, train_dataset=data, callbacks=[callback]).train()
        callback.monitor.dataset()

    Steps are the Trainer's own, `global_step`: updates of the weights, however many batches each of them takes. A
    training that resumes from a checkpoint goes on with the same file at the step of the checkpoint. The loss is the
    one that the model returns; a loss that the Trainer computes itself (`compute_loss_func`, label smoothing) is not
    seen. A model that the Trainer compiles runs eagerly at the measured steps. With `stop_on={"loss"}` the training
    ends, as it would at its last step, after an alarm of one of these kinds. `options` are further ones of Monitor.
    """

    def __init__(
        self,
        every: int = 50,
        file: str | Path | None = None,
        sinks: tuple[Any, ...] | list[Any] = (),
        stop_on: Collection[str] = (),
        **options: Any,
    ) -> None:
        require_whole("every", every, 1)
        require_options("HuggingFace", options)
        self._stopping = Stopping(stop_on)
        self.options = {"every": every, "file": file, "sinks": sinks, **options}
        self.monitor: Monitor | None = None
        self._losses: list[Tensor] = []  # of the batches of a step
        self._scaled = False  # whether the model divides by the number of tokens of all batches and processes
        self._measures = False  # whether this step is measured
        self._why: str | None = None  # the training was ended
        self._eager = ExitStack()
        weakref.finalize(self, self._eager.close)  # a Trainer that raises leaves it open
        self._handle: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Put the monitor on the model, at the step where this training begins."""
        self.detach()
        step = state.global_step
        self.monitor = Monitor(model, **{"total": state.max_steps, "resume": step > 0, "start": step, **self.options})
        alive = weakref.ref(self)  # the model must not keep the callback

        def after(*arguments: Any) -> None:
            callback = alive()
            if callback is not None:
                callback._after(*arguments)

        self._handle = model.register_forward_hook(after, with_kwargs=True, always_call=True)

    def _after(self, module: nn.Module, _: Any, inputs: dict[str, Any], output: Any) -> None:
        """Keep the loss of a batch; a hook that did so inside compiled code would break its graph."""
        if inside_compiled_code():
            return
        self._eager.close()
        loss = _loss_in(output) if module.training else None
        if loss is not None:
            self._losses.append(loss.detach().clone().mean())
            self._scaled = inputs.get("num_items_in_batch") is not None

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Prepare to read the next forward pass, if this step is to be measured."""
        self._losses = []
        self._measures = self.monitor is not None and self.monitor.due
        self._run_eagerly()

    def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Between two batches of the same step."""
        self._run_eagerly()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """All batches of this step are through."""
        self._eager.close()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Record the step."""
        if self.monitor is not None:
            self.monitor.step(loss=self._loss(args))
            self._losses = []
            why = self._stopping.reason(self.monitor)
            if why is not None:
                self._why = why
                control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave the model as it was."""
        self.detach()

    def detach(self, *, finished: bool = True) -> None:
        """Leave the model as it was. The Trainer has no event for a training that raises, so this is not done then.

        What stays behind on the model reads nothing that is recorded, and is gone with the next training. To be rid of
        it at once: `with HuggingFace() as callback: trainer.train()`.
        """
        self._eager.close()
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        if self.monitor is not None:
            self.monitor.detach(finished=finished, why=self._why)

    def __enter__(self) -> HuggingFace:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.detach(finished=kind is None)

    def _loss(self, args: Any) -> Tensor | None:
        if not self._losses:
            return None
        losses = torch.stack(self._losses)
        if not self._scaled:
            return losses.mean()
        return losses.sum() * (args.world_size if args.average_tokens_across_devices else 1)

    def _run_eagerly(self) -> None:
        """A compiled model cannot be read; it runs eagerly until its forward pass ends."""
        if self._measures and self.options.get("attention", True):
            self._eager.enter_context(eager_step())


def _loss_in(output: Any) -> Tensor | None:
    loss = output.get("loss") if isinstance(output, dict) else output[0] if isinstance(output, tuple) else None
    return loss if isinstance(loss, Tensor) and loss.numel() == 1 else None
