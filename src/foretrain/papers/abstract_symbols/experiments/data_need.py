"""How many samples each task needs with each architecture, measured; and what kernel regression predicts for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import xarray as xr

from foretrain.data.templates import TemplateTask
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
from foretrain.streams import stream

TASKS = (
    "same_different", "aba_abb", "abab_aabb", "majority_2", "majority_4", "majority_6", "print_program",
    "distribution_of_3", "relational_match_to_sample",
)  # fmt: skip
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
    n: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
    architectures: Sequence[str] = TRANSFORMERS,
    seeds: int | Sequence[int] = 5,
    setting: str = "base",
    loss: float = 0.1,
) -> xr.Dataset:
    """Samples from which on the test loss stays below `loss` times that of a constant guess, per task and architecture.

    `factor` is what the plain transformer needs over what this one needs, with the interval that 200 draws of
    seeds with replacement give; nan where both are beyond the grid.
    """
    s = setting_called(setting)
    losses = grid(
        {"task": tasks, "architecture": architectures, "n": n},
        lambda task, architecture, n: at_its_rate(task, architecture, n=n, seeds=seeds, setting=s),
    )[["test_loss"]]
    trivial = xr.DataArray([constant_loss(task_called(task)[0]) for task in tasks], {"task": list(tasks)}, "task")
    losses["test_loss"] = losses.test_loss / trivial
    found = losses.assign(n_needed=n_needed(losses, loss))
    if VANILLA in architectures:
        found = found.assign(dict(zip(("factor", "factor_low", "factor_high"), _factors(losses, loss), strict=True)))
    return found


def _factors(losses: xr.Dataset, loss: float) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    def factor(some: xr.Dataset) -> xr.DataArray:
        needed = n_needed(some, loss)
        plain = needed.sel(architecture=VANILLA, drop=True)
        return (plain / needed).where(np.isfinite(plain) | np.isfinite(needed))

    count = losses.sizes["seed"]
    rows = stream("abstract_symbols/data_need", count).integers(0, count, (RESAMPLED, count))
    again = factor(losses.isel(seed=xr.DataArray(rows, dims=("draw", "again"))).mean("again")).transpose("draw", ...)
    ordered = again.copy(data=np.sort(again.values, axis=0))  # infinite ones have a place too, nan comes last
    low, high = (ordered.isel(draw=round(q * (RESAMPLED - 1)), drop=True) for q in (0.05, 0.95))
    return factor(losses), low, high


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
