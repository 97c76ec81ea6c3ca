"""Appendix B.2: how hard template tasks are for a transformer (Fig 17 to 21)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import xarray as xr
from pydantic import Field

from foretrain.core.streams import seed_list
from foretrain.data.template_examples import random_templates
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Count, Seeds, about
from foretrain.papers.abstract_symbols.experiments.parameters import (
    NOT_EMPTY,
    Architecture,
    SampleSizes,
    Setting,
    TaskNames,
)
from foretrain.papers.abstract_symbols.simulations.trained import VANILLA, at_its_rate, grid, setting_called

SAMPLES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
# The limits of `random_templates`
WildcardCount = Annotated[int, Field(ge=1, le=24)]
TokenCount = Annotated[int, Field(ge=0, le=26)]
TemplateCount = Annotated[int, Field(ge=2, le=10**9)]


def fig17(
    tasks: TaskNames = (
        "aba_abb",
        "abab_aabb",
        "majority_2",
        "majority_3",
        "majority_4",
        "majority_5",
        "majority_6",
    ),
    n: SampleSizes = SAMPLES,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 17: test and train loss against n for simple tasks."""
    s = setting_called(setting)
    return grid(
        {"task": tasks, "n": n},
        lambda task, n: at_its_rate(task, architecture, n=n, seeds=seeds, setting=s),
    )


def _random(
    axis: str,
    varied: str,
    values: Sequence[int],
    n: Sequence[int],
    seeds: Seeds,
    setting: str,
    architecture: str,
    **templates: int,
) -> xr.Dataset:
    """Random templates, drawn anew for each seed, against n and one argument (`varied`) of `random_templates`."""
    listed, s = seed_list(seeds), setting_called(setting)

    def one(n: int, **point: int) -> xr.Dataset:
        drawn = {**templates, varied: point[axis]}
        tasks = tuple(random_templates(seed=seed, **drawn) for seed in listed)
        return at_its_rate(tasks, architecture, n=n, seeds=listed, setting=s, regular_tokens=drawn["tokens"])

    return grid({axis: values, "n": n}, one)


def fig18(
    lengths: Annotated[Sequence[Count], NOT_EMPTY, about("Lengths of the templates.", unit="symbols")] = (3, 5, 7, 9),
    n: SampleSizes = SAMPLES,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 18: two random templates over two wildcards, against their length."""
    return _random("length", "length", lengths, n, seeds, setting, architecture, count=2, wildcards=2, tokens=0)


def fig19(
    wildcards: Annotated[Sequence[WildcardCount], NOT_EMPTY, about("Numbers of wildcards.")] = (2, 3, 4, 5),
    n: SampleSizes = SAMPLES,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 19: two random templates of length 5 over wildcards only, against the number of wildcards."""
    return _random("wildcard", "wildcards", wildcards, n, seeds, setting, architecture, count=2, length=5, tokens=0)


def fig20(
    tokens: Annotated[Sequence[TokenCount], NOT_EMPTY, about("Numbers of regular tokens.")] = (0, 1, 2),
    n: SampleSizes = SAMPLES,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 20: two random templates of length 5 over two wildcards, against the number of regular tokens."""
    return _random("token", "tokens", tokens, n, seeds, setting, architecture, count=2, length=5, wildcards=2)


def fig21(
    templates: Annotated[Sequence[TemplateCount], NOT_EMPTY, about("Numbers of templates.")] = (2, 4, 8, 16),
    n: SampleSizes = SAMPLES,
    seeds: Seeds = 5,
    setting: Setting = "base",
    architecture: Architecture = VANILLA,
) -> xr.Dataset:
    """Fig 21: random templates of length 5, against their number; the printed caption repeats the one before it."""
    return _random("template", "count", templates, n, seeds, setting, architecture, length=5, wildcards=3, tokens=2)


QUICK = {"n": (16, 32), "seeds": 1, "setting": "glance"}
FULL = {"n": SAMPLES[:-1], "setting": "small"}
EXPERIMENTS = [
    Experiment(
        "abstract_symbols/fig17",
        "Test and train loss of the transformer on simple tasks against n",
        fig17,
        batched={"tasks": "task", "n": "n"},
        settings={"fast": {**QUICK, "tasks": ("aba_abb", "majority_2")}, "full": FULL},
    ),
    Experiment(
        "abstract_symbols/fig18",
        "Two random templates against their length",
        fig18,
        batched={"lengths": "length", "n": "n"},
        settings={"fast": {**QUICK, "lengths": (3, 5)}, "full": FULL},
    ),
    Experiment(
        "abstract_symbols/fig19",
        "Two random templates against the number of wildcards",
        fig19,
        batched={"wildcards": "wildcard", "n": "n"},
        settings={"fast": {**QUICK, "wildcards": (2, 3)}, "full": FULL},
    ),
    Experiment(
        "abstract_symbols/fig20",
        "Two random templates against the number of regular tokens",
        fig20,
        batched={"tokens": "token", "n": "n"},
        settings={"fast": {**QUICK, "tokens": (0, 2)}, "full": FULL},
    ),
    Experiment(
        "abstract_symbols/fig21",
        "Random templates against their number",
        fig21,
        batched={"templates": "template", "n": "n"},
        settings={"fast": {**QUICK, "templates": (2, 4)}, "full": FULL},
    ),
]
