"""Appendix B.2: how hard template tasks are for the base transformer (Fig 17 to 21)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from foretrain.data.template_tasks import random_templates
from foretrain.experiment import Experiment
from foretrain.papers.abstract_symbols.experiments.trained import VANILLA, grid, setting_called, summary
from foretrain.streams import seed_list

SAMPLES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
Seeds = int | Sequence[int]


def fig17(
    tasks: Sequence[str] = (
        "aba_abb",
        "abab_aabb",
        "majority_2",
        "majority_3",
        "majority_4",
        "majority_5",
        "majority_6",
    ),
    n: Sequence[int] = SAMPLES,
    seeds: Seeds = 5,
    setting: str = "base",
    architecture: str = VANILLA,
) -> xr.Dataset:
    """Test and train loss against n for simple tasks."""
    s = setting_called(setting)
    return grid(
        {"task": tasks, "n": n},
        lambda task, n: summary(task, architecture, n=n, seeds=seeds, setting=s).isel(rate=0, drop=True),
    )


def random_tasks(n: int, seeds: Seeds, setting: str, architecture: str = VANILLA, **templates: Any) -> xr.Dataset:
    """Each seed has random templates of its own."""
    listed = seed_list(seeds)
    tasks = tuple(random_templates(seed=seed, **templates) for seed in listed)
    found = summary(tasks, architecture, n=n, seeds=listed, setting=setting_called(setting))
    return found.isel(rate=0, drop=True)


def fig18(
    lengths: Sequence[int] = (3, 5, 7, 9),
    n: Sequence[int] = SAMPLES,
    seeds: Seeds = 5,
    setting: str = "base",
    architecture: str = VANILLA,
) -> xr.Dataset:
    """Two random templates over two wildcards, against their length."""
    return grid(
        {"length": lengths, "n": n},
        lambda length, n: random_tasks(n, seeds, setting, architecture, count=2, length=length, wildcards=2, tokens=0),
    )


def fig19(
    wildcards: Sequence[int] = (2, 3, 4, 5),
    n: Sequence[int] = SAMPLES,
    seeds: Seeds = 5,
    setting: str = "base",
    architecture: str = VANILLA,
) -> xr.Dataset:
    """Two random templates of length 5 over wildcards only, against the number of wildcards."""
    return grid(
        {"wildcard": wildcards, "n": n},
        lambda wildcard, n: random_tasks(
            n, seeds, setting, architecture, count=2, length=5, wildcards=wildcard, tokens=0
        ),
    )


def fig20(
    tokens: Sequence[int] = (0, 1, 2),
    n: Sequence[int] = SAMPLES,
    seeds: Seeds = 5,
    setting: str = "base",
    architecture: str = VANILLA,
) -> xr.Dataset:
    """Two random templates of length 5 over two wildcards and some regular tokens, against how many."""
    return grid(
        {"token": tokens, "n": n},
        lambda token, n: random_tasks(n, seeds, setting, architecture, count=2, length=5, wildcards=2, tokens=token),
    )


def fig21(
    templates: Sequence[int] = (2, 4, 8, 16),
    n: Sequence[int] = SAMPLES,
    seeds: Seeds = 5,
    setting: str = "base",
    architecture: str = VANILLA,
) -> xr.Dataset:
    """Random templates of length 5, against their number; the printed caption repeats that of Fig 20."""
    return grid(
        {"template": templates, "n": n},
        lambda template, n: random_tasks(
            n, seeds, setting, architecture, count=template, length=5, wildcards=3, tokens=2
        ),
    )


QUICK = {"n": (16, 32), "seeds": 1, "setting": "glance"}
EXPERIMENTS = [
    Experiment(
        "abstract_symbols/fig17",
        "Test and train loss of the transformer on simple tasks against n",
        fig17,
        cut=("tasks", "n"),
        quick={**QUICK, "tasks": ("aba_abb", "majority_2")},
    ),
    Experiment(
        "abstract_symbols/fig18",
        "Two random templates against their length",
        fig18,
        cut=("lengths", "n"),
        quick={**QUICK, "lengths": (3, 5)},
    ),
    Experiment(
        "abstract_symbols/fig19",
        "Two random templates against the number of wildcards",
        fig19,
        cut=("wildcards", "n"),
        quick={**QUICK, "wildcards": (2, 3)},
    ),
    Experiment(
        "abstract_symbols/fig20",
        "Two random templates against the number of regular tokens",
        fig20,
        cut=("tokens", "n"),
        quick={**QUICK, "tokens": (0, 2)},
    ),
    Experiment(
        "abstract_symbols/fig21",
        "Random templates against their number",
        fig21,
        cut=("templates", "n"),
        quick={**QUICK, "templates": (2, 4)},
    ),
]
