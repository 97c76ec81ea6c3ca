"""What is recorded of the weight matrices at a measured step: their spectra, their gradients, and how far the update
moved them.

    norm             ‖W‖, Frobenius
    stable_rank      ‖W‖²/σ_max², before the update
    effective_rank   exp of the entropy of the singular values; large matrices only at every tenth measurement
    gradient_norm    of the gradient as backward leaves it: this process's own, summed over accumulated batches, before
                     clipping, and times the loss scale where there is one
    update_ratio     ‖ΔW‖/‖W‖ from the forward pass to the end of the step

Gradients are read by hooks on the parameters, which exist only from the forward pass of a measured step to the end of
that step. For updates, a sample of every matrix's entries is kept for that time.
"""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from foretrain.core.errors import InputError
from foretrain.measures import SpectrumTracker
from foretrain.measures.matrices import plain_arithmetic
from foretrain.monitor.guard import Guard, no_guard
from foretrain.monitor.wrappers import parameters_of, whole_parameters

_log = logging.getLogger("foretrain")

EFFECTIVE_RANK_EVERY = 10  # measurements: all singular values cost 30 to 80 times as much as the largest one
ENTRIES = 1 << 17  # of a matrix that are kept to see how far it moves; of a larger matrix, evenly spaced ones
Measures = dict[str, dict[str, float]]


class WeightReader:
    """Reads the trainable matrices of a model at one step after another."""

    def __init__(self, guard: Guard = no_guard) -> None:
        self.measurements, self._guard = 0, guard
        self._tracker = SpectrumTracker()
        self._measures: Measures = {}
        self._before: dict[str, Tensor] = {}
        self._matrices: dict[str, nn.Parameter] = {}
        self._handles: list[Any] = []
        self._warned = False
        weakref.finalize(self, _remove, self._handles)

    def begin(self, model: nn.Module) -> None:
        """Measure the weights now, and watch their gradients and their next update."""
        self.stop()
        full = self.measurements % EFFECTIVE_RANK_EVERY == 0
        self.measurements += 1
        self._matrices, self._measures = self._chosen(model), {}
        for name, W in self._matrices.items():
            with self._guard("read the weights"):
                self._measures[name] = self._spectrum(name, W, full)
                self._before[name] = _entries(W).clone()
                self._handles.append(W.register_post_accumulate_grad_hook(_calling(self, "_gradient", name)))

    def finish(self) -> Measures:
        """What was measured since `begin`."""
        for name, before in self._before.items():
            with self._guard("read updates of the weights"):
                self._measures[name]["update_ratio"] = _moved(before, _entries(self._matrices[name]))
        self.stop()
        measures, self._measures = self._measures, {}
        return measures

    def stop(self) -> None:
        """Remove every hook, and let go of the weights."""
        _remove(self._handles)
        self._before, self._matrices = {}, {}

    def _chosen(self, model: nn.Module) -> dict[str, nn.Parameter]:
        parameters = parameters_of(model)
        matrices = {n: p for n, p in parameters.items() if p.requires_grad and p.ndim == 2 and min(p.shape) > 1}
        whole = whole_parameters(model)
        if not matrices.keys() <= whole.keys() and not self._warned:
            self._warned = True
            spread = len(matrices.keys() - whole.keys())
            _log.warning("%d matrices are spread over processes and are not measured; attention is.", spread)
        return {name: W for name, W in matrices.items() if name in whole}

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
            with self._guard("read gradients"), plain_arithmetic(W.device):
                gradient = W.grad.coalesce().values() if W.grad.is_sparse else W.grad
                self._measures[name]["gradient_norm"] = _norm(gradient)


def _moved(before: Tensor, after: Tensor) -> float:
    """How far entries have moved, relative to their size."""
    if before.shape != after.shape:
        return math.nan  # the matrix was replaced
    size = _norm(before)
    return _norm(after - before) / size if size > 0 else math.nan


def _norm(values: Tensor) -> float:
    with plain_arithmetic(values.device):
        return float(torch.linalg.vector_norm(values, dtype=torch.promote_types(values.dtype, torch.float32)))


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
