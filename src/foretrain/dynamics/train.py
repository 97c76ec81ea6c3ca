"""Trains all runs of a sweep at once: seeds and learning rates are axes of one vectorised program.

Parameters have leading axes [setting, seed], where a setting is one combination of learning rates. A batch has [seed]
only: the settings of a sweep share their data, so that comparisons are paired, and because drawing samples is a large
part of the cost.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.errors import require, require_whole
from foretrain.core.progress import Progress, tell
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.dynamics.optimizers import rates_by_block
from foretrain.dynamics.protocols import GradientModel, Optimizer, PreparesSteps, Task
from foretrain.models.parameters import Parameters, start_keys

Measure = Callable[[Parameters], tuple[tuple[str, ...], Tensor]]  # names of the axes after those of the runs, values

STEPS_AT_ONCE = 10  # whose data is drawn together; always the same number, so that a longer run begins like a shorter
FLOATS_AT_ONCE = 1_000_000  # as many seeds are trained together as fit in a few MB: measured to be fastest
TELL_EVERY = 1.0  # seconds


def train(
    model: GradientModel,
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
) -> xr.Dataset:
    """Train every setting of the optimizer's rates for every seed; returns the recorded measures.

    The axes are those of the rates, `seed`, `time` (steps done: `save_at`, by default the start and the end) and those
    of each measure. If a run's parameters stop being finite, it keeps what was recorded before and is nan from then on,
    and `diverged_at` has its step; the other runs go on. `seeds_at_once` (by default chosen by size) trades memory for
    fewer, larger operations; no number depends on it.
    """
    require(isinstance(record, Mapping), f"record must map names to measures, and may be {{}}; got {record!r}.")
    require(
        hasattr(optimizer, "rate"),
        f"optimizer must be one of foretrain's, such as SGD({{...}}); got {type(optimizer).__module__}."
        f"{type(optimizer).__name__}, which moves one model's weights, not many runs at once.",
    )
    require_whole("steps", steps, 0)
    require_whole("batch", batch, 1)
    listed = seed_list(seeds)
    times = sorted({0, steps} if save_at is None else set(save_at))
    inside = bool(times) and all(t == int(t) and 0 <= t <= steps for t in times)
    require(inside, f"save_at must name whole steps between 0 and {steps}; got {times}.")
    times = [int(t) for t in times]
    if seeds_at_once is not None:
        require_whole("seeds_at_once", seeds_at_once, 1)
    first = model.start(start_keys(experiment, listed[:1]))
    rates = dict(zip(first, xr.broadcast(*rates_by_block(optimizer.rate, list(first)).values()), strict=True))
    axes = next(iter(rates.values()))
    taken = [name for name in ("seed", "time") if name in axes.dims]
    require(not taken, f"A rate cannot have an axis named {taken[:1]}: every run has that axis already; rename it.")
    flat = {name: torch.tensor(rate.values.ravel()) for name, rate in rates.items()}
    chunk = seeds_at_once or _seeds_at_once(first, axes.size, batch)
    chunks = [listed[i : i + chunk] for i in range(0, len(listed), chunk)]
    groups, last_told = [], time.monotonic()
    for number, seeds_together in enumerate(chunks):
        group = _SeedGroup(model, optimizer, flat, seeds_together, experiment)
        for step in group.train(task, steps, batch, record, times):
            if time.monotonic() - last_told >= TELL_EVERY:
                last_told = time.monotonic()
                begin, end = number * chunk + 1, number * chunk + len(seeds_together)
                which = f"seed {end}" if begin == end else f"seeds {begin} to {end}"
                doing = f"{which} of {len(listed)}, step {step} of {steps}"
                tell(Progress(number * steps + step, len(chunks) * steps, doing, inner=True))
        groups.append(group)
    values = {name: np.concatenate([np.stack(g.saved[name], axis=2) for g in groups], axis=1) for name in record}
    diverged = np.concatenate([g.diverged for g in groups], axis=1)

    lead = axes.shape
    names = tuple(map(str, axes.dims))
    variables: dict[str, Any] = {
        name: ((*names, "seed", "time", *groups[0].axes[name]), array.reshape(*lead, *array.shape[1:]))
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


class _SeedGroup:
    """All settings of some seeds: parameters [setting, seed, …], and per recorded time values [setting, seed, …]."""

    def __init__(
        self,
        model: GradientModel,
        optimizer: Optimizer,
        rates: Mapping[str, Tensor],
        seeds: Sequence[int],
        experiment: str,
    ) -> None:
        settings = len(next(iter(rates.values())))
        self.model, self.optimizer = model, optimizer
        start = model.start(start_keys(experiment, seeds))
        self.parameters = {name: value.expand(settings, *value.shape).clone() for name, value in start.items()}
        self.rates = {n: rates[n].to(p.dtype).reshape(-1, *[1] * (p.ndim - 1)) for n, p in self.parameters.items()}
        self.states = {name: optimizer.begin(p) for name, p in self.parameters.items()}
        self.draws = [stream(experiment, seed, "data") for seed in seeds]
        self.diverged = np.full((settings, len(seeds)), np.nan)  # step; nan: has not diverged
        self.saved: dict[str, list[np.ndarray]] = {}
        self.axes: dict[str, tuple[str, ...]] = {}

    def train(
        self, task: Task, steps: int, batch: int, record: Mapping[str, Measure], times: Sequence[int]
    ) -> Iterator[int]:
        """Train, and yield the number of steps done after every step."""
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
        """Samples step by step; those of several steps are drawn and prepared at once if the model can do that."""
        while True:
            if isinstance(self.model, PreparesSteps):
                drawn = [task.sample(batch * STEPS_AT_ONCE, draw) for draw in self.draws]
                yield from self.model.prepare_steps(drawn, STEPS_AT_ONCE)
            else:
                yield self.model.prepare([task.sample(batch, draw) for draw in self.draws])

    def _record(self, record: Mapping[str, Measure]) -> None:
        for name, measure in record.items():
            measured = measure(self.parameters)
            require(isinstance(measured, tuple) and len(measured) == 2, f"{name} must return (names of axes, values).")
            self.axes[name], value = measured
            value_axes = value.shape[2:]
            require(
                len(self.axes[name]) == len(value_axes),
                f"{name} names the axes {tuple(self.axes[name])}, but its values have {len(value_axes)} axes besides "
                f"those of the runs: {tuple(value_axes)}.",
            )
            array = value.detach().to(torch.float64).numpy().copy()
            array[np.isfinite(self.diverged)] = np.nan
            self.saved[name].append(array)

    def _note_divergence(self, step: int) -> None:
        """Check every parameter. Between checks a small block of the gradient is enough: it depends on all of them."""
        sums = [parameter.flatten(2).sum(-1) for parameter in self.parameters.values()]
        finite = np.logical_and.reduce([torch.isfinite(s).numpy() for s in sums])
        self.diverged[np.isnan(self.diverged) & ~finite] = step


def _seeds_at_once(parameters: Parameters, settings: int, batch: int) -> int:
    per_run = sum(p.numel() for p in parameters.values()) + 100 * batch
    return max(1, FLOATS_AT_ONCE // (settings * per_run))
