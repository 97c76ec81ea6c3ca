"""Watches a model while it trains: every so many steps, the attention of one forward pass and the weights are read."""

from __future__ import annotations

import logging
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

from foretrain.core.errors import InputError, require, require_whole
from foretrain.measures.matrices import plain_arithmetic
from foretrain.monitor.alarms import Alarm, Watcher, in_words
from foretrain.monitor.compiled import AroundCompiledCall, inside_compiled_code
from foretrain.monitor.guard import LoggedErrors, is_first_process
from foretrain.monitor.projections import heads_of, identity_shares
from foretrain.monitor.statistics import NAMES
from foretrain.monitor.watch import attention_of
from foretrain.monitor.weights import Measures, WeightReader
from foretrain.monitor.wrappers import plain_name, unwrapped, whole_parameters
from foretrain.runs.training_log import (
    FINISHED,
    Record,
    add_record,
    append_line,
    append_nothing,
    as_dataset,
    read_training,
)

_log = logging.getLogger("foretrain")
NEVER_CALLED = (
    "Nothing was measured, because the monitor did not see the model being called. If it is compiled, make the Monitor "
    "afterwards, of what torch.compile returns."
)
IN_EVAL_MODE = "Nothing was measured, because the model is in evaluation mode; call model.train() before training."
NO_ATTENTION = (
    "No attention was seen in this model, so only its weights are recorded. What can be read is "
    "scaled_dot_product_attention, nn.MultiheadAttention, and a softmax over a tensor [sample, head, query, key]."
)


class Monitor:
    """Records what attention and weights do during training, without changing a bit of it.

        monitor = Monitor(model, every=50, file="run.jsonl")
        for batch in data:
            loss = model(batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss=loss)
        monitor.dataset()["attention_entropy"]  # over (step, layer, head)

    Step 0 is measured, then every `every` steps: the first forward pass of that step in training mode, and the weights
    as they are at that moment. With gradient accumulation, call `step` once per update. An error while reading is
    logged once and never stops the training.

    With a `file`, each record is added to it as a line of JSON. A file that holds another training is left alone: then
    this one goes into a file beside it, such as run-2.jsonl, and `monitor.file` says which. To go on in the same file,
    give `start`, the step at which the training goes on, or `resume=True` for the one after the last record.

    `weights=False` leaves the matrices out; `identity=True` adds the identity's share of W_Q·W_Kᵀ and W_V·W_O in every
    head. Every sink is called with each new record, and closed at the end if it can be. `total` is the number of steps
    planned, for the report. In a distributed training every process measures its own batches, and only the first one
    writes. A model wrapped by torch.compile is given as it is, wrapped: at measured steps it runs eagerly.

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
        weights: bool = True,
        identity: bool = False,
        total: int | None = None,
        resume: bool = False,
        start: int | None = None,
    ) -> None:
        require(isinstance(model, nn.Module), f"Monitor takes a torch module; got a {type(model).__name__}.")
        require_whole("every", every, 1)
        require(all(callable(sink) for sink in sinks), "sinks must be functions or objects that can be called.")
        self.every, self.steps, self.total = every, 0, total
        self.records: list[Record] = []
        self.file, self.sinks = Path(file) if file is not None else None, tuple(sinks)
        if self.file is not None:
            self.file, self.records = _opened(self.file, resume or bool(start))
            self.steps = max((record["step"] + 1 for record in self.records), default=0)
        if start is not None:
            require_whole("start", start, 0)
            self.steps = start
        self._watcher = Watcher()
        self.alarms: list[Alarm] = [alarm for record in self.records for alarm in self._watcher.update(record)]
        self._model = weakref.ref(model)
        self._attention: dict[str, Tensor] = {}
        self._identity: dict[str, dict[str, list[float]]] = {}
        self._guard = LoggedErrors()
        self._weights = WeightReader(self._guard) if weights else None
        self._with_identity = identity
        self._seen = False  # whether this step's forward pass has been read
        self._open: ExitStack | None = None
        self._called = False  # whether the model was ever called in a way that can be read
        self._warned = False  # that there is no attention
        before, after = _Hook(self, "_begin"), _Hook(self, "_end")
        self._handles: list[Any] = [
            model.register_forward_pre_hook(before),
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
    def due(self) -> bool:
        """Whether the next forward pass in training mode will be read."""
        return self.steps % self.every == 0 and not self._seen

    def step(self, *, loss: Tensor | float | None = None) -> None:
        """Call this after every update of the weights."""
        require(_is_number(loss), f"loss must be a single number; got {loss!r}.")
        with self._guard("record this step"):
            weights = self._weights.finish() if self._weights is not None and self._seen else {}
            if self._seen and (self._attention or weights):
                self._keep(self._record(loss, weights))
        with self._guard("look at the model"):
            self._warn_if_blind()
        self._attention, self._identity, self._seen = {}, {}, False
        self.steps += 1

    def _warn_if_blind(self) -> None:
        """Say once why nothing, or no attention, was measured at a step at which it should have been."""
        model, reason = self._model(), None
        if self.due and not self._called:
            reason = NEVER_CALLED
        elif self.due and model is not None and not model.training:
            reason = IN_EVAL_MODE
        elif self._seen and not self._attention:
            reason = NO_ATTENTION
        if reason is not None and not self._warned:
            self._warned = True
            warnings.warn(reason, stacklevel=3)

    def _record(self, loss: Tensor | float | None, weights: Measures) -> Record:
        record: Record = {"step": self.steps}
        if self.total is not None:
            record["total"] = self.total
        if loss is not None:
            with self._guard("read the loss"):
                record["loss"] = float(loss.detach() if isinstance(loss, Tensor) else loss)
        if self._attention:
            record["attention"] = {
                layer: dict(zip(NAMES, statistics.tolist(), strict=True))
                for layer, statistics in self._attention.items()
            }
        if self._identity:
            record["identity"] = self._identity
        if weights:
            record["weights"] = weights
        return record

    def _keep(self, record: Record) -> None:
        if add_record(self.records, record):  # the training has gone back: what came after that no longer counts
            self._watcher = Watcher()
            self.alarms = [alarm for earlier in self.records[:-1] for alarm in self._watcher.update(earlier)]
        new: list[Alarm] = []
        with self._guard("look for trouble"):
            new = self._watcher.update(record)
        self.alarms += new
        if is_first_process():
            for line in in_words(alarm for alarm in new if alarm.serious):
                _log.warning("%s", line)
            self._write(record)
            for sink in self.sinks:
                with self._guard(f"pass a record to the sink {type(sink).__name__}"):
                    sink(record)

    def _write(self, record: Record) -> None:
        """A disk that is full is no reason to stop someone's training: records are kept in memory all the same."""
        if self.file is None:
            return
        with self._guard("write a record"):
            try:
                append_line(self.file, record)
            except InputError as error:
                _log.error("%s Records from step %d on are not in the file.", error, self.steps)

    def begin(self) -> None:
        """Read from here on if this step is due; only for loops that do not call the model itself, as Lightning's."""
        model = self._model()
        if model is not None:
            self._begin(model)

    def end(self) -> None:
        """Stop reading."""
        self._end(output=True)

    def dataset(self) -> xr.Dataset:
        """Everything recorded so far, over (step, layer, head) and (step, matrix)."""
        return as_dataset(self.records)

    def report(self, out: str | Path) -> None:
        """Write a page about the training so far: what it shows in words, warnings, and curves. It opens offline."""
        from foretrain.monitor.page.writing import write_page  # on use: Plotly takes longer to import than the monitor

        write_page(self.records, Path(out))

    def detach(self, *, finished: bool = True) -> None:
        """Leave the model as it was, close the sinks, and note in the file whether the training is finished."""
        self._end()
        if self._weights is not None:
            self._weights.stop()
        for handle in self._handles:
            handle.remove()
        if finished and self._handles and self.records and is_first_process():
            self._write({FINISHED: self.steps})
        self._handles = []
        for sink in self.sinks:
            if hasattr(sink, "close"):
                with self._guard(f"close the sink {type(sink).__name__}"):
                    sink.close()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self.detach(finished=kind is None)

    def _begin(self, module: nn.Module, *_: Any) -> None:
        model = self._model()
        self._called = True
        if model is None or module is not model:
            return  # a copy of the model has our hooks but is not ours
        if self._open is not None:  # a pass that Ctrl-C has stopped, which torch does not tell hooks about
            self._end()
        if self.due and model.training and torch.is_grad_enabled():
            self._open, self._seen, self._attention = ExitStack(), True, {}
            if self._weights is not None:
                with self._guard("read the weights"):
                    self._weights.begin(model)
            with self._guard("read attention"):
                self._attention = self._open.enter_context(attention_of(model, self._guard))

    def _end(self, _: nn.Module | None = None, __: Any = None, output: Any = None) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        with self._guard("read attention"):
            opened.close()
        if output is None:  # the model raised: its next forward pass will be read instead
            self._attention, self._seen = {}, False
            return
        model = self._model()
        if self._weights is not None and model is not None:
            with self._guard("read the identity's share"), plain_arithmetic(_device(model)):
                if self._with_identity:
                    self._identity = identity_shares(whole_parameters(model), heads_of(self._attention))
                for name, module in unwrapped(model).named_modules():
                    scaling = module._modules.get("identity_scaling")  # see patches.identity
                    if scaling is not None:
                        scalars = {f"scaling_{key}": value.tolist() for key, value in scaling.named_parameters()}
                        self._identity.setdefault(plain_name(name), {}).update(scalars)


