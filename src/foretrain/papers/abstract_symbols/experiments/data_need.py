"""How many samples each task needs with each architecture, measured; and what kernel regression predicts for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import xarray as xr

from foretrain.data.templates import TemplateTask
from foretrain.errors import require
from foretrain.experiment import Experiment
from foretrain.kernels import architectures as kernels
from foretrain.kernels.learning_curve import LearningCurve
from foretrain.kernels.template_matrix import template_matrix
from foretrain.models.sequence_baselines import MLP, MLP_XX
from foretrain.papers.abstract_symbols.experiments.trained import (
    TRANSFORMERS,
    VANILLA,
    WITH_A,
    at_its_rate,
    grid,
    n_needed,
    setting_called,
    task_called,
)
from foretrain.streams import seed_list, stream
from foretrain.trajectory import trajectory

TASKS = (
    "same_different", "aba_abb", "abab_aabb", "majority_2", "majority_4", "majority_6", "print_program", "print_symbol",
    "distribution_of_3", "relational_match_to_sample",
)  # fmt: skip
SAMPLES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
KERNELS = {
    VANILLA: kernels.TRANSFORMER,
    WITH_A: kernels.TRANSFORMER_AI,
    MLP: kernels.MLP,
    MLP_XX: kernels.MLP_XX,
}
RIDGE = 0.01  # small and fixed, as in a forecast
RESAMPLED = 200


def data_need(
    tasks: Sequence[str] = TASKS,
    n: Sequence[int] = SAMPLES,
    architectures: Sequence[str] = TRANSFORMERS,
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
    loss: float = 0.1,
    epochs: int | None = None,
) -> xr.Dataset:
    """Samples from which on the `miss` on unseen symbols stays below `loss`, per task and architecture.

    `miss` is the test loss over that of a constant guess, or the share of wrong symbols where symbols are asked for.
    Sizes are tried upwards until every seed is below; larger ones are not run, and are nan. A run ends when its
    validation loss is a tenth of what is asked for. `factor` is what the plain transformer needs over what this one
    needs, with the 90 % interval of 200 draws of seeds with replacement. Where the plain one needs more than the
    largest size, that stands for its need, so that the factor is at least so much; nan where both do.
    """
    s = setting_called(setting, epochs=epochs)
    listed = seed_list(seeds)
    require(list(n) == sorted(set(n)), f"n must grow; got {list(n)}.")

    def one(task: str, architecture: str) -> xr.Dataset:
        scale = _scale(task)
        misses = np.full((len(n), len(listed)), np.nan)
        for place, size in enumerate(n):
            found = at_its_rate(
                task, architecture, n=size, seeds=listed, setting=s, good_enough=loss / 10 * (scale or 1.0)
            )
            miss = found.test_loss / scale if scale else 1 - found.test_accuracy
            misses[place] = miss.fillna(np.inf).values  # a run that diverged has not learned
            if (misses[place] < loss).all():
                break
        return trajectory({"miss": (("n", "seed"), misses)}, {"n": list(n), "seed": listed})

    found = grid({"task": tasks, "architecture": architectures}, one)
    found = found.assign(n_needed=_needed(found.miss.mean("seed"), loss))
    if VANILLA in architectures:
        found = found.assign(dict(zip(("factor", "factor_low", "factor_high"), _factors(found, loss), strict=True)))
    return found


def _scale(task: str) -> float | None:
    """The loss of a constant guess; None where the answer is a symbol."""
    made = task_called(task)[0]
    return constant_loss(made) if made.kind == "regression" else None


def _needed(miss: xr.DataArray, loss: float) -> xr.DataArray:
    """`n_needed`, where sizes that were not run come behind one that sufficed."""
    return n_needed(miss.fillna(0.0).rename("test_loss").to_dataset(), loss)


def _factors(found: xr.Dataset, loss: float) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    def factor(miss: xr.DataArray) -> xr.DataArray:
        needed = _needed(miss, loss)
        plain = needed.sel(architecture=VANILLA, drop=True)
        least = plain.clip(max=float(found.n.max()))
        return (least / needed).where(np.isfinite(plain) | np.isfinite(needed))

    count = found.sizes["seed"]
    rows = stream("abstract_symbols/data_need", count).integers(0, count, (RESAMPLED, count))
    drawn = found.miss.isel(seed=xr.DataArray(rows, dims=("draw", "again"))).mean("again")
    again = factor(drawn).transpose("draw", ...)
    ordered = again.copy(data=np.sort(again.values, axis=0))  # nan comes last
    low, high = (ordered.isel(draw=round(q * (RESAMPLED - 1)), drop=True) for q in (0.05, 0.95))
    return factor(found.miss.mean("seed")), low, high


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


EXPERIMENTS = [
    Experiment(
        "abstract_symbols/data_need",
        "Samples each task needs with each architecture, and the factor that a·I, b·I and both gain",
        data_need,
        cut=("tasks",),
        quick={
            "tasks": ("same_different", "aba_abb"),
            "n": (16, 32),
            "architectures": (VANILLA, WITH_A),
            "seeds": 2,
            "setting": "glance",
            "loss": 0.9,
        },
    ),
]
