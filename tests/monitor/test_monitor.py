"""Training with and without the monitor is the same to the bit; what it records can be read back."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from foretrain.core.errors import DamagedFile, InputError
from foretrain.monitor.monitor import Monitor
from foretrain.runs.training_log import ending_of, read_lines, read_training
from monitor.models import NanoGPT


class WithDropout(NanoGPT):
    """Random numbers are drawn during the forward pass: a monitor that drew one would change the training."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + F.dropout(torch.ones(50), 0.1, self.training)


class Checkpointed(NanoGPT):
    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def train(
    make: Callable[[], nn.Module], *, watched: bool, steps: int = 6, accumulate: int = 1, bfloat16: bool = False
) -> tuple[list[float], list[Tensor], Monitor | None]:
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor = Monitor(model, every=2) if watched else None
    losses = []
    for _ in range(steps):
        for _ in range(accumulate):
            tokens = torch.randint(0, 50, (4, 9))
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                scores = model(tokens[:, :-1])
                loss = F.cross_entropy(scores.float().flatten(0, 1), tokens[:, 1:].flatten())
            (loss / accumulate).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    return losses, [p.detach().clone() for p in model.parameters()], monitor


CASES = {
    "a plain loop": (NanoGPT, {}),
    "fused attention": (lambda: NanoGPT(fused=True), {}),
    "dropout": (WithDropout, {}),
    "gradient accumulation": (NanoGPT, {"accumulate": 3}),
    "gradient checkpointing": (Checkpointed, {}),
    "bf16 autocast": (lambda: NanoGPT(fused=True), {"bfloat16": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_training_is_the_same_to_the_bit(case: str) -> None:
    make, options = CASES[case]
    losses, parameters, _ = train(make, watched=False, **options)
    watched_losses, watched_parameters, monitor = train(make, watched=True, **options)
    assert losses == watched_losses
    assert all(torch.equal(a, b) for a, b in zip(parameters, watched_parameters, strict=True))
    assert monitor is not None
    dataset = monitor.dataset()
    assert dict(dataset.sizes) == {"step": 3, "layer": 2, "head": 4, "matrix": 10, "block": 2}
    assert dataset.step.values.tolist() == [0, 2, 4]
    assert dataset.layer.values.tolist() == [0, 1]
    assert dataset.layer_name.values.tolist() == ["blocks.0.attention", "blocks.1.attention"]
    np.testing.assert_allclose(dataset.loss, np.array(losses)[[0, 2, 4]])
    every = monitor.every_step()
    assert every.step.values.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_allclose(every.loss, losses, rtol=1e-6)
    assert bool((every.total_gradient_norm > 0).all())
    entropy = dataset.attention_entropy
    assert bool(((entropy > 0) & (entropy < np.log(8))).all())
    assert entropy.attrs["units"] == "nats"


def test_only_the_first_training_pass_of_a_due_step_is_read() -> None:
    model = NanoGPT()
    monitor = Monitor(model, every=2)
    tokens = torch.randint(0, 50, (2, 6))
    model.eval()
    model(tokens)  # an evaluation before the first step
    model.train()
    with torch.no_grad():
        model(tokens)  # nor a pass without gradients
    assert monitor.due
    model(tokens)
    assert not monitor.due
    monitor.step()
    model(tokens)
    monitor.step()  # step 1 is not due
    assert [record["step"] for record in monitor.records] == [0]


def test_it_detaches_and_lets_go() -> None:
    model = NanoGPT()
    before = (dict(model._forward_hooks), dict(model._forward_pre_hooks))
    with Monitor(model) as monitor:
        model(torch.zeros(1, 3, dtype=torch.long))
        monitor.step()
    assert (dict(model._forward_hooks), dict(model._forward_pre_hooks)) == before
    assert all(not module._forward_hooks for module in model.modules())
    Monitor(model)  # dropped at once: its hooks do nothing
    gc.collect()
    model(torch.zeros(1, 3, dtype=torch.long))


def test_a_copy_of_the_model_is_not_watched_and_can_be_saved() -> None:
    model = NanoGPT()
    monitor = Monitor(model)
    clone = copy.deepcopy(model)
    clone(torch.zeros(1, 3, dtype=torch.long))
    assert monitor.due
    torch.save(model, io.BytesIO())
    model(torch.zeros(1, 3, dtype=torch.long))
    monitor.step()
    assert len(monitor.records) == 1


def test_a_pass_that_raises_leaves_nothing_behind() -> None:
    model = NanoGPT()
    monitor = Monitor(model)
    with pytest.raises(IndexError):
        model(torch.full((1, 3), 99))
    assert all(not module._forward_hooks for module in model.blocks.modules())
    assert monitor.due
    model(torch.zeros(1, 3, dtype=torch.long))  # the next pass is read instead
    monitor.step()
    assert len(monitor.records) == 1


def run(file: Path, steps: int, **options: Any) -> Monitor:
    torch.manual_seed(1)
    model = NanoGPT()
    monitor = Monitor(model, every=2, file=file, **options)
    while monitor.steps < steps:
        loss = model(torch.randint(0, 50, (2, 6))).square().mean()
        monitor.step(loss=loss)
    return monitor


def test_a_resumed_run_continues_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "run.jsonl"
    killed = run(file, 5)
    with file.open("ab") as stream:
        stream.write(b'{"step": 6, "loss": 1.')  # a line torn by a killed process
    assert [record["step"] for record in read_lines(file)] == [0, 2, 4]
    monitor = run(file, 9, resume=True)
    assert monitor.dataset().step.values.tolist() == [0, 2, 4, 6, 8]
    assert [json.loads(line)["step"] for line in file.read_text().splitlines()] == [0, 2, 4, 6, 8]
    del killed


def test_a_training_that_was_let_go_of_is_finished(tmp_path: Path) -> None:
    """As where a script ends, or a cell of a notebook is run again, without a line of the user's."""
    file = tmp_path / "run.jsonl"
    monitor = run(file, 5)
    assert not read_training(file)[1]
    assert ending_of(file)["process"] == {"host": socket.gethostname(), "number": os.getpid()}
    del monitor
    gc.collect()
    assert read_training(file)[1]
    assert ending_of(file) == {"finished": 5}


@pytest.mark.parametrize(
    ("ending", "line"),
    [("", {"finished": 1}), ("raise ValueError('no')", {"stopped": 1, "error": "ValueError: no"}),
     ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", None)],
)  # fmt: skip
def test_a_process_says_in_its_file_how_it_ended(ending: str, line: dict[str, Any] | None, tmp_path: Path) -> None:
    program = f"""
import torch, foretrain
model = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
monitor = foretrain.Monitor(model, every=1, file="run.jsonl")
model(torch.randn(2, 3, 8)).sum().backward()
monitor.step()
{ending}
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Exception ignored" not in done.stderr
    last = ending_of(tmp_path / "run.jsonl")
    if line is None:
        assert set(last) == {"process"}
    else:
        assert last == line


def test_damage_within_a_file_is_named_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    run(file, 5)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:30], lines[2]]) + "\n")
    with pytest.raises(DamagedFile, match="line 2 is damaged"):
        read_lines(file)
    with pytest.raises(InputError, match="every must be a whole number"):
        Monitor(NanoGPT(), every=0)


def test_a_training_that_goes_back_drops_what_came_after(tmp_path: Path) -> None:
    run(tmp_path / "run.jsonl", 9)
    model = NanoGPT()
    again = Monitor(model, every=2, file=tmp_path / "run.jsonl", start=4)  # back to a checkpoint
    model(torch.zeros(1, 3, dtype=torch.long))
    again.step(loss=7.0)
    assert again.dataset().step.values.tolist() == [0, 2, 4]
    assert read_lines(tmp_path / "run.jsonl")[-1]["loss"] == 7.0


def test_a_pass_stopped_by_ctrl_c_is_closed_by_the_next_one() -> None:
    class Interrupted(NanoGPT):
        interrupt = True

        def forward(self, tokens: Tensor) -> Tensor:
            result = super().forward(tokens)
            if self.interrupt:
                raise KeyboardInterrupt
            return result

    model = Interrupted()
    monitor = Monitor(model, every=1)
    with pytest.raises(KeyboardInterrupt):
        model(torch.zeros(1, 3, dtype=torch.long))
    model.interrupt = False
    model(torch.zeros(1, 3, dtype=torch.long))
    monitor.step()
    assert len(monitor.records) == 1
    assert all(not module._forward_hooks for module in model.blocks.modules())
    assert torch.overrides._get_current_function_mode_stack() == []


def test_only_a_training_that_ends_well_is_finished(tmp_path: Path) -> None:
    for name, ending in (("well", None), ("badly", RuntimeError)):
        model, file = NanoGPT(), tmp_path / name
        with contextlib.suppress(RuntimeError), Monitor(model, every=1, file=file) as monitor:
            model(torch.zeros(1, 3, dtype=torch.long))
            monitor.step()
            if ending is not None:
                raise ending
        assert read_training(file)[1] == (name == "well")


@pytest.mark.parametrize("ended", [True, False])
def test_a_second_training_never_joins_the_first_one_s_file(
    ended: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "run.jsonl"
    first = run(file, 5)
    if ended:
        first.detach()
    before = file.read_bytes()
    second, third = run(file, 3), run(file, 3)
    assert [monitor.file.name for monitor in (second, third)] == ["run-2.jsonl", "run-3.jsonl"]
    assert file.read_bytes() == before
    for monitor in (second, third):
        assert [record["step"] for record in read_lines(monitor.file)] == [0, 2]
    assert [message for *_, message in caplog.record_tuples] == [
        f"{file} holds another training, so this one is written to run-{number}.jsonl. To go on with the other one, "
        "give resume=True."
        for number in (2, 3)
    ]
    assert Monitor(NanoGPT(), file=file, resume=True).steps == 5
    assert Monitor(NanoGPT(), file=file, start=2).file == file
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        Monitor(NanoGPT(), file=tmp_path)


def test_a_file_in_which_nothing_was_recorded_is_used(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    Monitor(NanoGPT(), file=file)  # killed before its first step
    assert Monitor(NanoGPT(), file=file).file == file


@pytest.mark.parametrize("why", ["evaluation", "no gradients", "meta", "raises", "not called", "never called"])
def test_nothing_is_measured_without_a_word(why: str) -> None:
    words = {
        "evaluation": r"evaluation mode; call model.train\(\)",
        "no gradients": r"under torch.no_grad\(\) only",
        "meta": "on the meta device",
        "raises": "at step 0, because the model raised an error",
        "not called": "at step 1, because the model was not called in it",
        "never called": "did not see the model being called",
    }
    model, tokens = NanoGPT(fused=True), torch.zeros(1, 3, dtype=torch.long)
    monitor = Monitor(model, every=1)
    if why == "evaluation":
        model.eval()
    elif why == "meta":
        model, tokens = model.to("meta"), tokens.to("meta")
    if why == "raises":
        with pytest.raises(IndexError):
            model(tokens + 99)
    elif why == "no gradients":
        with torch.no_grad():
            model(tokens)
    elif why != "never called":
        model(tokens)
    if why == "not called":
        monitor.step()
    with pytest.warns(UserWarning, match=words[why]):
        monitor.step()
    monitor.step()  # said once
    assert len(monitor.records) == (1 if why == "not called" else 0)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("loss", ["hi", torch.ones(3), [1.0]])
def test_a_loss_that_is_no_number_is_named_and_stops_nothing(loss: object) -> None:
    model = NanoGPT()
    monitor = Monitor(model, every=1)
    for _ in range(2):
        model(torch.zeros(1, 3, dtype=torch.long))
        with (
            pytest.warns(UserWarning, match="loss must be a single number; got") if not monitor.steps else nullcontext()
        ):
            monitor.step(loss=loss)
    assert [record["step"] for record in monitor.records] == [0, 1]
    assert not any("loss" in record for record in monitor.records)


@pytest.mark.usefixtures("as_users_run_it")
def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InputError, match="Monitor takes a torch module; got a str"):
        Monitor("gpt2")
    with pytest.raises(InputError, match="sinks must be a list of functions"):
        Monitor(NanoGPT(), sinks="board")
    with pytest.raises(InputError, match="on_alarm must be a function; got 3"):
        Monitor(NanoGPT(), on_alarm=3)
    with pytest.raises(InputError, match="total must be a whole number of at least 1; got '100'"):
        Monitor(NanoGPT(), total="100")
    with pytest.raises(InputError, match="file must be a path; got 3"):
        Monitor(NanoGPT(), file=3)


def test_two_monitors_never_share_a_file(tmp_path: Path) -> None:
    """As a GAN has them, or two processes that begin together: neither has a record when the other one begins."""
    file = tmp_path / "run.jsonl"
    first = Monitor(NanoGPT(), file=file)
    second = Monitor(NanoGPT(), file=file)
    assert [monitor.file.name for monitor in (first, second)] == ["run.jsonl", "run-2.jsonl"]
    del first
    gc.collect()
    assert Monitor(NanoGPT(), file=file).file == file  # nothing was recorded in it


def test_the_last_steps_are_kept_too(tmp_path: Path) -> None:
    """Those between the last record and the end: where a training fails, they are the ones that matter."""
    model, file = NanoGPT(), tmp_path / "run.jsonl"
    with contextlib.suppress(RuntimeError), Monitor(model, every=4, file=file) as monitor:
        for step in range(7):
            model(torch.zeros(1, 3, dtype=torch.long)).sum().backward()
            monitor.step(loss=float(step), gradient_norm=2.0 * step)
        raise RuntimeError("out of memory")
    assert monitor.every_step().loss.values.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    last = ending_of(file)
    assert (last["stopped"], last["error"]) == (7, "RuntimeError: out of memory")
    assert last["every_step"] == {"first": 5, "loss": [5.0, 6.0], "gradient_norm": [10.0, 12.0]}


def test_alarms_of_one_kind_call_the_function_once() -> None:
    alarms: list[Any] = []
    model = NanoGPT()
    monitor = Monitor(model, every=1, on_alarm=alarms.append)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(torch.nan)
    model(torch.zeros(1, 3, dtype=torch.long))
    monitor.step(loss=1.0)
    assert [alarm.kind for alarm in alarms] == ["not a number"]
    assert re.search(r"; also in \d+ other places\.$", str(alarms[0]))
    assert len(monitor.alarms) > 5


def test_a_loss_that_is_never_a_number_is_an_alarm() -> None:
    model = NanoGPT()
    monitor = Monitor(model, every=1)
    model(torch.zeros(1, 3, dtype=torch.long))
    monitor.step(loss=float("nan"))
    assert [str(alarm) for alarm in monitor.alarms] == ["not a number in loss at step 0: it is not a number."]
