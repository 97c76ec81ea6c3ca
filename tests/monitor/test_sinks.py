"""What TensorBoard and Weights & Biases are sent is what the monitor records, read back from their own files."""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import wandb
import xarray as xr
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto.wandb_internal_pb2 import Record as WandBRecord

from foretrain.core.errors import InputError
from foretrain.monitor.monitor import Monitor
from foretrain.monitor.sinks import TensorBoard, WandB, scalars
from foretrain.runs.training_log import as_dataset
from monitor.models import NanoGPT

Curves = dict[str, dict[int, float]]  # curve -> step -> value
RECORD = {
    "step": 50,
    "loss": math.nan,
    "attention": {"a#2": {"entropy": [2.0, math.nan, 1.0], "self_attention": [math.nan] * 3, "largest_logit": [4, 9]}},
    "identity": {"a": {"query_key": [0.5, 0.0]}},
    "weights": {"a.weight": {"stable_rank": 3.0, "update_ratio": math.nan}},
}


def test_curves_of_a_record() -> None:
    values = scalars(RECORD)
    assert math.isnan(values.pop("loss"))  # a loss that is not a number is news
    assert values == {
        "attention_entropy/a#2/mean": 1.5,
        "attention_entropy/a#2/lowest": 1.0,
        "attention_largest_logit/a#2/mean": 6.5,
        "attention_largest_logit/a#2/highest": 9.0,
        "identity_query_key/a/mean": 0.25,
        "stable_rank/a.weight": 3.0,
    }
    per_head = {name: value for name, value in scalars(RECORD, heads=True).items() if "/head_" in name}
    assert per_head == {
        "attention_entropy/a#2/head_0": 2.0,
        "attention_entropy/a#2/head_2": 1.0,
        "attention_largest_logit/a#2/head_0": 4.0,
        "attention_largest_logit/a#2/head_1": 9.0,
        "identity_query_key/a/head_0": 0.5,
        "identity_query_key/a/head_1": 0.0,
    }
    assert scalars({"step": 0}) == {}


def watched(sink: Callable[[Any], None], *, first: int = 0, steps: int = 5) -> xr.Dataset:
    """A short training that is measured every second step."""
    torch.manual_seed(first)
    model = NanoGPT()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Monitor(model, every=2, sinks=[sink]) as monitor:
        monitor.steps = first
        while monitor.steps < first + steps:
            loss = model(torch.randint(0, 50, (2, 6))).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss=loss)
    return as_dataset(monitor.records)  # layers by name


def expected(dataset: xr.Dataset, step: int, *, loss: str) -> dict[str, float]:
    """The same curves from the dataset: of each head, of all heads, and of each matrix."""
    now = dataset.sel(step=step)
    values = {loss: float(now.loss), loss.replace("loss", "total_gradient_norm"): float(now.total_gradient_norm)}
    for name, array in now.items():
        if "head" in array.dims:
            for layer in array.layer.values:
                over_heads = array.sel(layer=layer)
                values |= {
                    f"{name}/{layer}/head_{head}": float(over_heads[head]) for head in range(array.sizes["head"])
                }
                values[f"{name}/{layer}/mean"] = float(over_heads.mean())
        elif axis := {"matrix", "block"} & set(array.dims):
            places = now[axis.pop()]
            values |= {f"{name}/{place}": float(array.sel({places.name: place})) for place in places.values}
    for layer in now.layer.values:
        values[f"attention_entropy/{layer}/lowest"] = float(now.attention_entropy.sel(layer=layer).min())
        values[f"attention_largest_logit/{layer}/highest"] = float(now.attention_largest_logit.sel(layer=layer).max())
    return {name: value for name, value in values.items() if not math.isnan(value)}


def check(curves: Curves, dataset: xr.Dataset, *, loss: str) -> None:
    for step in dataset.step.values:
        wanted = expected(dataset, int(step), loss=loss)
        assert {name for name, values in curves.items() if step in values} == set(wanted)
        for name, value in wanted.items():
            np.testing.assert_allclose(curves[name][step], value, rtol=1e-6, err_msg=name)  # TensorBoard has float32
    assert {step for values in curves.values() for step in values} == set(dataset.step.values.tolist())


