"""Trains all runs of a sweep at once: seeds and learning rates are axes of one vectorised program.

Parameters have leading axes [setting, seed]; a batch has [seed], because the settings of one sweep share
their data on purpose: comparisons are paired, and drawing samples is a large part of the cost.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import require, require_whole
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.dynamics.optimizers import Optimizer, rates_by_block

Parameters = dict[str, Tensor]
Measure = Callable[[Parameters], tuple[tuple[str, ...], Tensor]]  # names of the axes behind the run axes, values


@runtime_checkable
class Task(Protocol):
    def sample(self, n: int, generator: Any, /) -> Any: ...


@runtime_checkable
class Model(Protocol):
    def start(self, seeds: Sequence[int], experiment: str) -> Parameters: ...
    def prepare(self, batches: Sequence[Any]) -> Any: ...
    def gradient(self, parameters: Parameters, batch: Any, samples: int) -> Parameters: ...


Progress = Callable[[int, int], None]  # steps done, steps in all
STEPS_AT_ONCE = 10  # of data; fixed, so that a longer run begins like a shorter one
FLOATS_AT_ONCE = 1_000_000  # as many seeds go together as fit in a few MB: measured to be fastest


def train(
    model: Model,
    task: Task,
    *,
    optimizer: Optimizer,
    steps: int,
    batch: int,
    seeds: int | Sequence[int] = 1,
    record: Mapping[str, Measure],
    save_at: Iterable[int] | None = None,
    experiment: str = "train",
    seeds_at_once: int | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Train every setting of the optimizer's rates for every seed; returns the recorded measures.

    The axes are those of the rates, `seed`, `time` (steps done; `save_at`, by default the start and the
    end) and those of each measure. A run whose parameters stop being finite keeps what was recorded, is nan
    from then on, and has its step in `diverged_at`; the others go on. `seeds_at_once` (by default chosen by
    size) trades memory for fewer, larger operations; no number depends on it.
    """
    require_whole("steps", steps, 0)
    require_whole("batch", batch, 1)
    listed = seed_list(seeds)
    times = sorted({0, steps} if save_at is None else set(save_at))
    inside = bool(times) and all(t == int(t) and 0 <= t <= steps for t in times)
    require(inside, f"save_at must name whole steps between 0 and {steps}; got {times}.")
    times = [int(t) for t in times]
    if seeds_at_once is not None:
        require_whole("seeds_at_once", seeds_at_once, 1)
    first = model.start(listed[:1], experiment)
    rates = dict(zip(first, xr.broadcast(*rates_by_block(optimizer.rate, list(first)).values()), strict=True))
    axes = next(iter(rates.values()))
    taken = [name for name in ("seed", "time") if name in axes.dims]
    require(not taken, f"A rate cannot have an axis named {taken[:1]}: runs have one of their own; rename it.")
    flat = {name: torch.tensor(rate.values.ravel()) for name, rate in rates.items()}
    chunk = seeds_at_once or _seeds_at_once(first, axes.size, batch)
    chunks = [listed[i : i + chunk] for i in range(0, len(listed), chunk)]
    report = progress or (lambda done, total: None)
    parts = []
    for number, some in enumerate(chunks):
        runs = _Runs(model, optimizer, flat, some, experiment)
        for step in runs.go(task, steps, batch, record, times):
            report(number * steps + step, len(chunks) * steps)
        parts.append(runs)
    values = {name: np.concatenate([np.stack(p.saved[name], axis=2) for p in parts], axis=1) for name in record}
    diverged = np.concatenate([p.diverged for p in parts], axis=1)

    lead = axes.shape
    names = tuple(map(str, axes.dims))
    variables: dict[str, Any] = {
        name: ((*names, "seed", "time", *parts[0].axes[name]), array.reshape(*lead, *array.shape[1:]))
        for name, array in values.items()
    }
    variables["diverged_at"] = ((*names, "seed"), diverged.reshape(*lead, len(listed)))
    coords = {name: axes.coords[name] for name in names if name in axes.coords}
    result = trajectory(
        variables,
        {**coords, "seed": listed, "time": times},
        optimizer=type(optimizer).__name__,
        steps=steps,
        batch=batch,
        experiment=experiment,
    )
    result["time"].attrs["units"] = "steps"
    lost = int(np.isfinite(diverged).sum())
    if lost:
        first_lost = int(np.nanmin(diverged))
        warnings.warn(f"{lost} of {diverged.size} runs diverged, the first at step {first_lost}.", stacklevel=2)
    return result


