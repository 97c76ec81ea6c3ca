"""Trains a language model: watched, evaluated, and able to go on to the bit after being killed."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import xarray as xr
from torch import Tensor, nn

from foretrain.core.devices import device_named
from foretrain.core.errors import InputError, require
from foretrain.core.progress import Progress, tell
from foretrain.core.streams import torch_stream
from foretrain.language.batches import training_batch, validation_windows
from foretrain.language.models import build, next_token_loss
from foretrain.language.setting import LanguageSetting
from foretrain.language.state import CHECKPOINTS, TrainingFolder
from foretrain.language.text import TokenText
from foretrain.monitor.monitor import Monitor
from foretrain.monitor.statistics import NAMES
from foretrain.monitor.watch import attention_of
from foretrain.runs.layer_numbers import numbered
from foretrain.runs.training_log import FINISHED, append_line, as_dataset, read_lines, read_training

WATCHED, EVALUATED = "run.jsonl", "evaluations.jsonl"
SAVE_EVERY = 60.0  # seconds between saved states, at most: what a kill loses
SAVE_SHARE = 0.02  # of the time, at most, for saving: small models are saved every second or so
EVALUATION_BATCH = 16


@dataclass(frozen=True)
class LanguageRun:
    """A training that has reached its last step."""

    folder: Path
    model: nn.Module
    setting: LanguageSetting

    @property
    def watched(self) -> xr.Dataset:
        """What the monitor saw: attention and weights at measured steps, on training batches."""
        return numbered(as_dataset(read_lines(self.folder / WATCHED)))

    @property
    def evaluated(self) -> xr.Dataset:
        """Loss and attention on the validation text."""
        return as_dataset(read_lines(self.folder / EVALUATED))

    @property
    def checkpoints(self) -> list[Path]:
        """The folders of its checkpoints, in the order of their steps."""
        folders = (self.folder / CHECKPOINTS).glob("step-*")
        return sorted(folders, key=lambda folder: int(folder.name.removeprefix("step-")))


def train_language_model(
    setting: LanguageSetting,
    text: TokenText,
    folder: str | Path,
    *,
    every: int = 50,
    evaluations: int = 20,
    checkpoints: bool = True,
    device: str | torch.device = "cpu",
) -> LanguageRun:
    """Train, or go on with, the model of a folder.

    A Monitor measures every `every` steps. The validation text is read before the first step, then at `evaluations`
    evenly spaced steps. Checkpoints are saved at steps 0, 1, 2, 4, 8, … and at the end. Under torchrun, each process
    takes its part of every batch. Weights are drawn on the CPU, so that a seed means the same on every `device`.
    """
    text.require_context(setting.context)
    place = device_of_process(device_named(device))
    home = TrainingFolder(Path(folder))
    with _processes() as (rank, processes), home.locked(rank == 0):
        require(setting.batch % processes == 0, f"batch {setting.batch} must be a multiple of {processes} processes.")
        home.require_own(setting, text.digest)
        _wait(processes)  # so that nobody looks into a folder that another process has begun to fill
        model = build(setting, text.vocabulary).to(place)
        optimizer = make_optimizer(model, setting)
        start, losses = home.restore(model, optimizer)
        if start >= setting.steps:
            if rank == 0:
                home.tidy(start)
                _note_finished(home.path / WATCHED, start)
            return LanguageRun(home.path, model, setting)
        if rank == 0:
            home.begin(setting, text.digest, text.tokenizer.to_str())
        outer = nn.parallel.DistributedDataParallel(model) if processes > 1 else model
        job = _Job(setting, text, home, model, outer, optimizer, rank, processes)
        history = losses.tolist()
        if start > 0:
            tell(Progress(start, setting.steps, f"going on at step {start}"))
        file = home.path / WATCHED
        monitor = Monitor(model, every=every, file=file, total=setting.steps, resume=True, start=start)
        finished = False
        try:
            job.loop(start, history, monitor, max(1, setting.steps // max(1, evaluations)), checkpoints)
            finished = True
        finally:
            monitor.detach(finished=finished)
        _wait(processes)  # for what the first process writes
    return LanguageRun(home.path, model, setting)


def _note_finished(file: Path, steps: int) -> None:
    """The last line of the records, if a kill has come before it."""
    if file.is_file():
        records, finished = read_training(file)
        if records and not finished:
            append_line(file, {FINISHED: steps})


@dataclass
class _Job:
    """What the loop needs."""

    setting: LanguageSetting
    text: TokenText
    home: TrainingFolder
    model: nn.Module
    outer: nn.Module  # the same, or wrapped for several processes
    optimizer: torch.optim.Optimizer
    rank: int
    processes: int

    def loop(self, start: int, losses: list[float], monitor: Monitor, evaluate_every: int, checkpoints: bool) -> None:
        setting, first = self.setting, self.rank == 0
        saved, pause = time.monotonic(), 1.0
        for step in range(start, setting.steps + 1):
            if first and (step % evaluate_every == 0 or step == setting.steps):
                evaluation = evaluate(self.model, self.text, setting)
                append_line(self.home.path / EVALUATED, {"step": step, **evaluation})
            if first and checkpoints and (step & (step - 1) == 0 or step == setting.steps):
                self.home.save_checkpoint(step, self.model, setting)
            if first and step > start and (step == setting.steps or time.monotonic() - saved > min(pause, SAVE_EVERY)):
                began = time.monotonic()
                self.home.save(step, self.model, self.optimizer, torch.tensor(losses, dtype=torch.float64))
                saved = time.monotonic()
                pause = max(1.0, (saved - began) / SAVE_SHARE)
            if step < setting.steps:
                loss = self._update(step)
                losses.append(float(loss))
                if not math.isfinite(losses[-1]):
                    raise InputError(
                        f"The loss is no longer a number at step {step}; give a lower rate, or clip the gradient."
                    )
                monitor.step(loss=loss)
                tell(Progress(step + 1, setting.steps, f"loss {losses[-1]:.3f}"))

    def _update(self, step: int) -> Tensor:
        setting = self.setting
        for group in self.optimizer.param_groups:
            group["lr"] = setting.learning_rate(step) * group["times"]
        part = setting.batch // self.processes
        windows = training_batch(self.text.train, setting, step)[self.rank * part : (self.rank + 1) * part]
        self.model.train()
        with _own_random_state(setting, step, self.rank):
            loss = next_token_loss(self.outer, windows.to(device_of(self.model)))
        loss.backward()
        if setting.clip > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), setting.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def make_optimizer(model: nn.Module, setting: LanguageSetting) -> torch.optim.Optimizer:
    """Weight decay for matrices only; identity scalings have a rate of their own and no decay."""
    scalings = [p for name, p in model.named_parameters() if "identity_scaling" in name]
    scaled = {id(p) for p in scalings}
    matrices = [p for p in model.parameters() if p.ndim >= 2 and id(p) not in scaled]
    vectors = [p for p in model.parameters() if p.ndim < 2 and id(p) not in scaled]
    groups = [
        {"params": matrices, "weight_decay": setting.weight_decay, "times": 1.0},
        {"params": vectors, "weight_decay": 0.0, "times": 1.0},
        {"params": scalings, "weight_decay": 0.0, "times": setting.identity_rate},
    ]
    groups = [group for group in groups if group["params"]]
    if setting.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=setting.rate)
    if setting.optimizer == "adam":
        return torch.optim.Adam([{**group, "weight_decay": 0.0} for group in groups], lr=setting.rate, fused=True)
    return torch.optim.AdamW(groups, lr=setting.rate, betas=(0.9, 0.98), fused=True)


def evaluate(model: nn.Module, text: TokenText, setting: LanguageSetting) -> dict[str, object]:
    """Loss on the validation text, in nats per token, and the attention of every layer and head there."""
    windows = validation_windows(text.valid, setting.context).to(device_of(model))
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            blocks = windows.split(EVALUATION_BATCH)
            with attention_of(model) as attention:
                losses = [float(next_token_loss(model, blocks[0]))]
            losses += [float(next_token_loss(model, block)) for block in blocks[1:]]
    finally:
        model.train(was_training)
    sizes = [len(block) for block in blocks]
    loss = sum(loss * size for loss, size in zip(losses, sizes, strict=True)) / sum(sizes)
    layers = {layer: dict(zip(NAMES, values.tolist(), strict=True)) for layer, values in attention.items()}
    return {"loss": loss, "attention": layers}


def device_of_process(device: torch.device) -> torch.device:
    """Under torchrun, each process of a machine takes an accelerator of its own, unless one is named by its number."""
    numbered = device.type == "cpu" or device.index is not None or "LOCAL_RANK" not in os.environ
    return device if numbered else torch.device(device.type, int(os.environ["LOCAL_RANK"]))


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters are."""
    return next(model.parameters()).device


@contextmanager
def _own_random_state(setting: LanguageSetting, step: int, rank: int) -> Iterator[None]:
    """Dropout draws from a state that belongs to this step, so that a resumed training draws the same."""
    if setting.dropout == 0:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_stream("language", setting.seed, "dropout", step, rank).initial_seed())
        yield


def _wait(processes: int) -> None:
    if processes > 1:
        torch.distributed.barrier()


@contextmanager
def _processes() -> Iterator[tuple[int, int]]:
    """Rank and number of processes; 0 and 1 unless torchrun has started this program."""
    if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, 1
        return
    import torch.distributed as distributed

    begun = not distributed.is_initialized()
    if begun:
        distributed.init_process_group("gloo")
    try:
        yield distributed.get_rank(), distributed.get_world_size()
    finally:
        if begun:
            distributed.destroy_process_group()