def events_in(folder: Path) -> Curves:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


def test_tensorboard_has_what_was_recorded(tmp_path: Path) -> None:
    dataset = watched(TensorBoard(tmp_path / "logs", heads=True))
    assert dataset.sizes["step"] == 3
    assert "stable_rank" in dataset
    check(events_in(tmp_path / "logs"), dataset, loss="loss")


def test_tensorboard_hides_what_a_resumed_training_does_again(tmp_path: Path) -> None:
    sink = TensorBoard(tmp_path)
    watched(sink)
    resumed = watched(sink, first=2, steps=2)
    losses = events_in(tmp_path)["loss"]
    assert sorted(losses) == [0, 2]  # step 4 was beyond where training resumed
    np.testing.assert_allclose(losses[2], resumed.loss.sel(step=2), rtol=1e-6)


def test_nothing_is_opened_before_the_first_record(tmp_path: Path) -> None:
    sink = TensorBoard(tmp_path / "logs")
    sink.close()
    assert not (tmp_path / "logs").exists()
    sink(RECORD)
    sink.close()
    assert "attention_entropy/a_2/mean" in events_in(tmp_path / "logs")


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Options for a run that says nothing and stays on this machine."""
    before = dict(os.environ)
    settings = wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True)
    yield {"mode": "offline", "dir": str(tmp_path), "project": "foretrain", "settings": settings}
    wandb.teardown()
    os.environ.clear()
    os.environ.update(before)


def history_in(folder: Path) -> list[dict[str, Any]]:
    """What was logged to the only run in a folder, from its file: records in the log format of LevelDB."""
    wandb.teardown()  # waits for the process that writes the file; finishing the run does not
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    data, at, parts, history = file.read_bytes(), 7, b"", []  # after a header of 7 bytes
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # the end of a block, too short for another record
            at += 32768 - at % 32768
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        parts += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            record = WandBRecord.FromString(parts)
            parts = b""
            if record.WhichOneof("record_type") == "history":
                items = record.history.item
                history.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return history


def curves_of(history: list[dict[str, Any]]) -> Curves:
    curves: Curves = {}
    for values in history:
        step = values.pop("foretrain/step")
        for name, value in values.items():
            if not name.startswith("_"):  # the clock of Weights & Biases
                curves.setdefault(name, {})[step] = value
    return curves


def test_weights_and_biases_has_what_was_recorded(tmp_path: Path, offline: dict[str, Any]) -> None:
    dataset = watched(WandB(heads=True, **offline))
    assert wandb.run is None, "the run was not finished"
    check(curves_of(history_in(tmp_path)), dataset, loss="foretrain/loss")


def test_a_run_of_someone_else_is_joined_and_goes_on(tmp_path: Path, offline: dict[str, Any]) -> None:
    with wandb.init(**offline) as run:
        sink = WandB()
        for step in (0, 1):
            run.log({"mine": 10 * step}, step=step)
            sink({"step": 50 * step, "loss": 1.0 + step})
            run.log({"later": 7 + step}, step=step)  # still the same step of this run
        sink.close()
        run.log({"mine": 20}, step=2)
    history = history_in(tmp_path)
    columns = ("mine", "later", "foretrain/step", "foretrain/loss")
    assert [tuple(map(row.get, columns)) for row in history] == [(0, 7, 0, 1.0), (10, 8, 50, 2.0), (20, *3 * (None,))]


@pytest.mark.parametrize(
    ("module", "make", "sentence"),
    [
        ("torch.utils.tensorboard", lambda: TensorBoard("logs"), "needs tensorboard; pip install tensorboard."),
        ("wandb", WandB, "needs wandb; pip install wandb."),
    ],
)
def test_a_missing_library_is_named(
    module: str, make: Callable[[], Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=sentence):
        make()
