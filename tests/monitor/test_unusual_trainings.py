"""Trainings that do what most do not: the monitor changes nothing there either, and leaves nothing behind."""

from __future__ import annotations

import io
import threading
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from foretrain.monitor.monitor import Monitor
from monitor.models import NanoGPT

KEPT = {torch.ops.aten.bmm.default, torch.ops.aten.mm.default, torch.ops.aten.addmm.default}


def policy(_: object, function: object, *args: object, **kwargs: object) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if function in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


class Selective(NanoGPT):
    """Keeps the products of its blocks and computes everything else again in the backward pass."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            contexts = partial(create_selective_checkpoint_contexts, policy)
            x = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
        return self.head(x)


def train(model: nn.Module, monitor: Monitor | None, steps: int = 4) -> list[float]:
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for step in range(steps):
        tokens = torch.randint(0, 50, (4, 9), generator=torch.Generator().manual_seed(step))
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    return losses


def test_selective_checkpointing_keeps_the_model_s_own_products() -> None:
    """What the monitor computes must not be taken for what the model has computed."""
    losses = []
    for watched in (False, True):
        torch.manual_seed(0)
        model = Selective()
        monitor = Monitor(model, every=1) if watched else None
        losses.append(train(model, monitor))
    assert losses[0] == losses[1]
    assert monitor is not None
    assert all("attention" in record for record in monitor.records)


def test_another_thread_may_call_the_model() -> None:
    torch.manual_seed(0)
    model, entered, left = NanoGPT(), threading.Event(), threading.Event()
    monitor = Monitor(model, every=1)

    def act() -> None:
        entered.wait()
        with torch.no_grad():
            model(torch.zeros(1, 4, dtype=torch.long))
        left.set()

    def meanwhile(*_: object) -> None:
        if threading.current_thread() is not actor:
            entered.set()
            assert left.wait(60)

    actor = threading.Thread(target=act)
    handle = model.blocks[1].register_forward_pre_hook(meanwhile)
    actor.start()
    model(torch.zeros(2, 8, dtype=torch.long)).sum().backward()  # the other thread's pass lies within this one
    monitor.step()
    actor.join()
    handle.remove()
    assert torch.overrides._get_current_function_mode_stack() == []
    assert list(monitor.records[0]["attention"]) == ["blocks.0.attention", "blocks.1.attention"]
    assert list(monitor.records[0]["activations"]) == ["blocks.0", "blocks.1"]


def test_a_parameter_that_the_model_returns_keeps_no_hooks() -> None:
    class Returning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line, self.scale = nn.Linear(3, 3), nn.Parameter(torch.zeros(3))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.line(x), self.scale

    model = Returning()
    monitor = Monitor(model, every=10, attention=False)
    for _ in range(5):
        y, scale = model(torch.ones(2, 3))
        (y.sum() + scale.sum()).backward()
        monitor.step()
    assert not model.scale._backward_hooks
    assert "gradient_norm" in monitor.records[0]


def test_a_saved_model_does_not_need_foretrain() -> None:
    model, file = NanoGPT(), io.BytesIO()
    Monitor(model)
    torch.save(model, file)
    assert b"foretrain" not in file.getvalue()
    file.seek(0)
    torch.load(file, weights_only=False)(torch.zeros(1, 3, dtype=torch.long))


def test_an_output_can_be_saved_without_a_warning() -> None:
    model = NanoGPT()
    monitor = Monitor(model, every=1)
    torch.save(model(torch.zeros(1, 3, dtype=torch.long)), io.BytesIO())
    assert monitor.due is False


@pytest.mark.parametrize("vocabulary", [50, 3000])
def test_gradient_norms_between_records_are_near_the_true_ones(vocabulary: int) -> None:
    """Also where most of the weights are a table of tokens, most of whose gradient is zero."""
    torch.manual_seed(0)
    model, norms = NanoGPT(vocab=vocabulary, width=64), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    monitor = Monitor(model, every=10)
    for step in range(21):
        tokens = torch.randint(0, vocabulary, (4, 17))
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        (loss * (1 + step % 3)).backward()  # so that norms differ
        gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        norms.append(float(gradients.double().norm()))
        optimizer.step()
        optimizer.zero_grad()
        monitor.step(loss=loss)
    kept = monitor.every_step().total_gradient_norm.values
    np.testing.assert_allclose(kept[::10], norms[::10], rtol=1e-5)
    np.testing.assert_allclose(kept, norms, rtol=0.3)
    assert np.corrcoef(kept, norms)[0, 1] > 0.95


def test_a_model_without_attention_or_matrices_keeps_its_losses() -> None:
    model = nn.Conv1d(1, 2, 3)
    monitor = Monitor(model, every=2, attention=False)
    for step in range(4):
        model(torch.ones(1, 1, 5)).sum().backward()
        monitor.step(loss=float("nan") if step > 2 else 1.0)
    assert monitor.every_step().loss.values[:3].tolist() == [1.0, 1.0, 1.0]
    assert [record["step"] for record in monitor.records] == [0, 2]
