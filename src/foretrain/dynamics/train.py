"""Trains all runs of a sweep at once: seeds and learning rates are axes of one vectorised program.

Parameters have leading axes [setting, seed]; a batch has [seed], because the settings of one sweep share
their data on purpose: comparisons are paired, and drawing samples is a large part of the cost.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.dynamics.optimizers import Optimizer, rates_by_block
from foretrain.errors import require_at_least
from foretrain.streams import seed_list, stream
from foretrain.trajectory import trajectory

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
    seeds_at_once: int = 1,
) -> xr.Dataset:
    """Train every setting of the optimizer's rates for every seed; returns the recorded measures.

    The axes are those of the rates, `seed`, `time` (steps done; `save_at`, by default the start and the
    end) and those of each measure. A run whose parameters stop being finite keeps what was recorded, is nan
    from then on, and has its step in `diverged_at`; the others go on. `seeds_at_once` trades memory for
    fewer, larger operations and does not change which numbers are drawn.
    """
    require_at_least("steps", steps, 0)
    require_at_least("batch", batch, 1)
    listed = seed_list(seeds)  # type: ignore[arg-type]
    times = sorted({0, steps} if save_at is None else {int(t) for t in save_at if 0 <= t <= steps})
    blocks = list(model.start(listed[:1], experiment))
    rates = dict(zip(blocks, xr.broadcast(*rates_by_block(optimizer.rate, blocks).values()), strict=True))
    axes = next(iter(rates.values()))
    flat = {name: torch.tensor(rate.values.ravel()) for name, rate in rates.items()}
    chunks = [listed[i : i + seeds_at_once] for i in range(0, len(listed), seeds_at_once)]
    parts = [_train(model, task, optimizer, flat, steps, batch, chunk, record, times, experiment) for chunk in chunks]
    values = {name: np.concatenate([p[0][name][1] for p in parts], axis=1) for name in parts[0][0]}
    diverged = np.concatenate([p[1] for p in parts], axis=1)

    lead = axes.shape
    names = tuple(map(str, axes.dims))
    variables: dict[str, Any] = {
        name: ((*names, "seed", "time", *parts[0][0][name][0]), array.reshape(*lead, *array.shape[1:]))
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
        first = int(np.nanmin(diverged))
        warnings.warn(f"{lost} of {diverged.size} runs diverged, the first at step {first}.", stacklevel=2)
    return result


def _train(
    model: Model,
    task: Task,
    optimizer: Optimizer,
    rates: Mapping[str, Tensor],
    steps: int,
    batch: int,
    seeds: Sequence[int],
    record: Mapping[str, Measure],
    times: Sequence[int],
    experiment: str,
) -> tuple[dict[str, tuple[tuple[str, ...], np.ndarray]], np.ndarray]:
    """One chunk of seeds: recorded arrays [setting, seed, time, …] and the step of divergence (nan: none)."""
    settings = len(next(iter(rates.values())))
    parameters = {
        name: value.expand(settings, *value.shape).clone() for name, value in model.start(seeds, experiment).items()
    }
    rate = {name: rates[name].to(p.dtype).reshape(-1, *[1] * (p.ndim - 1)) for name, p in parameters.items()}
    states = {name: optimizer.begin(p) for name, p in parameters.items()}
    draws = [stream(experiment, seed, "data") for seed in seeds]
    diverged = np.full((settings, len(seeds)), np.nan)
    saved: dict[str, list[np.ndarray]] = {name: [] for name in record}
    axes: dict[str, tuple[str, ...]] = {}
    wanted = set(times)
    for step in range(steps + 1):
        if step in wanted:
            _note_divergence(parameters, diverged, step)
            for name, measure in record.items():
                axes[name], value = measure(parameters)
                array = value.detach().to(torch.float64).cpu().numpy()
                array[np.isfinite(diverged)] = np.nan
                saved[name].append(array)
        if step == steps:
            break
        prepared = model.prepare([task.sample(batch, draw) for draw in draws])
        gradient = model.gradient(parameters, prepared, batch)
        for name, parameter in parameters.items():
            optimizer.update(parameter, gradient[name], rate[name], states[name], step + 1)
        if step % 10 == 9:
            _note_divergence(parameters, diverged, step + 1)
    return {name: (axes[name], np.stack(series, axis=2)) for name, series in saved.items()}, diverged


def _note_divergence(parameters: Parameters, diverged: np.ndarray, step: int) -> None:
    finite = np.ones(diverged.shape, dtype=bool)
    for value in parameters.values():
        finite &= torch.isfinite(value.sum(dim=tuple(range(2, value.ndim)))).numpy()
    diverged[~finite & np.isnan(diverged)] = step
