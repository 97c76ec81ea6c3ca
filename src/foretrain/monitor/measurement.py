"""What is measured between two calls of `Monitor.step`, and the record that becomes of it.

Everything stays on the device until `record`, which puts together what the processes of a distributed training have
measured, and reads all numbers at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from foretrain.measures.matrices import plain_arithmetic
from foretrain.monitor.every_step import PART as EVERY_STEP
from foretrain.monitor.every_step import EveryStep, Total
from foretrain.monitor.gradients import GradientReader, Squares
from foretrain.monitor.guard import Guard
from foretrain.monitor.held import Held
from foretrain.monitor.projections import as_lists, heads_of, identity_tallies
from foretrain.monitor.sharing import processes_of
from foretrain.monitor.tally import Measures, Readings, Tally
from foretrain.monitor.weights import WeightReader
from foretrain.monitor.wrappers import plain_name, unwrapped, whole_parameters
from foretrain.runs.training_log import Record

IDENTITY = "identity"


class Measurement:
    """Collects what is measured of one step after another."""

    def __init__(self, model: nn.Module, every: int, guard: Guard, *, weights: bool, identity: bool) -> None:
        self.readings = Readings()
        self._guard, self._with_identity = guard, identity
        self._weights = WeightReader(guard) if weights else None
        self._gradients = GradientReader(guard)
        self._every_step = EveryStep()
        self._estimate: Total = {}
        self._squares: Squares = {}
        self._parts: dict[str, Held] = {}
        self._processes = None
        with guard("meet the other processes"):
            self._processes = processes_of(model, every)

    @property
    def saw_attention(self) -> bool:
        """Whether the last forward pass that was read had attention in it."""
        return bool(self.readings.of("attention"))

    @property
    def lacks_identity(self) -> bool:
        """Whether the identity's share was asked for, and no layer has one."""
        return self._with_identity and self._weights is not None and not self.readings.of(IDENTITY)

    def pending(self) -> Record:
        """What is known of the steps since the last record, in the form of the record's part "every_step"."""
        return self._every_step.read()

    @property
    def operations(self) -> int:
        """How many collective operations there were so far."""
        return 0 if self._processes is None else self._processes.operations

    def first_step(self, step: int) -> int:
        """The step at which the first process begins, which alone may have the file of a resumed training."""
        return step if self._processes is None else self._processes.first_step(step)

    def all_stop(self, step: int, stop: bool) -> bool:
        """Whether to end the training after this step, as the first process decides for all."""
        return stop if self._processes is None else self._processes.decided(step, stop)

    def begin(self, model: nn.Module) -> None:
        """A forward pass begins that is read."""
        self.readings = Readings()
        if self._weights is not None:
            with self._guard("read the weights"):
                self._parts = self._weights.begin(model)
                self._gradients.watch(self._parts)

    def pass_ended(self, model: nn.Module) -> None:
        """The forward pass that is read has ended: now the heads of every layer are known."""
        heads = heads_of(self.readings)
        if self._weights is not None and self._with_identity:
            for layer, tally in identity_tallies(whole_parameters(model), heads).items():
                self.readings.add(IDENTITY, layer, tally)
        for name, module in unwrapped(model).named_modules():
            scaling = module._modules.get("identity_scaling")  # see patches.identity
            if scaling is not None:
                fields = {f"scaling_{key}": value.detach() for key, value in scaling.named_parameters()}
                self.readings.add("scalings", plain_name(name), Tally({}, {}, as_lists, fields))

    def backward_ended(self, read: bool) -> None:
        """All gradients are there. With accumulation, the last such call of a step counts."""
        with self._guard("read gradients"):
            self._estimate = self._gradients.estimate()
        if read:
            self._squares = self._gradients.squares()

    def keep(self, step: int, loss: Any, norm: Any) -> None:
        """Keep the loss and the gradient's norm of this step."""
        self._every_step.add(step, loss, norm, self._estimate)

    def next_step(self) -> None:
        """Forget what belongs to this step only."""
        self._estimate = {}

    def forget(self) -> None:
        """Forget a forward pass that failed."""
        self.readings = Readings()
        self.stop()

    def stop(self) -> None:
        """Let go of the weights."""
        self._squares, self._parts = {}, {}
        if self._weights is not None:
            self._weights.stop()

    def record(self, model: nn.Module, step: int, seen: bool) -> Record | None:
        """What was measured at this step; None if its forward pass was not read, by this process or by all."""
        readings, processes = self.readings, self._processes
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        add_up, together = None, True
        with torch.no_grad(), plain_arithmetic(device):
            if self._weights is not None:
                with self._guard("read the weights"):
                    if processes is not None and self._weights.needs_all(model):
                        together = processes.agree(f"{step}/weights")
                        add_up = processes.add_up if together else None
                    self._weights.finish(model, self._squares, readings, add_up)
            readings.tallies[EVERY_STEP, ""] = self._tally_of_steps(device, shared=processes is not None)
            combine = None
            if processes is not None:
                if together and processes.agree(f"{step}/record", *readings.fields()):
                    combine = partial(processes.combine, device=device)
                else:
                    readings.tallies[EVERY_STEP, ""] = self._tally_of_steps(device, shared=False)
            parts = readings.read(combine, self._guard)
        self._every_step.clear()
        self._squares = {}
        return self._assembled(parts) if seen else None

    def _tally_of_steps(self, device: torch.device, *, shared: bool) -> Tally:
        exact: Total = {}
        for name, square in self._squares.items():
            whole = name not in self._parts or self._parts[name].whole
            exact[whole] = exact[whole] + square if whole in exact else square
        return self._every_step.tally(exact, device, shared=shared)

    def _assembled(self, parts: dict[str, dict[str, Measures]]) -> Record | None:
        steps = parts.pop(EVERY_STEP, {}).get("", {})
        weights = self._weights.measured(parts) if self._weights is not None else {}
        for layer, scalings in parts.pop("scalings", {}).items():
            parts.setdefault(IDENTITY, {}).setdefault(layer, {}).update(scalings)
        record: Record = {}
        if steps.get("loss", [None])[-1] is not None:
            record["loss"] = steps["loss"][-1]
        if "exact" in steps:
            record["gradient_norm"] = steps.pop("exact")
        if "loss" in steps or "gradient_norm" in steps:
            record[EVERY_STEP] = steps
        return {**record, **parts, **({"weights": weights} if weights else {})} or None
