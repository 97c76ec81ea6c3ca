"""Trains on one alphabet, chooses the epoch on a second, reports on a third: all rates and seeds at once.

The best epoch is the one with the lowest validation loss among the epochs with a validation pass. Its parameters are
kept, and the test set is read once, at the end, with these. Runs that are done, or whose loss is no longer finite,
leave the batch; the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import xarray as xr

from foretrain.core.errors import require, require_distinct, require_whole
from foretrain.core.streams import seed_list
from foretrain.core.trajectory import trajectory
from foretrain.core.workers import single_threaded
from foretrain.data.template_task import TemplateSplit
from foretrain.dynamics.optimizers import check_rates
from foretrain.dynamics.protocols import OutputModel
from foretrain.dynamics.schedule import Schedule
from foretrain.dynamics.validated_runs import ValidatedRuns
from foretrain.models.parameters import start_keys

__all__ = ["Schedule", "best_rate", "train_validated"]

FLOATS_AT_ONCE = 47_000_000  # numbers trained together: half as many are up to 4 % slower, twice as many no faster
SAMPLES_AS_LARGE = 70  # this many samples take as much memory as the parameters of the base transformer


def train_validated(
    model: OutputModel,
    splits: Sequence[TemplateSplit],
    *,
    rates: Sequence[float] | np.ndarray,
    schedule: Schedule | None = None,
    seeds: int | Sequence[int] | None = None,
    experiment: str = "train_validated",
    runs_at_once: int | None = None,
) -> xr.Dataset:
    """Train with Adam from the same start at every rate, on the data of each seed (`splits`, one per seed).

    Returns over (rate, seed), at the best epoch: `test_loss`, `test_accuracy`, `train_loss`, `validation_loss` and
    `epoch`; also `epochs_done` and `diverged_at` (the number of steps after which a loss, of the next step or of
    validation, was first not finite). Over (rate, seed, epoch_done) it returns `train_curve` and `validation_curve`
    (nan at epochs without a validation pass).

    Accuracy is the share of samples whose output is nearest to their own label (among the labels of the task), or
    whose highest score is their own token's. `runs_at_once` bounds the memory; by default it is chosen by size.
    """
    schedule = schedule or Schedule()
    rates = _listed(rates)
    require(len(splits) >= 1, "There must be at least one split, one per seed; got none.")
    sizes = {len(split.train.tokens) for split in splits}
    require(len(sizes) == 1, f"All splits must have the same number of training samples; got {sorted(sizes)}.")
    if runs_at_once is not None:
        require_whole("runs_at_once", runs_at_once, 1)
    listed = seed_list(len(splits) if seeds is None else seeds)
    require(len(listed) == len(splits), f"There must be one split per seed; got {len(splits)} for {len(listed)} seeds.")
    runs = [(rate, place) for rate in rates for place in range(len(listed))]
    at_once = runs_at_once or _runs_at_once(model, start_keys(experiment, listed[:1]), schedule.batch, max(sizes))
    results: list[dict[str, Any]] = []
    for begin in range(0, len(runs), at_once):
        group = runs[begin : begin + at_once]
        numbers = f"run {begin + 1}" if len(group) == 1 else f"runs {begin + 1} to {begin + len(group)}"
        with single_threaded():
            trained = ValidatedRuns(
                model,
                [splits[place] for _, place in group],
                [listed[place] for _, place in group],
                [rate for rate, _ in group],
                experiment,
                schedule,
            )
            results += trained.train(f"{numbers} of {len(runs)}")

    def gathered(name: str) -> tuple[tuple[str, ...], np.ndarray]:
        axes = ("rate", "seed", "epoch_done") if name.endswith("curve") else ("rate", "seed")
        values = np.array([result[name] for result in results])  # [run, ...]
        return axes, values.reshape(len(rates), len(listed), *values.shape[1:])

    return trajectory(
        {name: gathered(name) for name in results[0]},
        {"rate": rates, "seed": listed, "epoch_done": np.arange(1, schedule.epochs + 1)},
        units={"epoch": "epochs", "epochs_done": "epochs", "diverged_at": "steps"},
        experiment=experiment,
        epochs=schedule.epochs,
        batch=schedule.batch,
    )


def best_rate(trained: xr.Dataset) -> xr.Dataset:
    """At each point the rate with the lowest validation loss, averaged over seeds; `rate` becomes a variable.

    Runs that diverged before their first validation pass have no such loss. Only the rates with the fewest of these
    compete. A run that diverged later keeps the best epoch it had.
    """
    lost = trained.validation_loss.isnull().sum("seed")
    validation = trained.validation_loss.mean("seed").where(lost == lost.min("rate"))
    place = validation.fillna(np.inf).argmin("rate")
    return trained.isel(rate=place).reset_coords("rate")


def _listed(rates: Any) -> list[float]:
    listed = list(rates) if isinstance(rates, Sequence) or np.ndim(rates) == 1 else []
    numbers = all(isinstance(rate, Real) and not isinstance(rate, bool) for rate in listed)
    require(len(listed) >= 1 and numbers, f"rates must be a list of at least one number; got {rates!r}.")
    listed = [float(rate) for rate in listed]
    check_rates({"rates": xr.DataArray(listed)})
    require_distinct("rates", listed)
    return listed


def _runs_at_once(model: OutputModel, keys: Any, batch: int, samples: int) -> int:
    """As many runs as fit into `FLOATS_AT_ONCE`."""
    floats = sum(value.numel() for value in model.start(keys).values())
    floats += floats * min(batch, samples) // SAMPLES_AS_LARGE
    return max(1, FLOATS_AT_ONCE // floats)
