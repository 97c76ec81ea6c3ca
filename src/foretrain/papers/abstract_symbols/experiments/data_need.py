"""How many samples each task needs with each architecture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_positive, require_whole
from foretrain.core.looping import over
from foretrain.core.streams import seed_list
from foretrain.data.template_task import TemplateTask
from foretrain.ledger.experiment import Experiment
from foretrain.ledger.parameters import Positive, Seeds, about
from foretrain.papers.abstract_symbols.experiments.architectures import SAMPLES
from foretrain.papers.abstract_symbols.experiments.parameters import (
    NOT_EMPTY,
    Architectures,
    OwnEpochs,
    Patience,
    Rates,
    SampleCount,
    Setting,
    TaskName,
)
from foretrain.papers.abstract_symbols.simulations.trained import (
    TRANSFORMERS,
    VANILLA,
    WITH_A,
    at_best_rate,
    n_needed,
    setting_attrs,
    setting_called,
    task_called,
)

TASKS = (
    "same_different", "aba_abb", "abab_aabb", "majority_2", "majority_4", "majority_6", "print_program", "print_symbol",
    "distribution_of_3", "relational_match_to_sample",
)  # fmt: skip
OF_THOUSANDS = ("majority_4", "majority_6", "distribution_of_3")  # of samples, and of steps
OF_SYMBOLS = ("print_symbol",)
IN_ONE_BATCH = tuple(task for task in TASKS if task not in OF_THOUSANDS + OF_SYMBOLS)


def data_need(
    task: TaskName = "aba_abb",
    n: Annotated[
        Sequence[SampleCount], NOT_EMPTY, about("Numbers of training samples, from small to large.", unit="samples")
    ] = SAMPLES,
    architectures: Architectures = TRANSFORMERS,
    seeds: Seeds = 5,
    setting: Setting = "base",
    loss: Annotated[Positive, about("The miss that has to be reached: 1 is that of a constant guess.")] = 0.1,
    epochs: OwnEpochs = None,
    rates: Rates = (),
    patience: Patience = None,
) -> xr.Dataset:
    """`n_needed`: the samples from which on the `miss` on unseen symbols stays below `loss`, per architecture.

    `miss` is the test loss as a share of that of a constant guess, or the share of wrong symbols if the answer is a
    symbol. Sizes are tried from the largest down until no seed gets below `loss`. Smaller sizes would change nothing:
    they are not run, and are nan. A run stops when its validation loss is a tenth of what is asked for, or has not
    fallen for `patience` epochs. With several `rates`, each size and architecture takes the one with the lowest
    validation loss. `factor` is the need of the plain transformer over that of this one; see `factors`.
    """
    s = setting_called(setting, epochs=epochs)
    listed = seed_list(seeds)
    require(len(n) >= 1, "n must have at least one value; got none.")
    for size in n:
        require_whole("n", size, 1)
    require(list(n) == sorted(set(n)), f"n must grow; got {list(n)}.")
    require_positive("loss", loss)

    template_task, alphabet = task_called(task)
    scale = constant_loss(template_task) if template_task.kind == "regression" else None  # None: the answer is a symbol
    ends = {"good_enough": loss / 10 * (scale or 1.0), "patience": patience}

    def of(architecture: str) -> dict[str, Any]:
        misses = np.full((len(n), len(listed)), np.nan)
        for place, size in reversed(list(enumerate(n))):
            if alphabet is None and size < template_task.wildcard_count:  # too few tokens to fill a template
                misses[place] = np.inf
                break
            runs = at_best_rate(task, architecture, n=size, seeds=listed, setting=s, rates=rates, **ends)
            miss = runs.test_loss / scale if scale else 1 - runs.test_accuracy
            misses[place] = miss.fillna(np.inf).values  # a run that diverged has not learned
            if not (misses[place] < loss).any():
                break
        return {"miss": (("n", "seed"), misses)}

    needs = over(of, {"architecture": architectures}, {}).assign_coords(n=list(n), seed=listed)
    needs = needs.assign(n_needed=_needed(needs.miss, loss))
    if VANILLA in architectures:
        needs = needs.assign(factors(needs.miss.sel(architecture=VANILLA, drop=True), needs.miss, loss).data_vars)
    return needs.assign_attrs(setting_attrs(s, rates, patience), loss=loss)


def _needed(miss: xr.DataArray, loss: float) -> xr.DataArray:
    """`n_needed` of a miss; sizes that were not run lie below one that was too small."""
    return n_needed(miss.fillna(0.0).rename("test_loss").to_dataset(), loss)


def factors(plain: xr.DataArray, miss: xr.DataArray, loss: float) -> xr.Dataset:
    """How many times less data `miss` needs than `plain`, arrays over (n, seed).

    `factor` is the ratio of the median needs over seeds. If the plain network needs more than the largest size, that
    size stands for its need, and the true factor is at least as large; if both do, it is nan. `factor_low` and
    `factor_high` are the smallest and the largest over single seeds, counted with the sizes between which each network
    fell below `loss`. They enclose `factor`, and the median factor of all possible seeds with probability
    1 − 2^(1 − seeds): 75 % for 3 seeds.
    """
    needed, plainly = _needed(miss, loss), _needed(plain, loss)
    factor = (plainly.clip(max=float(miss.n.max())) / needed).where(np.isfinite(plainly) | np.isfinite(needed))
    (after, until), (plain_after, plain_until) = _enclosed(miss, loss), _enclosed(plain, loss)
    with np.errstate(divide="ignore"):
        low, high = (plain_after / until).min("seed"), (plain_until / after).max("seed")
    return xr.Dataset({"factor": factor, "factor_low": low, "factor_high": high})


def _enclosed(miss: xr.DataArray, loss: float) -> tuple[xr.DataArray, xr.DataArray]:
    """The last size that was too small (0: none) and the first that was enough (infinite: none), for every seed."""
    above = ~(miss.fillna(0.0) < loss)
    last = (above * xr.DataArray(np.arange(1, above.sizes["n"] + 1), dims="n")).max("n")
    sizes = miss.n.values.astype(float)
    after, until = np.concatenate([[0.0], sizes]), np.concatenate([sizes, [np.inf]])
    return last.copy(data=after[last.values]), last.copy(data=until[last.values])


def constant_loss(task: TemplateTask) -> float:
    """Squared error of the best constant guess."""
    labels, weights = np.asarray(task.labels, dtype=np.float64), np.asarray(task.weights)
    return float(weights @ (labels - weights @ labels) ** 2)


def learned(needs: xr.Dataset) -> str:
    """How many of the needs were found, and what an infinite one means."""
    known, most = int(np.isfinite(needs.n_needed).sum()), int(needs.n.max())
    return (
        f"{known} of {needs.n_needed.size} needs found; infinite: from {most} samples at least half of the "
        f"seeds miss {needs.attrs['loss']:g} or more{'' if known else ', try more, or a larger setting'}."
    )


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/data_need",
        "Samples each task needs with each architecture, and the factor that a·I, b·I and both gain",
        data_need,
        {"task": TASKS},
        settings={
            "fast": {
                "task": ("same_different", "aba_abb"),
                "n": (16, 32),
                "architectures": (VANILLA, WITH_A),
                "seeds": 2,
                "setting": "glance",
                "loss": 0.9,
            },
            "full": {"n": (64, 128, 256, 512, 1024), "seeds": 3, "setting": "small", "epochs": 100},
        },
        concludes=learned,
    )
]
