"""What is recorded of the weight matrices at a measured step: their spectra, their gradients, and how far the update
moved them.

    norm             ‖W‖, Frobenius
    stable_rank      ‖W‖²/σ_max², before the update
    effective_rank   exp of the entropy of the singular values; large matrices only at every tenth measurement
    gradient_norm    of the gradient as backward leaves it: this process's own, summed over accumulated batches, before
                     clipping, and times the loss scale where there is one
    update_ratio     ‖ΔW‖/‖W‖ of the optimizer's step

Gradients are read by hooks on the parameters, updates by hooks that torch calls around every optimizer's step. Both
exist only from the forward pass of a measured step to the end of that step.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from foretrain.core.errors import InputError
from foretrain.measures import SpectrumTracker
from foretrain.measures.matrices import plain_arithmetic
from foretrain.monitor.wrappers import parameters_of

EFFECTIVE_RANK_EVERY = 10  # measurements: all singular values cost 30 to 80 times as much as the largest one
ENTRIES = 1 << 20  # of a matrix that are kept to see how far it moves; of a larger matrix, evenly spaced ones
Measures = dict[str, dict[str, float]]


class WeightReader:
    """Reads the trainable matrices of a model at one step after another."""

    def __init__(self) -> None:
        self.measurements = 0
        self._tracker = SpectrumTracker()
        self._measures: Measures = {}
        self._before: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}  # by the identity of the parameter
        self._handles: list[Any] = []
        self._warned = False
        weakref.finalize(self, _remove, self._handles)

    def begin(self, model: nn.Module) -> None:
        """Measure the weights now, and watch their gradients and their next update."""
        self.stop()
        full = self.measurements % EFFECTIVE_RANK_EVERY == 0
        self.measurements += 1
        matrices = self._matrices(model)
        self._measures = {name: self._spectrum(name, W, full) for name, W in matrices.items()}
        self._names = {id(W): name for name, W in matrices.items()}
        for name, W in matrices.items():
            self._handles.append(W.register_post_accumulate_grad_hook(_calling(self, "_gradient", name)))
        self._handles.append(register_optimizer_step_pre_hook(_calling(self, "_before_update")))
        self._handles.append(register_optimizer_step_post_hook(_calling(self, "_after_update")))

    def finish(self) -> Measures:
        """What was measured since `begin`."""
        self.stop()
        measures, self._measures = self._measures, {}
        return measures

    def stop(self) -> None:
        """Remove every hook."""
        _remove(self._handles)
        self._before = {}

    def _matrices(self, model: nn.Module) -> dict[str, nn.Parameter]:
        parameters = parameters_of(model)
        matrices = {n: p for n, p in parameters.items() if p.requires_grad and p.ndim == 2 and min(p.shape) > 1}
        split = [name for name, W in matrices.items() if hasattr(W, "full_tensor")]
        if split and not self._warned:
            warnings.warn(f"{len(split)} matrices are spread over processes and are not measured.", stacklevel=6)
            self._warned = True
        return {name: W for name, W in matrices.items() if name not in split}

    def _spectrum(self, name: str, W: Tensor, full: bool) -> dict[str, float]:
        try:
            spectrum = self._tracker.refresh(name, W, full=full)
        except InputError:  # an entry is infinite or not a number: a finding, not a reason to stop someone's training
            return {"norm": math.nan, "stable_rank": math.nan}
        measures = {"norm": spectrum.norm, "stable_rank": spectrum.stable_rank}
        if spectrum.effective_rank is not None:
            measures["effective_rank"] = spectrum.effective_rank
        return measures

    def _gradient(self, name: str, W: Tensor) -> None:
        if W.grad is not None and name in self._measures:
            with plain_arithmetic(W.device):
                gradient = W.grad.coalesce().values() if W.grad.is_sparse else W.grad
                self._measures[name]["gradient_norm"] = float(torch.linalg.vector_norm(gradient, dtype=torch.float32))

    def _before_update(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            for W in group["params"]:
                name = self._names.get(id(W))
                if name is not None and name not in self._before:
                    self._before[name] = _entries(W).clone()

    def _after_update(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            for W in group["params"]:
                name = self._names.get(id(W))
                if name in self._before and name in self._measures:
                    before, after = self._before.pop(name).float(), _entries(W).float()
                    with plain_arithmetic(W.device):
                        size = float(torch.linalg.vector_norm(before))
                        moved = float(torch.linalg.vector_norm(after - before))
                    self._measures[name]["update_ratio"] = moved / size if size > 0 else math.nan


def _entries(W: Tensor) -> Tensor:
    return W.detach().reshape(-1)[:: -(-W.numel() // ENTRIES)]


def _calling(reader: WeightReader, method: str, *first: Any) -> Callable[..., None]:
    """A hook that does not keep the reader alive, and that returns nothing: torch would take that for new arguments."""
    reference = weakref.ref(reader)

    def hook(*arguments: Any) -> None:
        alive = reference()
        if alive is not None:
            getattr(alive, method)(*first, *arguments)

    return hook


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()
    handles.clear()
