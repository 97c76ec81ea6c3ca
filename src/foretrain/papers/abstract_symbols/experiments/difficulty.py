"""Appendix B.2: how hard template tasks are for a transformer (Fig 17 to 21)."""

from __future__ import annotations

from collections.abc import Sequence

import xarray as xr

from foretrain.core.streams import seed_list
from foretrain.data.template_tasks import random_templates
from foretrain.ledger.experiment import Experiment
from foretrain.papers.abstract_symbols.experiments.trained import VANILLA, at_its_rate, grid, setting_called

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
    """Random templates, of its own for each seed, against one argument of `random_templates` and n."""
    listed, s = seed_list(seeds), setting_called(setting)

    def one(n: int, **point: int) -> xr.Dataset:
        drawn = {**templates, varied: point[axis]}
        tasks = tuple(random_templates(seed=seed, **drawn) for seed in listed)
        return at_its_rate(tasks, architecture, n=n, seeds=listed, setting=s, regular_tokens=drawn["tokens"])

    return grid({axis: values, "n": n}, one)


def fig18(
    lengths: Sequence[int] = (3, 5, 7, 9),
    n: Sequence[int] = SAMPLES,
    seeds: Seeds = 5,
    setting: str = "base",
    architecture: str = VANILLA,
) -> xr.Dataset:
    """Two random templates over two wildcards, against their length."""
    return _random("length", "length", lengths, n, seeds, setting, architecture, count=2, wildcards=2, tokens=0)


def fig19(
    wildcards: Sequence[int] = (2, 3, 4, 5),
    n: Sequence[int] = SAMPLES,
    seeds: Seeds = 5,
    setting: str = "base",
    architecture: str = VANILLA,
) -> xr.Dataset:
    """Two random templates of length 5 over wildcards only, against the number of wildcards."""
    return _random("wildcard", "wildcards", wildcards, n, seeds, setting, architecture, count=2, length=5, tokens=0)


def fig20(
    tokens: Sequence[int] = (0, 1, 2),
    n: Sequence[int] = SAMPLES,
    seeds: Seeds = 5,
    setting: str = "base",
    architecture: str = VANILLA,
) -> xr.Dataset:
    """Two random templates of length 5 over two wildcards and some regular tokens, against how many."""
    return _random("token", "tokens", tokens, n, seeds, setting, architecture, count=2, length=5, wildcards=2)


def fig21(
    templates: Sequence[int] = (2, 4, 8, 16),
    n: Sequence[int] = SAMPLES,
    seeds: Seeds = 5,
    setting: str = "base",
    architecture: str = VANILLA,
) -> xr.Dataset:
    """Random templates of length 5, against their number; the printed caption repeats that of Fig 20."""
    return _random("template", "count", templates, n, seeds, setting, architecture, length=5, wildcards=3, tokens=2)


QUICK = {"n": (16, 32), "seeds": 1, "setting": "glance"}
FULL = {"n": SAMPLES[:-1], "setting": "small"}
EXPERIMENTS = [
    Experiment(
        "abstract_symbols/fig17",
        "Test and train loss of the transformer on simple tasks against n",
        fig17,
        cut={"tasks": "task", "n": "n"},
        settings={"fast": {**QUICK, "tasks": ("aba_abb", "majority_2")}, "full": FULL},
    ),
    *(
        Experiment(
            id,
            says,
            figure,
            cut={values: axis, "n": "n"},
            settings={"fast": {**QUICK, values: few}, "full": FULL},
        )
        for id, figure, says, values, axis, few in (
            ("abstract_symbols/fig18", fig18, "Two random templates against their length", "lengths", "length", (3, 5)),
            (
                "abstract_symbols/fig19",
                fig19,
                "Two random templates against the number of wildcards",
                "wildcards",
                "wildcard",
                (2, 3),
            ),
            (
                "abstract_symbols/fig20",
                fig20,
                "Two random templates against the number of regular tokens",
                "tokens",
                "token",
                (0, 2),
            ),
            ("abstract_symbols/fig21", fig21, "Random templates against their number", "templates", "template", (2, 4)),
        )
    ),
]