def _opened(file: Path, resume: bool) -> tuple[Path, list[Record]]:
    """The file to write to, and the records that are in it: none, unless its training is to go on."""
    beside, number = file, 1
    while beside.exists():
        records = read_training(beside)[0]
        if resume:
            return beside, records
        if not records:
            break
        number += 1
        beside = file.with_name(f"{file.stem}-{number}{file.suffix}")
    append_nothing(beside)  # now, not at the first record: the place may not be writable
    if beside != file and is_first_process():
        _log.warning(
            "%s holds another training, so this one is written to %s. To go on with the other one, give resume=True.",
            file, beside.name,
        )  # fmt: skip
    return beside, []


def _is_number(loss: Any) -> bool:
    return loss is None or (loss.numel() == 1 if isinstance(loss, Tensor) else isinstance(loss, int | float | Real))


def _device(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


class _Hook:
    """A hook that does not keep its monitor alive, and that a copy of the model may take along."""

    def __init__(self, monitor: Monitor, method: str) -> None:
        self.monitor, self.method = weakref.ref(monitor), method

    def __call__(self, module: nn.Module, *rest: Any) -> None:
        if inside_compiled_code():
            return  # a hook that did more would break the graph
        monitor = self.monitor()
        if monitor is not None:
            getattr(monitor, self.method)(module, *rest)

    def __deepcopy__(self, _: dict[int, Any]) -> _Hook:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_hook, ()


def _no_hook() -> Any:
    """What a monitor's hook becomes in a saved copy of the model: nothing."""
    return _nothing


def _nothing(*_: Any) -> None: ...
