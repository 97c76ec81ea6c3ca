"""Trains one small model, measured by the monitor and by the probes, and keeps what the rules need in one file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.early_warnings.judging import LASTS, trouble_step
from benchmarks.early_warnings.model import SmallTransformer
from benchmarks.early_warnings.probes import activations, critical_multiple, near_unit_mass
from benchmarks.early_warnings.settings import EVERY, ONSET, STEPS, Setting
from benchmarks.early_warnings.tasks import BATCH, CONTEXT, IMAGES, Task, symbols_of
from foretrain.core.files import write_text
from foretrain.monitor.monitor import Monitor

CURVATURE_EVERY = 20  # steps
TOO_LARGE = 500.0  # the factor of the gradient of the corrupted batch: a sum over tokens instead of a mean
SNAPSHOTS = 4  # batches that the spectrum at the start is computed from
Run = dict[str, Any]


def digest(setting: Setting, text_sha256: str) -> str:
    """Of everything that the run is made from but the code: the same on every machine."""
    sizes = [STEPS, EVERY, CURVATURE_EVERY, CONTEXT, BATCH, IMAGES]
    inputs = json.dumps([setting.as_json(), sizes], sort_keys=True).encode()
    return hashlib.sha256(inputs + bytes.fromhex(text_sha256)).hexdigest()


def load_or_train(setting: Setting, text: bytes, folder: Path) -> tuple[Run, bool]:
    """A finished run of these settings and this text is read; else it is trained and stored. Whether it was trained."""
    name = setting.name.replace(", ", "_").replace(" ", "-").replace("%", "percent").replace("'", "")
    file = folder / f"{name}.json"
    inputs = digest(setting, hashlib.sha256(text).hexdigest())
    if file.is_file():
        run = json.loads(file.read_text(encoding="utf-8"))
        if run["digest"] == inputs:
            return run, False
    run = {"digest": inputs, **train(setting, text)}
    write_text(file, json.dumps(_short(run), separators=(",", ":")) + "\n")
    return run, True


def train(setting: Setting, text: bytes, steps: int = STEPS) -> Run:
    """The loss, the norm of the whole gradient and that of the update at every step, and the records.

    A loss that is not finite ends the run, and so does trouble that has lasted for a while.
    """
    training = _Training(setting, symbols_of(text))
    losses, gradients, updates, curvature = [], [], [], []
    extra: list[dict[str, Any]] = []
    guess = 4.0
    with Monitor(training.model, every=EVERY) as monitor:
        for step in range(steps):
            batch = training.task.batch(step)
            if step % EVERY == 0:
                extra.append(activations(training.model, batch[0]))
            loss = training.loss(batch)
            gradients.append(training.backward(loss, step))
            before = [p.detach().clone() for p in training.parameters]
            training.move(step)
            if step % CURVATURE_EVERY == 0:
                measured = critical_multiple(partial(training.loss, batch), training.parameters, before, guess)
                curvature.append([step, measured])
                guess = min(max(measured, 1e-3), 1e3)
            updates.append(_distance(training.parameters, before))
            monitor.step(loss=loss)
            losses.append(float(loss.detach()))
            if not math.isfinite(losses[-1]) or (step % EVERY == 0 and _has_lasted(losses)):
                break
    parts = ("step", "loss", "attention", "weights")
    records = [{part: record[part] for part in parts if part in record} for record in monitor.records]
    return {
        "setting": setting.as_json(),
        "near_unit_mass": training.near_unit_mass,
        "losses": losses,
        "gradients": gradients,
        "updates": updates,
        "critical_multiples": curvature,
        "records": [{**record, **more} for record, more in zip(records, extra, strict=False)],
    }


def _has_lasted(losses: list[float]) -> bool:
    trouble = trouble_step(losses)
    return trouble is not None and len(losses) > trouble + LASTS + EVERY


def _distance(parameters: Sequence[Tensor], before: list[Tensor]) -> float:
    moved = torch._foreach_sub([p.detach() for p in parameters], before)
    return float(torch.stack(torch._foreach_norm(moved)).norm())


class _Training:
    """A model, what it learns from, and what moves it, with the faults of the setting."""

    def __init__(self, setting: Setting, text: Tensor) -> None:
        torch.manual_seed(setting.seed)
        self.setting = setting
        self.task = Task(setting, text, torch.Generator().manual_seed(1000 + setting.seed))
        self.model = SmallTransformer(setting, *self.task.sizes)
        self.parameters = list(self.model.parameters())
        snapshots = Task(setting, text, torch.Generator().manual_seed(2000 + setting.seed))
        inputs = torch.cat([snapshots.batch(-2)[0] for _ in range(SNAPSHOTS)])
        self.near_unit_mass = near_unit_mass(self.model, inputs)
        self.guilty = self.model if setting.layer is None else self.model.blocks[setting.layer]
        faulty = {id(p) for p in self.guilty.parameters()}
        groups = [
            {"params": [p for p in self.parameters if id(p) in faulty]},
            {"params": [p for p in self.parameters if id(p) not in faulty]},
        ]
        self.optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            betas=(0.9, setting.beta2),
            weight_decay=setting.decay,
        )

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        return self.task.loss(self.model(batch[0]), batch[1])

    def backward(self, loss: Tensor, step: int) -> float:
        """The norm of the gradient before it is clipped."""
        loss.backward()
        if step == self.setting.corrupted:
            torch._foreach_mul_([p.grad for p in self.parameters if p.grad is not None], TOO_LARGE)
        limit = math.inf if self.setting.clip is None else self.setting.clip
        return float(nn.utils.clip_grad_norm_(self.parameters, limit))

    def move(self, step: int) -> None:
        rates = (self.setting.rate_at(step), self.setting.rate_of_others(step))
        for group, rate in zip(self.optimizer.param_groups, rates, strict=False):
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.setting.growth and step >= ONSET:
            with torch.no_grad():
                torch._foreach_mul_([p for p in self.guilty.parameters() if p.ndim == 2], 1 + self.setting.growth)


def _short(value: Any) -> Any:
    """With numbers of five digits: a run is then about 200 kB. Infinite numbers and nan stay, as Python writes them."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) and math.isfinite(value) else value
