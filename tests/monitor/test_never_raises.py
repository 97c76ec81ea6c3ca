"""An error inside the monitor is logged once, and changes neither the training nor what else is recorded."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import foretrain.monitor.capture
import foretrain.monitor.gradients
import foretrain.monitor.measurement
import foretrain.monitor.monitor
import foretrain.monitor.tally
import foretrain.monitor.training_file
import foretrain.monitor.watch
import foretrain.monitor.weights
from foretrain.monitor.alarms import Watcher
from foretrain.monitor.every_step import EveryStep
from foretrain.monitor.gradients import GradientReader
from foretrain.monitor.monitor import Monitor
from foretrain.monitor.weights import WeightReader
from monitor.models import NanoGPT

GRADIENTS = {"gradient_norm"}
ALL = {"step", "loss", "every_step", "attention", "activations", "identity", "weights", *GRADIENTS}
PASS = {"attention", "activations", "identity"}
# where the error comes from -> (what could not be done, what is still in the records)
PLACES: dict[str, tuple[Any, str, str, set[str]]] = {
    "attention": (foretrain.monitor.capture, "row_sums", "read attention", ALL - {"attention", "identity"}),
    "hooks": (foretrain.monitor.watch, "names_of_running_modules", "read attention", ALL - PASS),
    "layers not read": (foretrain.monitor.watch, "unread_attention", "read attention", ALL),
    "parameters": (
        foretrain.monitor.weights, "held_by_this_process", "read the weights", ALL - {"weights"} - GRADIENTS
    ),
    "spectra": (WeightReader, "_tracked", "read the weights", ALL),
    "numbers": (foretrain.monitor.weights, "_finish", "read the weights", ALL - {"weights"}),
    "gradients": (foretrain.monitor.gradients, "norm_of", "read gradients", ALL - GRADIENTS),
    "estimates": (GradientReader, "estimate", "read gradients", ALL),
    "backward": (foretrain.monitor.monitor, "call_after_backward", "wait for gradients", ALL - GRADIENTS),
    "updates": (foretrain.monitor.weights, "_square", "read updates of the weights", ALL),
    "identity": (foretrain.monitor.measurement, "identity_tallies", "read the identity's share", ALL - {"identity"}),
    "losses": (EveryStep, "add", "keep the loss", ALL - {"loss", "every_step"}),
    "warnings": (Watcher, "update", "look for trouble", ALL),
    "the file": (foretrain.monitor.training_file, "append_line", "write a record", ALL),
    "blindness": (Monitor, "_warn_if_blind", "look at the model", ALL),
}  # fmt: skip


def train(**options: Any) -> tuple[list[float], list[Tensor], Monitor | None]:
    torch.manual_seed(0)
    model = NanoGPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor = Monitor(model, every=2, identity=True, **options) if options else None
    losses = []
    for _ in range(4):
        tokens = torch.randint(0, 50, (4, 9))
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    assert all(not module._forward_hooks for block in model.blocks for module in block.modules())
    assert torch.overrides._get_current_function_mode_stack() == []
    if monitor is not None:
        monitor.detach()
    return losses, [p.detach().clone() for p in model.parameters()], monitor


def failing(*_: Any, **__: Any) -> Any:
    raise RuntimeError("out of luck\nin two lines")


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("place", PLACES)
def test_an_error_anywhere_leaves_the_training_as_it_is(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    losses, weights, _ = train()
    owner, name, what, kept = PLACES[place]
    monkeypatch.setattr(owner, name, failing)
    watched_losses, watched_weights, monitor = train(file=tmp_path / "run.jsonl")
    assert watched_losses == losses
    assert all(torch.equal(a, b) for a, b in zip(weights, watched_weights, strict=True))
    assert monitor is not None
    assert [record["step"] for record in monitor.records] == [0, 2]
    assert all(set(record) == kept for record in monitor.records)
    assert logged(caplog).count(
        f"foretrain could not {what} (RuntimeError: out of luck). "
        "The training goes on, and everything else is recorded."
    ) == 1  # fmt: skip


def test_numbers_that_cannot_be_read_leave_no_record(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    losses, _, _ = train()
    monkeypatch.setattr(foretrain.monitor.tally, "read_once", failing)
    watched_losses, _, monitor = train(total=4)
    assert watched_losses == losses
    assert monitor is not None
    assert monitor.records == []
    assert len(logged(caplog)) == 1


def test_a_function_for_alarms_that_fails_is_named(caplog: pytest.LogCaptureFixture) -> None:
    model = NanoGPT()
    monitor = Monitor(model, every=1, on_alarm=failing)
    model(torch.zeros(1, 3, dtype=torch.long))
    monitor.step(loss=float("nan"))
    assert "foretrain could not call failing with an alarm (RuntimeError: out of luck)." in caplog.text


def test_a_sink_that_fails_does_not_keep_records_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    records: list[Any] = []
    _, _, monitor = train(sinks=[failing, records.append])
    assert monitor is not None
    assert records == monitor.records
    assert len(records) == 2
    assert len(logged(caplog)) == 1


def test_a_warning_that_is_an_error_stops_no_training(caplog: pytest.LogCaptureFixture) -> None:
    """As under `python -W error`, which the test suite is."""
    model = torch.nn.Linear(3, 3)
    monitor = Monitor(model, every=1)
    model(torch.ones(2, 3))
    monitor.step()
    assert "UserWarning: No attention was seen" in caplog.text
