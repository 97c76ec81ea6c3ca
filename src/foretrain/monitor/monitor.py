"""Watches a model while it trains: every so many steps, one forward pass, its gradients and the weights are read."""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from numbers import Real
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import xarray as xr
from torch import Tensor, nn

from foretrain.core.errors import require, require_whole
from foretrain.monitor.alarms import Alarm, Watcher, in_words, one_of_each_kind
from foretrain.monitor.backward import call_after_backward
from foretrain.monitor.compiled import AroundCompiledCall
from foretrain.monitor.guard import LoggedErrors, is_first_process
from foretrain.monitor.hooks import MonitorHook
from foretrain.monitor.measurement import Measurement
from foretrain.monitor.training_file import TrainingFile, described
from foretrain.monitor.watch import forward_pass_of
from foretrain.monitor.wrappers import unwrapped
from foretrain.runs.layer_numbers import numbered
from foretrain.runs.training_log import Record, add_record, as_dataset, every_step

_log = logging.getLogger("foretrain")
NOT_CALLED = "the model was not called in a way that the monitor sees"
NEVER_CALLED = (
    "Nothing was measured, because the monitor did not see the model being called. If it is compiled, make the Monitor "
    "afterwards, of what torch.compile returns."
)
IN_EVAL_MODE = "Nothing was measured, because the model is in evaluation mode; call model.train() before training."
NO_GRADIENTS = (
    "Nothing was measured, because the model was called under torch.no_grad() only; a training step needs gradients."
)
RAISED = "Nothing was measured at step {step}, because the model raised an error in its forward pass."
ON_META = "Nothing was measured, because the model is on the meta device, where parameters have no values."
SKIPPED = "Nothing was measured at step {step}, because the model was not called in it."
NO_ATTENTION = (
    "No attention was seen in this model, so none is recorded. What can be read is "
    "scaled_dot_product_attention, flex_attention, flash-attn, nn.MultiheadAttention, and a softmax over a tensor "
    "[sample, head, query, key]."
)

NO_IDENTITY = (
    "identity=True records nothing here: no attention layer whose W_Q, W_K, W_V and W_O have names that are known, and "
    "are whole in this process."
)


