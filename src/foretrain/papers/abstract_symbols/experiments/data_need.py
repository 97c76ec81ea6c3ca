"""How many samples each task needs with each architecture, measured; and what kernel regression predicts for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_positive, require_whole
from foretrain.core.streams import seed_list
from foretrain.core.trajectory import trajectory
from foretrain.data.templates import TemplateTask
from foretrain.kernels import architectures as kernels
from foretrain.kernels.learning_curve import LearningCurve
from foretrain.kernels.template_matrix import template_matrix
from foretrain.ledger.experiment import Experiment
from foretrain.models.sequence_baselines import MLP, MLP_XX
from foretrain.papers.abstract_symbols.experiments.architectures import SAMPLES
from foretrain.papers.abstract_symbols.experiments.trained import (
    TRANSFORMERS,
    VANILLA,
    WITH_A,
    at_best_rate,
    grid,
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
KERNELS = {
    VANILLA: kernels.TRANSFORMER,
    WITH_A: kernels.TRANSFORMER_AI,
    MLP: kernels.MLP,
    MLP_XX: kernels.MLP_XX,
}
RIDGE = 0.01  # small and fixed, as in a forecast


def data_need(
    tasks: Sequence[str] = TASKS,
    n: Sequence[int] = SAMPLES,
    architectures: Sequence[str] = TRANSFORMERS,
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
    loss: float = 0.1,
    epochs: int | None = None,
    rates: Sequence[float] = (),
    patience: int | None = None,
) -> xr.Dataset:
    """Samples from which on the `miss` on unseen symbols stays below `loss`, per task and architecture: `n_needed`.

    `miss` is the test loss over that of a constant guess, or the share of wrong symbols where symbols are asked for.
    Sizes are tried downwards until no seed is below: smaller ones change nothing, are not run, and are nan. A run ends
    when its validation loss is a tenth of what is asked for, or has not fallen for `patience` epochs. With several
    `rates` each size and architecture has the one of least validation loss. `factor` is what the plain transformer
    needs over what this one needs; see `factors`.
    """
    s = setting_called(setting, epochs=epochs)
    listed = seed_list(seeds)
    require(len(n) >= 1, "n must have at least one value; got none.")
    for size in n:
        require_whole("n", size, 1)
    require(list(n) == sorted(set(n)), f"n must grow; got {list(n)}.")
    require_positive("loss", loss)

    def one(task: str, architecture: str) -> xr.Dataset:
        made, alphabet = task_called(task)
        scale = constant_loss(made) if made.kind == "regression" else None  # None: the answer is a symbol
        misses = np.full((len(n), len(listed)), np.nan)
        for place, size in reversed(list(enumerate(n))):
            if alphabet is None and size < made.wildcard_count:  # too few tokens to fill a template: nothing is learned
                misses[place] = np.inf
                break
            enough = loss / 10 * (scale or 1.0)
            ends = {"good_enough": enough, "patience": patience}
            found = at_best_rate(task, architecture, n=size, seeds=listed, setting=s, rates=rates, **ends)
            miss = found.test_loss / scale if scale else 1 - found.test_accuracy
            misses[place] = miss.fillna(np.inf).values  # a run that diverged has not learned
            if not (misses[place] < loss).any():
                break
        return trajectory({"miss": (("n", "seed"), misses)}, {"n": list(n), "seed": listed})

    found = grid({"task": tasks, "architecture": architectures}, one)
    found = found.assign(n_needed=_needed(found.miss, loss))
    if VANILLA in architectures:
        found = found.assign(factors(found.miss.sel(architecture=VANILLA, drop=True), found.miss, loss).data_vars)
    return found.assign_attrs(setting_attrs(s, rates, patience), loss=loss)


def _needed(miss: xr.DataArray, loss: float) -> xr.DataArray:
    """`n_needed`, where sizes that were not run come before one that did not suffice."""
    return n_needed(miss.fillna(0.0).rename("test_loss").to_dataset(), loss)


def factors(plain: xr.DataArray, miss: xr.DataArray, loss: float) -> xr.Dataset:
    """How many times less data `miss` needs than `plain`, arrays over (n, seed).

    `factor` is the ratio of median needs over seeds; where the plain network needs more than the largest size,
    that stands for its need, so that the factor is at least so much, and nan where both do. `factor_low` and
    `factor_high` are the least and the greatest over seeds taken one at a time, with the sizes between which each
    network fell below `loss`: they enclose `factor`, and the median factor of all seeds with probability
    1 − 2^(1 − seeds), 75 % for 3 seeds.
    """
    needed, plainly = _needed(miss, loss), _needed(plain, loss)
    factor = (plainly.clip(max=float(miss.n.max())) / needed).where(np.isfinite(plainly) | np.isfinite(needed))
    (after, until), (plain_after, plain_until) = _enclosed(miss, loss), _enclosed(plain, loss)
    with np.errstate(divide="ignore"):
        low, high = (plain_after / until).min("seed"), (plain_until / after).max("seed")
    return xr.Dataset({"factor": factor, "factor_low": low, "factor_high": high})


def _enclosed(miss: xr.DataArray, loss: float) -> tuple[xr.DataArray, xr.DataArray]:
    """The last size that did not suffice (0: none) and the first that did (infinite: none), for every seed."""
    above = ~(miss.fillna(0.0) < loss)
    last = (above * xr.DataArray(np.arange(1, above.sizes["n"] + 1), dims="n")).max("n")
    sizes = miss.n.values.astype(float)
    after, until = np.concatenate([[0.0], sizes]), np.concatenate([sizes, [np.inf]])
    return last.copy(data=after[last.values]), last.copy(data=until[last.values])


def constant_loss(task: TemplateTask) -> float:
    """Squared error of the best constant guess."""
    labels, weights = np.asarray(task.labels, dtype=np.float64), np.asarray(task.weights)
    return float(weights @ (labels - weights @ labels) ** 2)


@lru_cache(maxsize=64)
def predicted_need(task: str, architecture: str, loss: float) -> float:
    """Samples that kernel regression with the random features of an architecture needs; infinite if it never does."""
    made = task_called(task)[0].with_cls()
    kernel = kernels.architecture_kernel(KERNELS[architecture])
    matrix = template_matrix(made, kernel, accuracy=kernels.kernel_accuracy(KERNELS[architecture], beta=1.0))
    curve = LearningCurve(matrix, RIDGE)
    return curve.samples_needed(loss * constant_loss(made), most=0.1 / (len(matrix.N) * matrix.accuracy))


def learned(found: xr.Dataset) -> str:
    """How many of the needs were found, and what an infinite one means."""
    known, most = int(np.isfinite(found.n_needed).sum()), int(found.n.max())
    return (
        f"{known} of {found.n_needed.size} needs found; infinite: from {most} samples at least half of the "
        f"seeds miss {found.attrs['loss']:g} or more{'' if known else ', try more, or a larger setting'}."
    )


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/data_need",
        "Samples each task needs with each architecture, and the factor that a·I, b·I and both gain",
        data_need,
        cut={"tasks": "task"},
        settings={
            "fast": {
                "tasks": ("same_different", "aba_abb"),
                "n": (16, 32),
                "architectures": (VANILLA, WITH_A),
                "seeds": 2,
                "setting": "glance",
                "loss": 0.9,
            },
            "full": {"n": (64, 128, 256, 512, 1024), "seeds": 3, "setting": "small", "epochs": 100},
        },
        concludes=learned,
    ),
]
