"""Compares what foretrain reads off a model on a device with the definitions in float64 on the CPU."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from foretrain.checkpoints.matrices import measure_matrix
from foretrain.core.progress import Progress, tell
from foretrain.core.streams import torch_stream
from foretrain.doctor import reference
from foretrain.doctor.attention_layer import KINDS, AttentionLayer, inputs
from foretrain.doctor.block_layers import ResidualBlocks, activations, block_inputs, routing
from foretrain.measures import SpectrumTracker, effective_rank, stable_rank
from foretrain.monitor.monitor import Monitor
from foretrain.runs.training_log import Record

# The largest difference that float32 explains, with room for another order of summation.
ATTENTION, ACTIVATIONS, IDENTITY = 1e-4, 1e-4, 1e-5  # absolute; relative where numbers are above 1
WEIGHTS = {
    "norm": 1e-5,
    "stable_rank": 1e-3,  # what measures.stable_rank promises
    "effective_rank": 1e-3,
    "gradient_norm": 1e-4,
    "update_ratio": 1e-3,  # of a difference of two rounded matrices
}
Value = TypeVar("Value")
LARGE = 300, 280  # sides of a matrix whose largest singular value is found by Lanczos


@dataclass(frozen=True)
class DeviceCheck:
    """One number, or one for each head or matrix, on the device and by its definition."""

    area: str
    what: str
    difference: float  # the largest; relative where the number is above 1, or has no scale of its own
    limit: float
    reason: str = ""  # why there is no number to compare

    @property
    def holds(self) -> bool:
        """Whether the difference is small enough; a number that is absent is not."""
        return self.difference <= self.limit


def checks(device: torch.device) -> list[DeviceCheck]:
    """Every check, whatever goes wrong in one of them."""
    parts: list[Callable[[torch.device], Iterator[DeviceCheck]]] = [*map(_of_kind, KINDS), _of_blocks, _spectra]
    results: list[DeviceCheck] = []
    for done, part in enumerate(parts):
        tell(Progress(done, len(parts), "comparing with the CPU"))
        results += part(device)
    return results


def _of_kind(kind: str) -> Callable[[torch.device], Iterator[DeviceCheck]]:
    """What a Monitor records of one training step of a layer."""

    def compare(device: torch.device) -> Iterator[DeviceCheck]:
        exact, x = AttentionLayer(kind).double(), inputs(kind).double()
        nothing: Record = {}
        record, reason = _attempt(lambda: _recorded(AttentionLayer(kind), inputs(kind), device), nothing)
        heads = _only(record.get("attention", {}))
        for name, expected in reference.attention(*exact.logits(x)).items():
            yield _compared("attention", f"{kind}: {name}", heads.get(name, []), expected, ATTENTION, reason, floor=1.0)
        shares = _only(record.get("identity", {}))
        for name, expected in reference.identity(exact).items():
            yield _compared("identity", f"{kind}: {name}", shares.get(name, []), expected, IDENTITY, reason, floor=1.0)
        matrices, measured = reference.weights(exact, x), record.get("weights", {})
        for name, limit in WEIGHTS.items():
            values = [measured.get(matrix, {}).get(name, math.nan) for matrix in matrices]
            expected = [measures[name] for measures in matrices.values()]
            yield _compared("weights", f"{kind}: {name}", values, expected, limit, reason)

    return compare


def _of_blocks(device: torch.device) -> Iterator[DeviceCheck]:
    """Activations and experts, and the loss and the gradient of the whole model."""
    exact, x = ResidualBlocks().double(), block_inputs().double()
    nothing: Record = {}
    record, reason = _attempt(lambda: _recorded(ResidualBlocks(), block_inputs(), device), nothing)
    for part, expected_of in (("activations", activations), ("experts", routing)):
        for name, expected in expected_of(exact, x).items():
            recorded = [layer.get(name, []) for layer in record.get(part, {}).values()]
            values = [value for each in recorded for value in (each if isinstance(each, list) else [each])]
            yield _compared(part, name, values, expected, ACTIVATIONS, reason, floor=1.0)
    loss = reference.loss_of(exact(x))
    loss.backward()
    gradient = math.hypot(*(float(p.grad.norm()) for p in exact.parameters() if p.grad is not None))
    for name, value in (("loss", float(loss.detach())), ("gradient_norm", gradient)):
        values = [record.get(name, math.nan)]
        yield _compared("whole model", name, values, [value], WEIGHTS["gradient_norm"], reason)


def _recorded(model: nn.Module, x: Tensor, device: torch.device) -> Record:
    """The record of the first step of a training on the device."""
    model, x = model.to(device), x.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=reference.RATE)
    with Monitor(model, every=1, identity=True) as monitor, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No attention")  # in blocks that have none
        loss = reference.loss_of(model(x))
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
    if not monitor.records:
        raise RuntimeError("the Monitor recorded nothing")
    return monitor.records[0]


def _spectra(device: torch.device) -> Iterator[DeviceCheck]:
    """Ranks of matrices as `measures` and `analyze` compute them, also of one that moves a little."""
    draw = torch_stream("doctor", "spectra")
    W = torch.randn(LARGE, generator=draw) + 2 * torch.outer(*(torch.randn(side, generator=draw) for side in LARGE))
    W[:, 0] += 1.0
    moved = W + 0.01 * torch.randn(LARGE, generator=draw)
    exact, later = reference.spectrum(W), reference.spectrum(moved)
    tracker = SpectrumTracker()

    def refreshed() -> float:
        tracker.refresh("W", W.to(device))
        return tracker.refresh("W", moved.to(device)).stable_rank

    small = reference.spectrum(W[:40])
    numbers: list[tuple[str, Callable[[], float], float, float]] = [
        ("stable rank of a large matrix", lambda: float(stable_rank(W.to(device))), exact["stable_rank"], 1e-3),
        ("stable rank of a small matrix", lambda: float(stable_rank(W[:40].to(device))), small["stable_rank"], 1e-4),
        ("effective rank", lambda: float(effective_rank(W.to(device))), exact["effective_rank"], 1e-4),
        ("stable rank after a step", refreshed, later["stable_rank"], 1e-3),
        ("norm for analyze", lambda: measure_matrix(W.to(device))["norm"], exact["norm"], 1e-5),
        ("effective rank for analyze", lambda: measure_matrix(W.to(device))["effective_rank"],
         exact["effective_rank"], 1e-3),
    ]  # fmt: skip
    for what, compute, expected, limit in numbers:
        value, reason = _attempt(compute, math.nan)
        yield _compared("spectra", what, [value], [expected], limit, reason)


def _attempt(compute: Callable[[], Value], otherwise: Value) -> tuple[Value, str]:
    """What is computed, or why it could not be: a device may lack an operation, and that is what we look for."""
    try:
        return compute(), ""
    except Exception as error:
        return otherwise, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"


def _compared(
    area: str,
    what: str,
    values: Sequence[float],
    expected: Sequence[float],
    limit: float,
    reason: str,
    *,
    floor: float = 0.0,
) -> DeviceCheck:
    """Differences relative to what is expected, or to `floor` where that is larger."""
    if len(values) != len(expected):
        return DeviceCheck(area, what, math.nan, limit, reason or "it was not recorded")
    differences = [abs(x - y) / max(abs(y), floor) for x, y in zip(values, expected, strict=True)]
    worst = math.nan if any(math.isnan(gap) for gap in differences) else max(differences)
    return DeviceCheck(area, what, worst, limit, reason or ("it was not recorded" if math.isnan(worst) else ""))


def _only(layers: Mapping[str, Mapping[str, list[float]]]) -> Mapping[str, list[float]]:
    """What was recorded of the only layer."""
    return next(iter(layers.values()), {})