class _Runs:
    """All settings of some seeds: parameters [setting, seed, …], what was recorded [setting, seed, …] per time."""

    def __init__(
        self,
        model: Model,
        optimizer: Optimizer,
        rates: Mapping[str, Tensor],
        seeds: Sequence[int],
        experiment: str,
    ) -> None:
        settings = len(next(iter(rates.values())))
        self.model, self.optimizer = model, optimizer
        self.parameters = {
            name: value.expand(settings, *value.shape).clone() for name, value in model.start(seeds, experiment).items()
        }
        self.rates = {n: rates[n].to(p.dtype).reshape(-1, *[1] * (p.ndim - 1)) for n, p in self.parameters.items()}
        self.states = {name: optimizer.begin(p) for name, p in self.parameters.items()}
        self.draws = [stream(experiment, seed, "data") for seed in seeds]
        self.diverged = np.full((settings, len(seeds)), np.nan)  # the step; nan: not
        self.saved: dict[str, list[np.ndarray]] = {}
        self.axes: dict[str, tuple[str, ...]] = {}

    def go(
        self, task: Task, steps: int, batch: int, record: Mapping[str, Measure], times: Sequence[int]
    ) -> Iterator[int]:
        """Train; yields the number of steps done after every step."""
        self.saved = {name: [] for name in record}
        wanted, prepared = set(times), self._prepared(task, batch)
        for step in range(steps + 1):
            if step:
                gradient = self.model.gradient(self.parameters, next(prepared), batch)
                if not math.isfinite(min(gradient.values(), key=torch.numel).sum()):
                    self._note_divergence(step - 1)
                for name, parameter in self.parameters.items():
                    self.optimizer.update(parameter, gradient[name], self.rates[name], self.states[name], step)
                yield step
            if step in wanted or step == steps:
                self._note_divergence(step)
            if step in wanted:
                self._record(record)

    def _prepared(self, task: Task, batch: int) -> Iterator[Any]:
        """Samples step by step; a model that can prepares those of several steps at once, which costs less."""
        while True:
            if hasattr(self.model, "prepare_steps"):
                drawn = [task.sample(batch * STEPS_AT_ONCE, draw) for draw in self.draws]
                yield from self.model.prepare_steps(drawn, STEPS_AT_ONCE)
            else:
                yield self.model.prepare([task.sample(batch, draw) for draw in self.draws])

    def _record(self, record: Mapping[str, Measure]) -> None:
        for name, measure in record.items():
            measured = measure(self.parameters)
            require(isinstance(measured, tuple) and len(measured) == 2, f"{name} must give (names of axes, values).")
            self.axes[name], value = measured
            array = value.detach().to(torch.float64).numpy().copy()
            array[np.isfinite(self.diverged)] = np.nan
            self.saved[name].append(array)

    def _note_divergence(self, step: int) -> None:
        """A look at every parameter. In between, one small block of the gradient tells: it depends on all of them."""
        sums = [parameter.flatten(2).sum(-1) for parameter in self.parameters.values()]
        finite = np.logical_and.reduce([torch.isfinite(s).numpy() for s in sums])
        self.diverged[np.isnan(self.diverged) & ~finite] = step


def _seeds_at_once(parameters: Parameters, settings: int, batch: int) -> int:
    per_run = sum(p.numel() for p in parameters.values()) + 100 * batch
    return max(1, FLOATS_AT_ONCE // (settings * per_run))
