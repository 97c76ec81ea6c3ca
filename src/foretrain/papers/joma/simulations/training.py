"""What trainings of the layer of eq. 1 share: data drawn once, all seeds together, W and Z along training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

import torch
import xarray as xr
from torch import Tensor

from foretrain.dynamics.optimizers import SGD
from foretrain.dynamics.train import train
from foretrain.models.joint import Joint

Method = TypeVar("Method", bound=Callable[..., Any])


def once_per_stream(draw: Method) -> Method:
    """A method of a task, whose last argument is a stream: what the first call draws, every later one gives again."""

    @wraps(draw)
    def drawn(task: Any, *arguments: Any) -> Any:
        kept = task.__dict__.setdefault(f"_{draw.__name__}_by_stream", {})
        if arguments[-1] not in kept:
            kept[arguments[-1]] = draw(task, *arguments)
        return kept[arguments[-1]]

    return drawn  # type: ignore[return-value]


def train_joint(
    model: Joint, task: Any, *, rate: float, steps: int, samples: int, seeds: tuple[int, ...], save_at: Iterable[int],
    experiment: str, record: dict[str, Any] | None = None,
) -> tuple[xr.Dataset, dict[str, Tensor]]:  # fmt: skip
    """All seeds trained together by SGD: the run, and W and Z at these times, [time, seed, …]."""
    run = train(
        model,
        task,
        optimizer=SGD(rate),
        steps=steps,
        batch=samples,
        seeds=seeds,
        seeds_at_once=len(seeds),
        record={
            "W": lambda p: (("node", "dimension"), p["W"]),
            "Z": lambda p: (("query", "context"), p["Z"]),
            **(record or {}),
        },
        save_at=save_at,
        experiment=experiment,
    )
    return run, {name: torch.from_numpy(run[name].transpose("time", "seed", ...).values) for name in ("W", "Z")}
