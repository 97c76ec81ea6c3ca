"""Experiments of the made-up paper."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import xarray as xr
from foretrain.papers.toy.setting import RATES

from foretrain.core.errors import require, require_positive
from foretrain.core.streams import seed_list, stream
from foretrain.core.trajectory import trajectory
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, NotNegative, Positive, Seeds, about


def noise(
    eta_z: Annotated[Sequence[float], about("Factors of the noise.")] = RATES,
    seeds: Seeds = 3,
    steps: Annotated[Count, about("Points of a series.", unit="steps")] = 4,
    label: Annotated[str, about("What to call it.")] = "plain",
    centred: Annotated[bool, about("Whether its mean is 0.")] = True,
    pause: Annotated[NotNegative, about("How long each part takes.", unit="s")] = 0.0,
) -> xr.Dataset:
    """Noise over (eta_z, seed, time); says on request in a file that a part is begun, so that a test can kill it."""
    for rate in eta_z:
        require_positive("eta_z", rate)
    require(steps >= 1, f"steps must be at least 1; got {steps}.")
    listed = seed_list(seeds)
    if os.environ.get("TOY_BEGUN"):
        with Path(os.environ["TOY_BEGUN"]).open("a") as begun:
            begun.write(f"{eta_z} {listed}\n")
    time.sleep(pause)
    values = np.array([[stream("toy", s).normal(size=steps) * rate for s in listed] for rate in eta_z])
    return trajectory(
        {"level": (("eta_z", "seed", "time"), values - (0 if centred else 1))},
        {"eta_z": list(eta_z), "seed": listed, "time": np.arange(steps)},
        units={"level": "nats"},
        steps=steps,
        label=label,
    )


def diverges(
    rates: Annotated[Sequence[Positive], about("Learning rates; above 50 a run diverges.")] = (1.0, 2.0, 99.0),
    seeds: Seeds = 2,
) -> xr.Dataset:
    listed = seed_list(seeds)
    at = np.array([[40.0 if rate > 50 else np.nan for _ in listed] for rate in rates])
    if np.isfinite(at).any():
        warnings.warn(f"{np.isfinite(at).sum()} of {at.size} runs diverged, the first at step 40.", stacklevel=2)
    return trajectory(
        {"loss": (("rates", "seed"), np.where(np.isfinite(at), np.nan, 1.0)), "diverged_at": (("rates", "seed"), at)},
        {"rates": list(rates), "seed": listed},
    )


def plain(
    size: Annotated[Count, about("How many items.")] = 3,
    offset: Annotated[float | None, about("What is added to each.")] = None,
) -> xr.Dataset:
    return trajectory({"x": ("item", np.arange(size) + (offset or 0.0)), "total": ((), 1.5 * size)})


EXPERIMENTS = [
    Experiment(
        "toy/noise",
        "Noise, cut along rate and seed.",
        noise,
        batched={"eta_z": "eta_z", "seeds": "seed"},
        settings={"fast": {"steps": 2}, "full": {}},
    ),
    Experiment(
        "toy/diverges",
        "A rate too large.",
        diverges,
        batched={"rates": "rates"},
    ),
    Experiment(
        "toy/plain",
        "One part, drawn from its numbers.",
        plain,
        settings={"fast": {"size": 2}, "full": {"size": 4, "offset": 1.0}},
    ),
]
