"""Trains on one alphabet, chooses the epoch on a second, reports on a third: all rates and seeds at once.

The best epoch is the one of least validation loss among those that were looked at. Its parameters are kept aside, and
the test set is looked at once, at the end, with those. Runs that are done, or whose loss is no longer finite, leave the
batch; the others go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
import xarray as xr

from foretrain.core.errors import require, require_at_least, require_distinct, require_whole
from foretrain.core.streams import seed_list, stream, torch_stream
from foretrain.core.trajectory import trajectory
from foretrain.core.workers import single_threaded
from foretrain.data.templates import TemplateSplit
from foretrain.dynamics.optimizers import check_rates
from foretrain.dynamics.run_samples import RunsModel, Samples
from foretrain.dynamics.stacked_adam import Adam

FLOATS_AT_ONCE = 47_000_000  # that are trained together: half as many are up to 4 % slower, twice as many no faster
MOST_EPOCHS = 1_000_000  # whose losses are kept, run by run
SAMPLES_AS_LARGE = 70  # samples whose states take as much memory as the parameters of the base transformer


@dataclass(frozen=True)
class Schedule:
    """How long and in what steps; the defaults are the paper's.

    batch        samples of a step; a training set that is not larger is one step
    patience     epochs without a better validation loss after which a run is done; None: all epochs
    good_enough  validation loss at which a run is done
    look_every   epochs from one look at the validation samples to the next, the first and last epoch besides; None: as
                 often as the looks together read at most an eighth as many samples as training does, but ten times
                 at least, and once in the epochs of `patience`
    """

    epochs: int = 1000
    batch: int = 1024
    patience: int | None = None
    good_enough: float = 0.0
    look_every: int | None = None

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs, 1)
        require(
            self.epochs <= MOST_EPOCHS, f"epochs must be at most {MOST_EPOCHS:,}: all are kept; got {self.epochs:,}."
        )
        require_whole("batch", self.batch, 1)
        if self.patience is not None:
            require_whole("patience", self.patience, 1)
        require_at_least("good_enough", self.good_enough, 0)
        if self.look_every is not None:
            require_whole("look_every", self.look_every, 1)

    def looks(self, samples: int, held_out: int) -> range:
        """The epochs, but for the first and the last, after which the validation samples are looked at."""
        every = self.look_every or min(
            math.ceil(8 * held_out / samples), max(1, self.epochs // 10), self.patience or self.epochs
        )
        return range(every, self.epochs + 1, every)


@dataclass(frozen=True)
class Progress:
    """What is told after a look at the validation samples: means over the runs in training whose losses are finite.

    Where none is, they are nan. Together are trained the runs from the `first` to the `last` of so many.
    """

    first: int
    last: int
    runs: int
    running: int  # of those, that are not done
    epoch: int
    epochs: int
    train_loss: float
    validation_loss: float
    validation_accuracy: float


def train_validated(
    model: RunsModel,
    splits: Sequence[TemplateSplit],
    *,
    rates: Sequence[float] | np.ndarray,
    schedule: Schedule | None = None,
    seeds: int | Sequence[int] | None = None,
    experiment: str = "train_validated",
    runs_at_once: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> xr.Dataset:
    """Adam from the same start at every rate, on the data of each seed (`splits`, one per seed).

    Returns over (rate, seed): `test_loss`, `test_accuracy`, `train_loss` and `validation_loss` at the chosen epoch,
    that `epoch` itself, `epochs_done`, `diverged_at` (the steps after which a loss, of the next step or of validation,
    was first not finite), and over (rate, seed, epoch_done) the curves `train_curve` and `validation_curve` (nan where
    it was not looked at). Accuracy is the share of samples whose output is nearest to their own label (of the labels of
    the task), or whose highest score is their token's.
    """
    schedule = schedule or Schedule()
    rates = _listed(rates)
    require(len(splits) >= 1, "There must be at least one split, one per seed; got none.")
    sizes = {len(split.train.tokens) for split in splits}
    require(len(sizes) == 1, f"All splits must have as many training samples; got {sorted(sizes)}.")
    if runs_at_once is not None:
        require_whole("runs_at_once", runs_at_once, 1)
    listed = seed_list(len(splits) if seeds is None else seeds)
    require(len(listed) == len(splits), f"There must be one split per seed; got {len(splits)} for {len(listed)} seeds.")
    cells = [(rate, place) for rate in rates for place in range(len(listed))]
    first = model.start([torch_stream(experiment, listed[0], "start")])
    floats = sum(value.numel() for value in first.values())
    floats += floats * min(schedule.batch, max(sizes)) // SAMPLES_AS_LARGE
    at_once = runs_at_once or max(1, FLOATS_AT_ONCE // floats)
    found: dict[tuple[float, int], dict[str, Any]] = {}
    for begin in range(0, len(cells), at_once):
        some = cells[begin : begin + at_once]
        together = (begin + 1, begin + len(some), len(cells))
        with single_threaded():
            runs = _Runs(model, [splits[place] for _, place in some], [listed[place] for _, place in some], experiment)
            trained = runs.train([rate for rate, _ in some], schedule, progress, together)
        found |= dict(zip(some, trained, strict=True))
    shape = (len(rates), len(listed))
    rows = [found[cell] for cell in cells]
    axes = {name: ("rate", "seed", "epoch_done") if name.endswith("curve") else ("rate", "seed") for name in rows[0]}
    return trajectory(
        {
            name: (axes[name], np.array([row[name] for row in rows]).reshape(*shape, *np.shape(rows[0][name])))
            for name in axes
        },
        {"rate": rates, "seed": listed, "epoch_done": np.arange(1, schedule.epochs + 1)},
        units={"epoch": "epochs", "epochs_done": "epochs", "diverged_at": "steps"},
        experiment=experiment,
        epochs=schedule.epochs,
        batch=schedule.batch,
    )


def _listed(rates: Any) -> list[float]:
    listed = list(rates) if isinstance(rates, Sequence) or np.ndim(rates) == 1 else []
    numbers = all(isinstance(rate, Real) and not isinstance(rate, bool) for rate in listed)
    require(len(listed) >= 1 and numbers, f"rates must be a list of at least one number; got {rates!r}.")
    listed = [float(rate) for rate in listed]
    check_rates({"rates": xr.DataArray(listed)})
    require_distinct("rates", listed)
    return listed


class _Runs:
    """Some runs trained together; those that leave keep their place in the results."""

    def __init__(
        self, model: RunsModel, splits: Sequence[TemplateSplit], seeds: Sequence[int], experiment: str
    ) -> None:
        self.model = model
        self.parameters = model.start([torch_stream(experiment, seed, "start") for seed in seeds])
        self.best = {name: value.clone() for name, value in self.parameters.items()}
        self.data = Samples.of(model, [split.train for split in splits], self.parameters)
        self.held_out = Samples.of(model, [split.validation for split in splits], self.parameters)
        self.test = Samples.of(model, [split.test for split in splits], self.parameters)
        self.order = [stream(experiment, seed, "order") for seed in seeds]
        names = list(self.parameters) if model.trained is None else list(model.trained)
        self.moving = {name: self.parameters[name].requires_grad_() for name in names}
        self.place = np.arange(len(seeds))  # of each run still in training

    def train(
        self,
        rates: Sequence[float],
        schedule: Schedule,
        progress: Callable[[Progress], None] | None,
        together: tuple[int, int, int],
    ) -> list[dict[str, Any]]:
        count, epochs = len(rates), schedule.epochs
        optimizer = Adam(list(self.moving.values()), rates)
        train_curve, validation_curve = np.full((2, count, epochs), np.nan)
        least = np.full(count, np.inf)
        chosen, done, diverged = np.zeros(count, int), np.zeros(count, int), np.full(count, np.nan)
        looks = schedule.looks(self.data.count, self.held_out.count)
        for epoch in range(1, epochs + 1):
            here, (losses, lasted) = self.place, self._epoch(optimizer, schedule.batch)
            train_curve[here, epoch - 1], done[here] = losses, epoch
            going = np.isfinite(losses)
            if epoch in looks or epoch in (1, epochs):
                with torch.no_grad():
                    outputs = self.model.outputs(self.parameters, self.held_out.prepared)
                    validation = self.held_out.losses(outputs).numpy()
                validation_curve[here, epoch - 1] = validation
                better = validation < least[here]  # never true of a loss that is not a number
                least[here[better]], chosen[here[better]] = validation[better], epoch
                self._keep_aside(here, better)
                finite = going & np.isfinite(validation)
                if progress:
                    told = np.stack([losses, validation, self.held_out.accuracy(outputs).numpy()])[:, finite]
                    means = told.mean(1) if finite.any() else np.full(3, np.nan)
                    progress(Progress(*together, len(here), epoch, epochs, *means.tolist()))
                diverged[here[~finite]] = lasted[~finite]
                going = finite & (validation > schedule.good_enough)
                if schedule.patience is not None:
                    going &= epoch - chosen[here] < schedule.patience
            else:
                diverged[here[~going]] = lasted[~going]
            if not going.any():
                break
            if not going.all():
                self._leave(going, optimizer)
        return self._results(least, chosen, done, diverged, train_curve, validation_curve)

    def _epoch(self, optimizer: Adam, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """One pass over the training samples; the mean loss of each run on the way, and its steps of finite loss."""
        moving, count = list(self.moving.values()), self.data.count
        total, lasted = np.zeros(len(self.place)), np.full(len(self.place), optimizer.steps)
        for samples, share in self._batches(batch):
            losses = samples.losses(self.model.outputs(self.parameters, samples.prepared))
            gradients = torch.autograd.grad(losses.sum(), moving, materialize_grads=True)
            with torch.no_grad():
                optimizer.step(moving, [gradient.contiguous() for gradient in gradients])
            total += losses.detach().numpy() * (share / count)
            lasted += np.isfinite(total)  # once a loss is not finite, no later total is
        return total, lasted

    def _batches(self, size: int) -> Any:
        count = self.data.count
        if count <= size:
            yield self.data, count
            return
        orders = torch.from_numpy(np.stack([draw.permutation(count) for draw in self.order]))
        for begin in range(0, count, size):
            samples = orders[:, begin : begin + size]
            yield self.data.some(samples), samples.shape[1]

    def _keep_aside(self, here: np.ndarray, better: np.ndarray) -> None:
        with torch.no_grad():
            for row in np.flatnonzero(better).tolist():
                for name, value in self.moving.items():
                    self.best[name][here[row]].copy_(value[row])

    def _leave(self, going: np.ndarray, optimizer: Adam) -> None:
        kept = torch.from_numpy(np.flatnonzero(going))
        self.place = self.place[going]
        with torch.no_grad():
            self.parameters = {name: value[kept] for name, value in self.parameters.items()}
        self.moving = {name: self.parameters[name].requires_grad_() for name in self.moving}
        optimizer.keep(kept)
        self.data, self.held_out = self.data.of_runs(kept), self.held_out.of_runs(kept)
        self.order = [self.order[run] for run in kept.tolist()]

    def _results(
        self,
        least: np.ndarray,
        chosen: np.ndarray,
        done: np.ndarray,
        diverged: np.ndarray,
        train_curve: np.ndarray,
        validation_curve: np.ndarray,
    ) -> list[dict[str, Any]]:
        """The test set, at last: with the parameters of the chosen epoch."""
        with torch.no_grad():
            outputs = self.model.outputs(self.best, self.test.prepared)
            loss, accuracy = self.test.losses(outputs).tolist(), self.test.accuracy(outputs).tolist()
        rows = []
        for run, epoch in enumerate(chosen.tolist()):
            trained = epoch > 0  # a run that was never finite has no epoch to choose
            rows.append(
                {
                    "test_loss": loss[run] if trained else math.nan,
                    "test_accuracy": accuracy[run] if trained else math.nan,
                    "train_loss": train_curve[run, epoch - 1] if trained else math.nan,
                    "validation_loss": least[run] if trained else math.nan,
                    "epoch": float(epoch) if trained else math.nan,
                    "epochs_done": done[run],
                    "diverged_at": diverged[run],
                    "train_curve": train_curve[run],
                    "validation_curve": validation_curve[run],
                }
            )
        return rows


def best_rate(found: xr.Dataset) -> xr.Dataset:
    """At each point the rate of least validation loss, averaged over seeds; `rate` becomes a variable.

    Of rates at which runs diverged before a first look, those count at which the fewest did; later ones keep the best
    epoch they had.
    """
    lost = found.validation_loss.isnull().sum("seed")
    validation = found.validation_loss.mean("seed").where(lost == lost.min("rate"))
    place = validation.fillna(np.inf).argmin("rate")
    return found.isel(rate=place).reset_coords("rate")