class Monitor:
    """Records what attention, activations and weights do during training, without changing a bit of it.

        monitor = Monitor(model, every=50, file="run.jsonl")
        for batch in data:
            loss = model(batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss=loss)

    Step 0 is measured, then every `every` steps: the first forward pass of that step in training mode, the gradients
    when its last backward pass has ended, and the weights at the end of the step. The loss and the norm of the whole
    gradient are kept of all steps; give `step` a `gradient_norm` if you compute it anyway, as clip_grad_norm_ does.
    With gradient accumulation, call `step` once per update. Whatever goes wrong while reading is logged once and never
    stops the training.

    With a `file`, each record is added to it as a line of JSON. A file that holds another training is left alone: then
    this one goes into a file beside it, such as run-2.jsonl, and `monitor.file` says which. To go on in the same file,
    give `start`, the step at which the training goes on, or `resume=True` for the one after the last record.

    `attention=False` reads no forward pass, so neither attention nor activations nor experts; a compiled model then
    runs its compiled code at every step. `weights=False` leaves the matrices out; `identity=True` adds the identity's
    share of W_Q·W_Kᵀ and W_V·W_O in every head. Every sink is called with each new record, and closed at the end if it
    can be; `on_alarm` is called with each new alarm. `total` is the number of steps planned, for the report. In a
    distributed training make a Monitor in every process: they put together what they measure, sharded or not, and the
    first one writes. A model wrapped by torch.compile is given as it is, wrapped: at measured steps it runs eagerly.

    `alarms` lists early warnings, each with its step and reason; a serious one is also logged as a warning of the
    logger "foretrain". docs/early-warnings.md says how far to trust them.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int = 50,
        file: str | Path | None = None,
        sinks: Sequence[Callable[[Record], object]] = (),
        on_alarm: Callable[[Alarm], object] | None = None,
        attention: bool = True,
        weights: bool = True,
        identity: bool = False,
        total: int | None = None,
        resume: bool = False,
        start: int | None = None,
    ) -> None:
        require(isinstance(model, nn.Module), f"Monitor takes a torch module; got a {type(model).__name__}.")
        require_whole("every", every, 1)
        require(
            isinstance(sinks, Sequence) and all(callable(sink) for sink in sinks),
            "sinks must be a list of functions or of objects that can be called.",
        )
        require(file is None or isinstance(file, str | Path), f"file must be a path; got {file!r}.")
        if total is not None:
            require_whole("total", total, 1)
            total = int(total)
        require(on_alarm is None or callable(on_alarm), f"on_alarm must be a function; got {on_alarm!r}.")
        self.every, self.steps, self.total = every, 0, total
        self.records: list[Record] = []
        self.sinks, self.on_alarm = tuple(sinks), on_alarm
        self._file = TrainingFile(Path(file), resume or bool(start)) if file is not None else None
        if self._file is not None:
            self.records = self._file.records
            self.steps = max((record["step"] + 1 for record in self.records), default=0)
            self._file.finish_with(self)
        if start is not None:
            require_whole("start", start, 0)
            self.steps = start
        self._watcher = Watcher()
        self.alarms: list[Alarm] = [alarm for record in self.records for alarm in self._watcher.update(record)]
        self._model = weakref.ref(model)
        self._guard = LoggedErrors()
        self._measurement = Measurement(model, every, self._guard, weights=weights, identity=identity)
        if self._file is not None:
            self._file.steps, self._file.pending = self.steps, self._measurement.pending
        self._with_attention = attention
        self._seen = False  # whether this step's forward pass has been read
        self._open: ExitStack | None = None
        self._thread = 0  # that has opened it
        self._called = False  # whether the model was ever called in a way that can be read
        self._blind: str | None = None  # why this step's forward pass was not read, if it was called
        self._said: set[str] = set()
        self._met = False  # the other processes
        before, after = MonitorHook(self, "_begin"), MonitorHook(self, "_end")
        self._handles: list[Any] = [
            model.register_forward_pre_hook(before, prepend=True),  # before FSDP's hook, which gathers weights
            model.register_forward_hook(after, always_call=True),  # also where the model raises
            AroundCompiledCall(model, before, after),
        ]

    def __repr__(self) -> str:
        model, number = self._model(), len(self.records)
        watched = "a model that is gone" if model is None else type(unwrapped(model)).__name__
        until = f", the last at step {self.records[-1]['step']}" if self.records else ""
        file = f", in {self.file}" if self.file is not None else ""
        return (
            f"<Monitor of {watched}, every {self.every} steps: {number} measurement{'s' * (number != 1)}{until}{file}>"
        )

    @property
    def file(self) -> Path | None:
        """Where records are written to."""
        return None if self._file is None else self._file.path

    @property
    def due(self) -> bool:
        """Whether the next forward pass in training mode will be read."""
        return self.steps % self.every == 0 and not self._seen

    def step(self, *, loss: Tensor | float | None = None, gradient_norm: Tensor | float | None = None) -> None:
        """Call this after every update of the weights."""
        if not self._met:
            self._met = True
            with self._guard("meet the other processes"):
                self.steps = self._measurement.first_step(self.steps)
        numbers: list[Any] = [None, None]
        with self._guard("keep the loss"):
            numbers = [self._number("loss", loss), self._number("gradient_norm", gradient_norm)]
        with self._guard("keep the loss"):
            self._measurement.keep(self.steps, *numbers)
        model = self._model()
        if self.steps % self.every == 0 and model is not None:
            with self._guard("record this step"):
                record = self._measurement.record(model, self.steps, self._seen)
                if record is not None:
                    self._keep({"step": self.steps, **({} if self.total is None else {"total": self.total}), **record})
            with self._guard("look at the model"):
                self._warn_if_blind(model)
        self._measurement.next_step()
        self._seen, self._blind = False, None
        self.steps += 1
        if self._file is not None:
            self._file.steps = self.steps

    def _number(self, name: str, value: Any) -> Any:
        """The value if it is a single number; anything else is named once and not recorded."""
        single = value.numel() == 1 if isinstance(value, Tensor) else isinstance(value, int | float | Real)
        if value is None or single:
            return value
        kind = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        self._say(f"{name} must be a single number; got {kind}. It is not recorded.")
        return None

    def _warn_if_blind(self, model: nn.Module) -> None:
        """Say once why nothing, or no attention, was measured at a step at which it should have been."""
        if self._seen:
            if self._with_attention and not self._measurement.saw_attention:
                self._say(NO_ATTENTION)
            elif self._measurement.lacks_identity:
                self._say(NO_IDENTITY)
        elif self._blind is not None:
            self._say(self._blind)
        elif not self._called:
            self._say(NEVER_CALLED)
        elif not model.training:
            self._say(IN_EVAL_MODE)
        else:
            self._say(SKIPPED)

    def _say(self, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            warnings.warn(reason.replace("{step}", str(self.steps)), stacklevel=4)

    def _keep(self, record: Record) -> None:
        if add_record(self.records, record):  # the training has gone back: what came after that no longer counts
            self._watcher = Watcher()
            self.alarms = [alarm for earlier in self.records[:-1] for alarm in self._watcher.update(earlier)]
        new: list[Alarm] = []
        with self._guard("look for trouble"):
            new = self._watcher.update(record)
        self.alarms += new
        if not is_first_process():
            return
        for line in in_words(alarm for alarm in new if alarm.serious):
            _log.warning("%s", line)
        if self._file is not None:
            with self._guard("write a record"):
                self._file.add(record)
        for sink in self.sinks:
            with self._guard(f"pass a record to the sink {_name(sink)}"):
                sink(record)
        for alarm in one_of_each_kind(new) if self.on_alarm is not None else ():
            with self._guard(f"call {_name(self.on_alarm)} with an alarm"):
                self.on_alarm(alarm)  # type: ignore[misc]

    def all_stop(self, stop: bool) -> bool:
        """Whether to end the training after the step that was just recorded, as the first of all processes decides."""
        return self._measurement.all_stop(self.steps - 1, stop)

    def begin(self) -> None:
        """Read from here on if this step is due; only for loops that do not call the model itself, as Lightning's."""
        model = self._model()
        if model is not None:
            self._begin(model)

    def end(self) -> None:
        """Stop reading."""
        self._end(output=True)

    def backward_ended(self) -> None:
        """All gradients of this step are there; only for loops that do not call the model itself."""
        self._measurement.backward_ended(self._seen)

    def dataset(self) -> xr.Dataset:
        """Everything recorded so far, over step, and layer and head, block, matrix, or router and expert.

        Layers whose names differ in one number are labelled by it, so that `sel(layer=0)` is the first; `layer_name`
        has their names.
        """
        return numbered(as_dataset(self.records))

    def every_step(self) -> xr.Dataset:
        """The loss and the norm of the whole gradient at every step so far."""
        return every_step(self.records, self._measurement.pending())

    def report(self, out: str | Path) -> None:
        """Write a page about the training so far: what it shows in words, warnings, and curves. It opens offline."""
        from foretrain.monitor.page.writing import write_page  # on use: Plotly takes longer to import than the monitor

        write_page(self.records, Path(out))

    def detach(self, *, finished: bool = True, why: str | None = None) -> None:
        """Leave the model as it was, close the sinks, and note in the file whether the training is finished, or why it
        was stopped."""
        self._end()
        self._measurement.stop()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._file is not None:
            with self._guard("write a record"):
                self._file.end(why or (None if finished else "an error"), known=True)
        for sink in self.sinks:
            if hasattr(sink, "close"):
                with self._guard(f"close the sink {_name(sink)}"):
                    sink.close()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        finished = kind is None or (isinstance(error, SystemExit) and not error.code)
        self.detach(finished=finished, why=None if finished or kind is None else described(kind, error))

    def _begin(self, module: nn.Module, *_: Any) -> None:
        model = self._model()
        self._called = True
        if model is None or module is not model:
            return  # a copy of the model has our hooks but is not ours
        if torch.jit.is_tracing() or self._elsewhere():  # type: ignore[attr-defined]
            return
        if self._open is not None:  # a pass that Ctrl-C has stopped, which torch does not tell hooks about
            self._end()
        if not self.due:
            return
        self._blind = self._reason_not_to_read(model)
        if self._blind is None:
            self._open, self._seen, self._thread = ExitStack(), True, threading.get_ident()
            self._measurement.begin(model)
            if self._with_attention:
                with self._guard("read attention"):
                    self._measurement.readings = self._open.enter_context(forward_pass_of(model, self._guard))

    def _elsewhere(self) -> bool:
        """Whether another thread is in a pass that is read, so that this one is none of the training's."""
        return self._open is not None and self._thread != threading.get_ident()

    def _reason_not_to_read(self, model: nn.Module) -> str | None:
        if not model.training:
            return IN_EVAL_MODE
        if not torch.is_grad_enabled():
            return NO_GRADIENTS
        return ON_META if _device(model).type == "meta" else None

    def _end(self, module: nn.Module | None = None, _: Any = None, output: Any = None) -> None:
        model = self._model()
        if self._elsewhere():
            return
        if module is not None and module is model and output is not None and torch.is_grad_enabled():
            with self._guard("wait for gradients"):
                call_after_backward(output, MonitorHook(self, "backward_ended").now)
        opened, self._open = self._open, None
        if opened is None:
            return
        with self._guard("read attention"):
            opened.close()
        if output is None:  # the model raised: its next forward pass will be read instead
            self._measurement.forget()
            self._seen, self._blind = False, RAISED
        elif model is not None:
            with self._guard("read the identity's share"):
                self._measurement.pass_ended(model)


def _name(called: Any) -> str:
    return getattr(called, "__name__", type(called).__name__)


def _device(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))
