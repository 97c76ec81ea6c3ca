"""What is kept of every step, measured or not: its loss, and the norm of its whole gradient.

Both stay on the device until the next record, so that a step that is not measured never waits for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foretrain.monitor.shards import local_part
from foretrain.monitor.tally import Arrays, Measures, Tally

PART = "every_step"  # of a record
Total = dict[bool, Tensor]  # a squared norm: of the whole parameters (True), and this process's share of the others
KINDS = {True: "whole", False: "shards"}


@dataclass
class EveryStep:
    """The steps since the last record, oldest first."""

    first: int = 0
    losses: list[Tensor | float | None] = field(default_factory=list)
    norms: list[Tensor | float | None] = field(default_factory=list)  # as the training itself has computed them
    estimates: list[Total] = field(default_factory=list)
    scale: float = math.nan  # of the estimates, as the last record has shown

    def add(self, step: int, loss: Any, norm: Any, estimate: Total) -> None:
        """Keep what is known of one step."""
        if not self.losses:
            self.first = step
        self.losses.append(_kept(loss))
        self.norms.append(_kept(norm))
        self.estimates.append(estimate)

    def clear(self) -> None:
        """Begin anew after a record."""
        self.losses, self.norms, self.estimates = [], [], []

    def read(self) -> Measures:
        """What is kept now, read number by number: for the end of a training, or for a person who asks."""
        if not self.losses:
            return {}
        device = next((x.device for x in (*self.losses, *self.norms) if isinstance(x, Tensor)), torch.device("cpu"))
        tally = self.tally({}, device, shared=False)
        arrays = {name: np.asarray(value.detach().cpu().double()) for name, value in tally.local.items()}
        measures = tally.finish(arrays)
        measures.pop("exact", None)  # of the last step, which its place in the list has, too
        return measures

    def tally(self, exact: Total, device: torch.device, *, shared: bool) -> Tally:
        """All of it, with the exact norm of the last step, by which the estimates are scaled.

        Where it is `shared`, losses are averaged over processes.
        """
        counted = torch.tensor([loss is not None for loss in self.losses], dtype=torch.float32).to(device)
        losses = {"loss": _stack([0.0 if loss is None else loss for loss in self.losses], device), "counted": counted}
        sums, local = (losses, {}) if shared else ({}, losses)
        local = {**local, "norm": _stack([math.nan if norm is None else norm for norm in self.norms], device)}
        for whole, kind in KINDS.items():
            if not (whole or shared):
                continue  # part of a norm means nothing
            target = local if whole else sums
            if whole in exact:
                target[f"exact_{kind}"] = exact[whole]
            if any(whole in estimate for estimate in self.estimates):
                target[f"estimate_{kind}"] = _stack([e.get(whole, math.nan) for e in self.estimates], device)
        return Tally(sums, {}, _Finish(self), local)


@dataclass(frozen=True)
class _Finish:
    """The losses and the norms of the whole gradient, one of each per step; None where there is none."""

    steps: EveryStep

    def __call__(self, arrays: Arrays) -> Measures:
        with np.errstate(all="ignore"):
            losses = np.where(arrays["counted"] > 0, arrays["loss"] / arrays["counted"], math.nan)
            estimates = np.sqrt(_total(arrays, "estimate", len(losses)))
            exact = float(np.sqrt(_total(arrays, "exact", 1)[0]))
            scale = exact / estimates[-1] if len(estimates) else math.nan
            if np.isfinite(scale):
                self.steps.scale = float(scale)
            else:
                scale = self.steps.scale
            norms = np.where(
                np.isnan(arrays["norm"]), estimates * (scale if np.isfinite(scale) else 1.0), arrays["norm"]
            )
        measures: Measures = {"first": self.steps.first}
        if (arrays["counted"] > 0).any():
            measures["loss"] = [float(x) if n else None for x, n in zip(losses, arrays["counted"], strict=True)]
        if not np.isnan(norms).all():
            measures["gradient_norm"] = norms.tolist()
        given = float(arrays["norm"][-1]) if len(arrays["norm"]) else math.nan
        if not math.isnan(exact) or not math.isnan(given):
            measures["exact"] = exact if math.isnan(given) else given
        return measures


def _total(arrays: Arrays, name: str, steps: int) -> np.ndarray:
    """Squared norms, of whole parameters and of shards together; nan where neither is known."""
    parts = [np.atleast_1d(arrays[key]) for kind in KINDS.values() if (key := f"{name}_{kind}") in arrays]
    return np.sum(parts, axis=0) if parts else np.full(steps, math.nan)


def _kept(value: Any) -> Tensor | float | None:
    """A number as it is now: a tensor is copied on its device, as a training may go on to change it."""
    if isinstance(value, Tensor):
        return local_part(value.detach()).clone().reshape(())
    return None if value is None else float(value)


def _stack(values: list[Any], device: torch.device) -> Tensor:
    """Numbers and tensors of one number as one vector; numbers of the host are sent to the device together."""
    plain = torch.tensor([0.0 if isinstance(value, Tensor) else float(value) for value in values], dtype=torch.float64)
    wide = torch.float32 if device.type == "mps" else torch.float64
    vector = plain.to(wide).to(device)
    tensors = [(k, value) for k, value in enumerate(values) if isinstance(value, Tensor)]
    if len(tensors) == len(values) and values:
        return torch.stack([value.to(device=device, dtype=wide) for _, value in tensors])
    for k, value in tensors:
        vector[k] = value.to(device=device, dtype=wide)
    return vector
