"""Some runs of `train_validated`, trained together. Runs that are done leave the batch, and the others go on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from foretrain.core.progress import Progress, current_listener, tell
from foretrain.core.streams import stream
from foretrain.data.template_task import TemplateSplit
from foretrain.dynamics.fused_adam import FusedAdam
from foretrain.dynamics.labelled_samples import LabelledSamples
from foretrain.dynamics.protocols import OutputModel
from foretrain.dynamics.schedule import Schedule
from foretrain.models.parameters import start_keys


class RunRecords:
    """What is known about every run, those included that have left the batch."""

    def __init__(self, runs: int, epochs: int) -> None:
        self.train_curve, self.validation_curve = np.full((2, runs, epochs), np.nan)  # [run, epoch]
        self.least_loss = np.full(runs, np.inf)  # of validation, so far
        self.best_epoch = np.zeros(runs, int)  # where it was; 0: none yet
        self.epochs_done = np.zeros(runs, int)
        self.diverged_at = np.full(runs, np.nan)  # step; nan: has not diverged

    def of_run(self, run: int, test_loss: float, test_accuracy: float) -> dict[str, Any]:
        """The results of one run. One that was never finite has no best epoch, and nan for what depends on it."""
        epoch = int(self.best_epoch[run])
        chosen = {
            "test_loss": test_loss,
            "test_accuracy": test_accuracy,
            "train_loss": self.train_curve[run, epoch - 1],
            "validation_loss": self.least_loss[run],
            "epoch": float(epoch),
        }
        return {
            **(chosen if epoch > 0 else dict.fromkeys(chosen, math.nan)),
            "epochs_done": self.epochs_done[run],
            "diverged_at": self.diverged_at[run],
            "train_curve": self.train_curve[run],
            "validation_curve": self.validation_curve[run],
        }


class ValidatedRuns:
    """Runs with one split, seed and rate each."""

    def __init__(
        self,
        model: OutputModel,
        splits: Sequence[TemplateSplit],
        seeds: Sequence[int],
        rates: Sequence[float],
        experiment: str,
        schedule: Schedule,
    ) -> None:
        self.model, self.schedule = model, schedule
        self.parameters = model.start(start_keys(experiment, seeds))
        self.best = {name: value.clone() for name, value in self.parameters.items()}  # those of the best epoch
        self.train_samples = LabelledSamples.of(model, [split.train for split in splits], self.parameters)
        self.held_out = LabelledSamples.of(model, [split.validation for split in splits], self.parameters)
        self.test_samples = LabelledSamples.of(model, [split.test for split in splits], self.parameters)
        self.shuffles = [stream(experiment, seed, "order") for seed in seeds]
        names = list(self.parameters) if model.trained is None else list(model.trained)
        self.moving = {name: self.parameters[name].requires_grad_() for name in names}
        self.optimizer = FusedAdam(list(self.moving.values()), rates)
        self.records = RunRecords(len(seeds), schedule.epochs)
        self.run_index = np.arange(len(seeds))  # the rows in `records` of the runs still in training

    def train(self, label: str) -> list[dict[str, Any]]:
        """Train all runs until they are done; their results. `label` names the runs for whoever follows progress."""
        schedule, records = self.schedule, self.records
        validation_epochs = schedule.validation_epochs(self.train_samples.count, self.held_out.count)
        for epoch in range(1, schedule.epochs + 1):
            losses, finite_steps = self._train_epoch()
            records.train_curve[self.run_index, epoch - 1] = losses
            records.epochs_done[self.run_index] = epoch
            finite = np.isfinite(losses)
            going = finite
            if epoch in validation_epochs or epoch in (1, schedule.epochs):
                validation = self._validate(epoch, losses, label)
                finite = finite & np.isfinite(validation)
                going = finite & (validation > schedule.good_enough)
                if schedule.patience is not None:
                    going &= epoch - records.best_epoch[self.run_index] < schedule.patience
            records.diverged_at[self.run_index[~finite]] = finite_steps[~finite]
            if not going.any():
                break
            if not going.all():
                self._keep_runs(going)
        return self._results()

    def _train_epoch(self) -> tuple[np.ndarray, np.ndarray]:
        """One pass over the training samples: each run's mean loss, and after how many steps it was last finite."""
        moving, count = list(self.moving.values()), self.train_samples.count
        mean_loss = np.zeros(len(self.run_index))
        finite_steps = np.full(len(self.run_index), self.optimizer.steps)
        for samples in self._batches():
            losses = samples.losses(self.model.outputs(self.parameters, samples.prepared))
            gradients = torch.autograd.grad(losses.sum(), moving, materialize_grads=True)
            with torch.no_grad():
                self.optimizer.update(moving, [gradient.contiguous() for gradient in gradients])
            mean_loss += losses.detach().numpy() * (samples.count / count)
            finite_steps += np.isfinite(mean_loss)  # once a loss is not finite, the mean stays so
        return mean_loss, finite_steps

    def _batches(self) -> Iterator[LabelledSamples]:
        """The training samples in batches, in a new random order for each run; as they are if one batch holds all."""
        count, size = self.train_samples.count, self.schedule.batch
        if count <= size:
            yield self.train_samples
            return
        orders = torch.from_numpy(np.stack([draw.permutation(count) for draw in self.shuffles]))  # [run, sample]
        for begin in range(0, count, size):
            yield self.train_samples.select_samples(orders[:, begin : begin + size])

    def _validate(self, epoch: int, train_losses: np.ndarray, label: str) -> np.ndarray:
        """The validation loss of each run in training. Where it is the lowest so far, keep the parameters."""
        with torch.no_grad():
            outputs = self.model.outputs(self.parameters, self.held_out.prepared)
            losses = self.held_out.losses(outputs).numpy()
        records, run_index = self.records, self.run_index
        records.validation_curve[run_index, epoch - 1] = losses
        better = losses < records.least_loss[run_index]  # never true of nan
        records.least_loss[run_index[better]] = losses[better]
        records.best_epoch[run_index[better]] = epoch
        with torch.no_grad():
            for row in np.flatnonzero(better).tolist():
                for name, value in self.moving.items():
                    self.best[name][run_index[row]].copy_(value[row])
        if current_listener():
            curves = np.stack([train_losses, losses, self.held_out.accuracy(outputs).numpy()])  # [curve, run]
            means = curves[:, np.isfinite(train_losses) & np.isfinite(losses)]
            message = "no run has finite losses"
            if means.size:
                train_loss, validation_loss, accuracy = means.mean(1)
                message = f"train loss {train_loss:.3g}, validation loss {validation_loss:.3g}, accuracy {accuracy:.0%}"
            epochs = self.schedule.epochs
            tell(Progress(epoch, epochs, f"{label}, epoch {epoch} of {epochs}: {message}", inner=True))
        return losses

    def _keep_runs(self, going: np.ndarray) -> None:
        """Go on with these runs only."""
        kept = torch.from_numpy(np.flatnonzero(going))
        self.run_index = self.run_index[going]
        with torch.no_grad():
            self.parameters = {name: value[kept] for name, value in self.parameters.items()}
        self.moving = {name: self.parameters[name].requires_grad_() for name in self.moving}
        self.optimizer.select_runs(kept)
        self.train_samples, self.held_out = self.train_samples.select_runs(kept), self.held_out.select_runs(kept)
        self.shuffles = [self.shuffles[run] for run in kept.tolist()]

    def _results(self) -> list[dict[str, Any]]:
        """The only pass over the test samples: with the parameters of the best epoch."""
        with torch.no_grad():
            outputs = self.model.outputs(self.best, self.test_samples.prepared)
            losses = self.test_samples.losses(outputs).tolist()
            accuracies = self.test_samples.accuracy(outputs).tolist()
        return [self.records.of_run(run, losses[run], accuracies[run]) for run in range(len(losses))]
