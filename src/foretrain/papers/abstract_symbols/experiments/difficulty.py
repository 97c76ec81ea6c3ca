"""Appendix B.2: how hard template tasks are for a transformer (Fig 17 to 21)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import xarray as xr
from pydantic import Field

from foretrain.core.streams import seed_list
from foretrain.data.template_examples import random_templates
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Seeds, about
from foretrain.papers.abstract_symbols.experiments.parameters import Architecture, SampleSize, Setting, TaskName
from foretrain.papers.abstract_symbols.simulations.trained import VANILLA, at_its_rate, setting_called

SAMPLES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def simple_task(
    task: TaskName = "aba_abb",
    n: SampleSize = 512,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 17: test and train loss on simple tasks, at the rate of the setting."""
    return at_its_rate(task, architecture, n=n, seeds=seeds, setting=setting_called(setting))


def random_task(
    templates: Annotated[int, Field(ge=2, le=10**9), about("Number of templates.")] = 2,
    length: Annotated[Count, about("Length of the templates.", unit="symbols")] = 5,
    wildcards: Annotated[int, Field(ge=1, le=24), about("Number of wildcards.")] = 2,
    tokens: Annotated[int, Field(ge=0, le=26), about("Number of regular tokens.")] = 0,
    n: SampleSize = 512,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 18 to 21: random templates, drawn anew for each seed."""
    listed = seed_list(seeds)
    tasks = tuple(
        random_templates(count=templates, length=length, wildcards=wildcards, tokens=tokens, seed=seed)
        for seed in listed
    )
    s = setting_called(setting)
    return at_its_rate(tasks, architecture, n=n, seeds=listed, setting=s, regular_tokens=tokens)


QUICK = {"n": (16, 32), "seeds": 1, "setting": "glance"}
FULL = {"n": SAMPLES[:-1], "setting": "small"}


def _random(id: str, says: str, axis: str, values: Sequence[int], few: Sequence[int], **others: int) -> Experiment:
    settings: dict[str, dict[str, Any]] = {
        "fast": {**QUICK, **others, axis: few},
        "full": {**FULL, **others},
        "paper": others,
    }
    return Experiment(id, says, random_task, {axis: values, "n": SAMPLES}, settings=settings)


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/fig17",
        "Test and train loss of the transformer on simple tasks against n",
        simple_task,
        {
            "task": (
                "aba_abb", "abab_aabb", "majority_2", "majority_3", "majority_4", "majority_5", "majority_6",
            ),
            "n": SAMPLES,
        },
        settings={"fast": {**QUICK, "task": ("aba_abb", "majority_2")}, "full": FULL},
    ),
    _random(
        "abstract_symbols/fig18", "Two random templates against their length", "length", (3, 5, 7, 9), (3, 5)
    ),
    _random(
        "abstract_symbols/fig19", "Two random templates against the number of wildcards", "wildcards", (2, 3, 4, 5),
        (2, 3),
    ),
    _random(
        "abstract_symbols/fig20", "Two random templates against the number of regular tokens", "tokens", (0, 1, 2),
        (0, 2),
    ),
    # The printed caption of Fig 21 repeats the one before it.
    _random(
        "abstract_symbols/fig21", "Random templates against their number", "templates", (2, 4, 8, 16), (2, 4),
        wildcards=3, tokens=2,
    ),
]  # fmt: skip
