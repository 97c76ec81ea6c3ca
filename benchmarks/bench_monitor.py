"""What watching a training costs: a GPT-2-type model, measured every 50 steps, against the same training alone; and how
often a measured step makes an accelerator wait, or processes talk to each other."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import Measured
from foretrain.core.streams import torch_stream
from foretrain.core.workers import single_threaded
from foretrain.monitor.monitor import Monitor

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCAB = 4, 256, 8, 256, 8, 2048
CYCLES, PAIRS = 12, 40
EVERY = 50


def measure() -> Iterator[Measured]:
    """In turn: a step of the watched model that is measured, one that is not, and a step of an unwatched copy."""
    with single_threaded():
        watched = _model()
        alone = copy.deepcopy(watched)
        yield _measured_steps(watched, alone)
        yield _other_steps(watched, alone)
    yield from _waits()
    yield from _operations()


def _measured_steps(watched: nn.Module, alone: nn.Module) -> Measured:
    monitor = Monitor(watched, every=2)
    trainings = {"watched": (watched, _optimizer(watched)), "alone": (alone, _optimizer(alone))}
    times: dict[str, list[float]] = {"measured": [], "not measured": [], "alone": []}
    _step(*trainings["alone"])  # the first step allocates memory
    for _ in range(CYCLES):
        for kind in times:
            began = time.process_time()
            loss = _step(*trainings["alone" if kind == "alone" else "watched"])
            if kind != "alone":
                monitor.step(loss=loss)
            times[kind].append(time.process_time() - began)
    monitor.detach()
    plain = mean(times["alone"])
    extra = mean(times["measured"]) - plain
    detail = f"{extra:.3f} s per measured step, {plain:.3f} s per step, {CYCLES} cycles"
    share = 100 * extra / (EVERY * plain)
    return Measured(f"Monitor every {EVERY} steps, over the training alone", share, 1, "%", True, detail)


def _other_steps(watched: nn.Module, alone: nn.Module) -> Measured:
    """The monitor's own time at steps that are not measured: its hooks and `step`, timed by themselves, because the
    steps of two trainings differ by more than it takes."""
    monitor = Monitor(watched, every=10**6)
    optimizer, spent = _optimizer(watched), _Spent()
    loss = _step(watched, optimizer)  # step 0 is measured
    monitor.step(loss=loss)
    spent.clock(monitor, "_begin", "_end", "backward_ended", "step")
    steps = []
    for _ in range(PAIRS):
        before, began = spent.seconds, time.process_time()
        loss = _step(watched, optimizer)
        monitor.step(loss=loss)
        steps.append((spent.seconds - before) / (time.process_time() - began))
    monitor.detach()
    detail = f"median of {PAIRS} steps; the loss and the gradient's norm are kept of each"
    return Measured("steps that the Monitor does not measure", 100 * median(steps), 0.1, "%", True, detail)


def _waits() -> Iterator[Measured]:
    """How often the host reads from an accelerator, counted on one made of Python by tests/devices."""
    code = (
        "import sys, fake_accelerator; sys.path.insert(0, 'tests/devices/on_fake_accelerator'); import monitored; "
        "reads = monitored.train(12, fake_accelerator.install())[1]; "
        "print(max(map(len, reads)), max(map(len, reads[1::2])))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", *sys.path[1:]])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    measured, others = map(int, done.stdout.split())
    yield Measured("host reads at a measured step, 12 layers", measured, 4, "reads", True, "on a made-up accelerator")
    yield Measured("host reads at any other step", others, 0, "reads", True)


def _operations() -> Iterator[Measured]:
    """Collective operations per record, of the trainings in two processes that tests/monitor starts."""
    sys.path.insert(0, "tests")
    from monitor.distributed import ended, start

    with tempfile.TemporaryDirectory() as folder:
        ended(start(2, ["ddp", "fsdp2"], Path(folder)))
        for kind, most in (("ddp", 2), ("fsdp2", 68)):
            *_, records, operations = torch.load(Path(folder) / f"{kind}-0.pt", weights_only=False)
            count = operations / len(records)
            yield Measured(f"collective operations per record, {kind}", count, most, "operations", True)


class _Spent:
    """The seconds that some methods of an object have taken."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clock(self, instance: object, *methods: str) -> None:
        for name in methods:
            setattr(instance, name, self._clocked(getattr(instance, name)))

    def _clocked(self, method):  # type: ignore[no-untyped-def]
        def clocked(*arguments, **options):  # type: ignore[no-untyped-def]
            began = time.process_time()
            try:
                return method(*arguments, **options)
            finally:
                self.seconds += time.process_time() - began

        return clocked


def _model() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": CONTEXT, "vocab_size": VOCAB}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-4)


def _step(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    tokens = torch.randint(0, VOCAB, (BATCH, CONTEXT), generator=torch_stream("bench/monitor"))
    loss = F.cross_entropy(model(tokens).logits.flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
