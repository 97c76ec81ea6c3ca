"""A compiled model is read eagerly at the measured step, and its compiled code is left as it is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.decorators import skip
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn import functional as F

from foretrain.monitor.compiled import AroundCompiledCall, eager_step, inside_compiled_code
from foretrain.monitor.monitor import Monitor
from foretrain.monitor.watch import attention_of
from foretrain.monitor.wrappers import parameters_of, plain_name, unwrapped
from monitor.models import NanoGPT

TOKENS = torch.randint(0, 50, (4, 9), generator=torch.Generator().manual_seed(2))
# torch's compiler looks at this attribute itself, and hides the warning unless warnings are errors
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf Tensor:UserWarning")
LAYERS = ["blocks.0.attention", "blocks.1.attention"]


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()
    counters.clear()


def train(model: nn.Module, monitor: Monitor | None, *, steps: int = 7, accumulate: int = 1) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        for part in range(accumulate):
            tokens = (TOKENS + step + part) % 50
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    return losses


def wrapped(model: NanoGPT, **options: Any) -> nn.Module:
    return torch.compile(model, **options)  # type: ignore[return-value]


def in_place(model: NanoGPT, **options: Any) -> nn.Module:
    model.compile(**options)
    return model


def blocks_in_place(model: NanoGPT, **options: Any) -> nn.Module:
    for block in model.blocks:
        block.compile(**options)
    return model


def blocks_wrapped(model: NanoGPT, **options: Any) -> nn.Module:
    for index, block in enumerate(model.blocks):
        model.blocks[index] = torch.compile(block, **options)  # type: ignore[assignment]
    return model


WAYS: list[Callable[..., nn.Module]] = [wrapped, in_place, blocks_in_place, blocks_wrapped]


@pytest.mark.parametrize(
    ("compiled", "backend", "accumulate"),
    [
        *((way, "eager", 1) for way in WAYS),
        (wrapped, "eager", 2),
        (wrapped, "aot_eager", 1),
        (in_place, "aot_eager", 2),
    ],
)
def test_it_is_compiled_once_and_trains_the_same(
    compiled: Callable[..., nn.Module], backend: str, accumulate: int
) -> None:
    """Both backends keep the order of arithmetic, so that not a bit may differ."""
    results, frames = [], []
    for watched in (False, True):
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        counter = CompileCounterWithBackend(backend)
        model = compiled(NanoGPT(fused=True), backend=counter)
        monitor = Monitor(model, every=3) if watched else None
        results.append(train(model, monitor, accumulate=accumulate))
        frames.append((counter.frame_count, counter.op_count))
        assert not counters["graph_break"]
        if monitor is not None:
            monitor.detach()
            dataset = monitor.dataset()
    assert results[0] == results[1]
    assert frames[0] == frames[1], "the monitor made the model compile again"
    assert frames[0][0] == 1
    assert dataset.step.values.tolist() == [0, 3, 6]
    assert dataset.layer_name.values.tolist() == LAYERS
    assert "blocks.0.attention.qkv.weight" in dataset.matrix.values
    torch.manual_seed(0)
    plain = Monitor(model := NanoGPT(fused=True), every=3)
    train(model, plain, accumulate=accumulate)
    np.testing.assert_allclose(dataset.attention_entropy, plain.dataset().attention_entropy, rtol=1e-6)


@pytest.mark.parametrize("compiled", [wrapped, in_place])
def test_a_monitor_of_what_is_inside_compiled_code_says_so_and_breaks_nothing(
    compiled: Callable[..., nn.Module],
) -> None:
    counter = CompileCounterWithBackend("eager")
    monitor = Monitor(model := NanoGPT(fused=True), every=3)
    net = compiled(model, backend=counter)
    with pytest.warns(UserWarning, match="what torch.compile returns"):
        train(net, monitor)
    assert monitor.records == []
    assert counter.frame_count == 1
    assert not counters["graph_break"]


def test_a_model_that_was_compiled_in_place_is_left_as_it_was() -> None:
    model = NanoGPT()
    model.compile(backend="eager")
    compiled = model._compiled_call_impl
    first, second = Monitor(model), Monitor(model)
    assert model._compiled_call_impl is not compiled
    second.detach()
    first.detach()
    assert model._compiled_call_impl is compiled
    dropped = weakref.ref(Monitor(model))
    gc.collect()
    assert dropped() is None
    model(TOKENS)  # what the dropped monitor left behind does nothing


def test_what_is_put_around_a_compiled_call_is_called_also_when_it_is_interrupted() -> None:
    class Interrupted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyboardInterrupt

    calls: list[str] = []
    model = Interrupted()
    model.compile(backend="eager")
    handle = AroundCompiledCall(model, lambda *_: calls.append("before"), lambda *_: calls.append("after"))
    with pytest.raises(KeyboardInterrupt), eager_step():
        model(TOKENS)
    assert calls == ["before", "after"]
    handle.remove()
    with pytest.raises(KeyboardInterrupt), eager_step():
        model(TOKENS)
    assert calls == ["before", "after"]


def test_without_attention_measured_steps_run_the_compiled_graph() -> None:
    """Not a single step is eager: the model is called by its compiled code alone."""
    eager = 0

    class Counting(NanoGPT):
        def forward(self, tokens: Tensor) -> Tensor:
            nonlocal eager
            if not torch.compiler.is_compiling():
                eager += 1
            return super().forward(tokens)

    torch.manual_seed(0)
    counter = CompileCounterWithBackend("eager")
    model = wrapped(Counting(fused=True), backend=counter)
    monitor = Monitor(model, every=2, attention=False)
    train(model, monitor)
    assert (counter.frame_count, eager) == (1, 0)
    assert [sorted(record) for record in monitor.records] == [
        ["every_step", "gradient_norm", "loss", "step", "weights"]
    ] * 4


def test_attention_of_a_compiled_model_in_evaluation() -> None:
    model = NanoGPT(fused=True).eval()
    net = wrapped(model, backend="eager")
    with attention_of(model) as expected:
        model(TOKENS)
    net(TOKENS)
    with attention_of(net) as read:
        net(TOKENS)
    assert list(read) == LAYERS
    assert all(torch.equal(read[name], expected[name]) for name in LAYERS)


def test_names_are_those_of_the_model_inside_all_wrappers() -> None:
    model = NanoGPT()
    names = [name for name, _ in model.named_parameters()]
    for index, block in enumerate(model.blocks):
        model.blocks[index] = checkpoint_wrapper(block)
    wrapper = nn.DataParallel(wrapped(model, backend="eager"))
    assert unwrapped(wrapper) is model
    assert list(parameters_of(wrapper)) == names
    with attention_of(wrapper) as read:
        wrapper(TOKENS)
    assert list(read) == LAYERS
    assert plain_name("_fsdp_wrapped_module.blocks.0._fsdp_wrapped_module.module") == "blocks.0.module"


def test_eager_step_restores_the_stance_that_was_set() -> None:
    counter = CompileCounterWithBackend("eager")
    function = torch.compile(lambda x: x + 1, backend=counter)
    with eager_step():
        function(torch.ones(2))
    assert counter.frame_count == 0
    with torch.compiler.set_stance("fail_on_recompile"):
        with eager_step():
            function(torch.ones(2))
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            function(torch.ones(2))


def test_it_is_known_when_compiled_code_runs() -> None:
    found: list[bool] = []

    @skip  # not compiled itself, but called by compiled code
    def look() -> None:
        found.append(inside_compiled_code())

    def function(x: Tensor) -> Tensor:
        look()
        return x + (1 if inside_compiled_code() else 0)

    look()
    assert torch.compile(function, backend="eager")(torch.zeros(1)).item() == 1
    with eager_step():
        assert torch.compile(function, backend="eager")(torch.zeros(1)).item() == 0
    assert found == [False, True, False]
