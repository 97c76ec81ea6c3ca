"""What watching a training costs on a device: time, memory, and how often the host waits for it."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from foretrain.core.devices import wait_for
from foretrain.core.errors import require_whole
from foretrain.core.progress import Progress, tell
from foretrain.core.streams import torch_stream
from foretrain.doctor.reference import loss_of
from foretrain.monitor.monitor import Monitor

NEVER = 1 << 40
READS = {"_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2", "unique_dim", "unique_consecutive"}


@dataclass(frozen=True)
class Workload:
    """The training that is timed: layers of a transformer, on random vectors."""

    width: int = 512
    layers: int = 6
    heads: int = 8
    tokens: int = 256
    batch: int = 8
    every: int = 50  # steps between two measurements, as by default
    rounds: int = 10  # of so many steps each with the Monitor, with one that never measures, and without

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "tokens", "batch", "every"):
            require_whole(name, getattr(self, name), 1)
        require_whole("rounds", self.rounds, 2)

    def model(self) -> nn.Module:
        """A new model, the same every time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layer = nn.TransformerEncoderLayer(self.width, self.heads, 4 * self.width, dropout=0.0, batch_first=True)
            return nn.TransformerEncoder(layer, self.layers, enable_nested_tensor=False)

    def inputs(self) -> Tensor:
        """What it trains on, at every step."""
        return torch.randn(self.batch, self.tokens, self.width, generator=torch_stream("doctor", "cost"))


ON_CPU = Workload(width=128, layers=2, heads=4, tokens=64)  # a training that takes about a quarter of a minute


@dataclass(frozen=True)
class Share:
    """How much slower, as a share of the time without a Monitor, and its standard error over rounds."""

    mean: float
    error: float


@dataclass(frozen=True)
class Cost:
    """What a Monitor costs. None is what cannot be seen on this device."""

    step_seconds: float  # without a Monitor
    watched: Share
    unmeasured: Share  # with a Monitor, at steps that it does not measure
    memory_bytes: int | None  # at the peak of a measured step, above that of an unmeasured one
    reads_unmeasured: int | None  # copies to the host, and other operations for which it waits
    reads_measured: int | None
    waits_unmeasured: int | None  # how often CUDA says that the host waited
    waits_measured: int | None


def cost(device: torch.device, workload: Workload) -> Cost:
    """Train with a Monitor, with one that never measures, and without, in turn, and compare."""
    bare, idle, watched = (_Training(device, workload, every) for every in (None, NEVER, workload.every))
    seconds: dict[_Training, list[float]] = {bare: [], idle: [], watched: []}
    for done in range(workload.rounds + 1):
        tell(Progress(done, workload.rounds + 1, "training with and without a Monitor"))
        order = [*seconds][done % 3 :] + [*seconds][: done % 3]  # whoever goes first may find the machine cooler
        for training in order:
            took = _seconds(training, workload.every, device)
            if done > 0:  # the first round warms up
                seconds[training].append(took)
    every_step = _Training(device, workload, 1)
    every_step.step()
    memory = [_peak(training.step, device) for training in (idle, every_step)]
    reads = [_reads(training.step, device) for training in (idle, every_step)]
    waits = [_waits(training.step, device) for training in (idle, every_step)]
    for training in (idle, watched, every_step):
        training.end()
    known = memory[0] is not None and memory[1] is not None
    return Cost(
        statistics.median(seconds[bare]) / workload.every,
        _slower(seconds[watched], seconds[bare]),
        _slower(seconds[idle], seconds[bare]),
        int(memory[1]) - int(memory[0]) if known else None,  # type: ignore[arg-type]
        *reads,
        *waits,
    )


class _Training:
    """A model that trains on the same inputs at every step, and perhaps a Monitor."""

    def __init__(self, device: torch.device, workload: Workload, every: int | None) -> None:
        self.model, self.x = workload.model().to(device).train(), workload.inputs().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        start = 1 if every == NEVER else None
        self.monitor = None if every is None else Monitor(self.model, every=every, start=start)

    def step(self) -> None:
        loss = loss_of(self.model(self.x))
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.monitor is not None:
            self.monitor.step(loss=loss)

    def end(self) -> None:
        if self.monitor is not None:
            self.monitor.detach()


def _seconds(training: _Training, steps: int, device: torch.device) -> float:
    """Of so many steps: of this process where the CPU computes, else by the clock."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    wait_for(device)
    start = clock()
    for _ in range(steps):
        training.step()
    wait_for(device)
    return clock() - start


def _slower(watched: Sequence[float], bare: Sequence[float]) -> Share:
    shares = [one / other - 1 for one, other in zip(watched, bare, strict=True)]
    return Share(sum(watched) / sum(bare) - 1, statistics.stdev(shares) / math.sqrt(len(shares)))


def _peak(step: Callable[[], None], device: torch.device) -> int | None:
    """The most memory that was in use on the device during a step, as torch counts it."""
    module: Any = torch.get_device_module(device)
    if not hasattr(module, "max_memory_allocated") or not hasattr(module, "reset_peak_memory_stats"):
        return None
    wait_for(device)
    module.reset_peak_memory_stats(device)
    step()
    wait_for(device)
    return int(module.max_memory_allocated(device))


class HostReads(TorchDispatchMode):
    """Counts the operations by which the host reads from a device, or waits to know a result's size."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        name = func._schema.name.partition("::")[2]
        if any(tensor.device.type != "cpu" for tensor in tensors):
            copied = name in ("_to_copy", "copy_") and isinstance(result, Tensor) and result.device.type == "cpu"
            masked = name.startswith("index") and any(tensor.dtype is torch.bool for tensor in tensors)
            if name in READS or copied or masked:
                self.names.append(name)
        return result


def _reads(step: Callable[[], None], device: torch.device) -> int | None:
    """None on the CPU, where the host reads its own memory."""
    if device.type == "cpu":
        return None
    with HostReads() as reads:
        step()
    return len(reads.names)


def _waits(step: Callable[[], None], device: torch.device) -> int | None:
    """What CUDA itself calls a synchronising operation; other devices do not say."""
    if device.type != "cuda":
        return None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in said)
