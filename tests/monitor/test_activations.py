"""The residual stream and hidden units of every block, against the same numbers from hooks of the test."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.monitor import activations
from foretrain.monitor.activations import SAMPLE, blocks_of
from foretrain.monitor.guard import LoggedErrors
from foretrain.monitor.tally import Readings
from foretrain.monitor.watch import forward_pass_of
from monitor import models

TOKENS = torch.randint(1, 50, (3, 12), generator=torch.Generator().manual_seed(1))


def readings_of(model: nn.Module, *inputs: Any, **options: Any) -> Readings:
    with forward_pass_of(model) as readings:
        model(*inputs, **options)
    return readings


def activations_of(model: nn.Module, *inputs: Any, **options: Any) -> dict[str, Any]:
    return readings_of(model, *inputs, **options).read()["activations"]


class Mlp(nn.Module):
    """A block with an activation that is a function, or a module, or a formula of its own."""

    def __init__(self, act: Callable[[Tensor], Tensor], width: int = 8) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.act = nn.LayerNorm(width), nn.Linear(width, 40), nn.Linear(40, width), act

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def relu_method(x: Tensor) -> Tensor:
    return x.relu()


ACTS: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
    "relu": lambda: F.relu,
    "relu in place": lambda: F.relu_,
    "method": lambda: relu_method,
    "nn.ReLU": nn.ReLU,
    "gelu": lambda: F.gelu,
    "nn.GELU": nn.GELU,
    "silu": lambda: F.silu,
    "nn.SiLU": nn.SiLU,
}


@pytest.mark.parametrize("act", ACTS)
def test_every_measure_of_a_block(act: str) -> None:
    torch.manual_seed(0)
    model = Stack(Mlp(ACTS[act]()), Mlp(ACTS[act]()))
    with torch.no_grad():
        model.blocks[1].up.bias[:7] = -40.0
        model.blocks[1].down.bias[2] = 50.0
    x = torch.randn(2, 5, 8)
    read = activations_of(model, x)
    assert list(read) == ["blocks.0", "blocks.1"]
    with torch.no_grad():
        for name, block in zip(read, model.blocks, strict=True):
            units = block.act(block.up(block.norm(x))).double()
            x = block(x)
            measures = read[name]
            np.testing.assert_allclose(measures["residual_norm"], x.double().square().mean().sqrt(), rtol=1e-6)
            np.testing.assert_allclose(measures["massive"], x.abs().max() / x.abs().median(), rtol=1e-6)
            bound = 0 if "relu" in act.lower() or act == "method" else 1e-3 * units.square().mean().sqrt()
            dead = (units.flatten(0, 1).abs().amax(0) <= bound).double().mean()
            np.testing.assert_allclose(measures["dead_units"], dead)
    assert read["blocks.1"]["dead_units"] >= 7 / 40
    assert read["blocks.1"]["massive"] > 10


def test_a_block_without_a_known_activation_has_no_dead_units() -> None:
    (measures,) = activations_of(Stack(Mlp(torch.tanh)), torch.randn(2, 5, 8)).values()
    assert set(measures) == {"residual_norm", "massive"}


BLOCKS = {
    "GPT-2": ["transformer.h.0", "transformer.h.1"],
    "GPT-NeoX": ["gpt_neox.layers.0", "gpt_neox.layers.1"],
    "OPT": ["model.decoder.layers.0", "model.decoder.layers.1"],
    "Llama": ["model.layers.0", "model.layers.1"],
    "Gemma": ["model.layers.0", "model.layers.1"],
    "BERT": ["bert.encoder.layer.0", "bert.encoder.layer.1"],
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_language_models(name: str) -> None:
    torch.manual_seed(0)
    model = {**models.DECODERS, **models.ENCODERS}[name]().eval()
    read = activations_of(model, input_ids=TOKENS)
    assert list(read) == BLOCKS[name]
    with torch.no_grad():
        streams = model(input_ids=TOKENS, output_hidden_states=True).hidden_states
    first = read[BLOCKS[name][0]]  # the last one may have been normalised
    np.testing.assert_allclose(first["residual_norm"], streams[1].square().mean().sqrt(), rtol=1e-5)
    assert all(0 <= measures["dead_units"] < 1 for measures in read.values())


def test_blocks_of_other_models() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    x = torch.randn(3, 5, 16)
    assert list(activations_of(nn.TransformerEncoder(layer, 2), x)) == ["layers.0", "layers.1"]
    assert list(activations_of(models.vit(), pixel_values=torch.randn(2, 3, 16, 16))) == [
        "vit.layers.0",
        "vit.layers.1",
    ]
    t5 = [f"{side}.block.{layer}" for side in ("encoder", "decoder") for layer in (0, 1)]
    assert list(activations_of(models.t5(), input_ids=TOKENS, decoder_input_ids=TOKENS)) == t5
    assert list(activations_of(models.NanoGPT(), TOKENS)) == ["blocks.0", "blocks.1"]


class Attributes(nn.Module):
    """Blocks that are in no list, with parts of one class inside of them, or with a list."""

    def __init__(self, lists: bool) -> None:
        super().__init__()
        self.embed, self.first, self.second = nn.Linear(4, 8), Nested(lists), Nested(lists)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(self.embed(x)))


class Nested(nn.Module):
    def __init__(self, lists: bool) -> None:
        super().__init__()
        self.one, self.other = Mlp(F.gelu), Mlp(F.gelu)
        if lists:
            self.parts = nn.ModuleList([self.one, self.other])
            del self.one, self.other

    def forward(self, x: Tensor) -> Tensor:
        one, other = self.parts if hasattr(self, "parts") else (self.one, self.other)
        return other(one(x))


def test_blocks_inside_of_blocks_are_left_out() -> None:
    torch.manual_seed(0)
    model, x = Attributes(lists=False), torch.randn(2, 5, 4)
    assert {"first.one", "second"} <= set(blocks_of(model))
    with torch.no_grad():
        model.second.other.up.bias[:] = -100.0
    read = activations_of(model, x)
    assert list(read) == ["first", "second"]
    assert read["second"]["dead_units"] == 0.5  # of the units of both parts


def test_blocks_of_lists_go_before_what_they_are_in() -> None:
    model = Attributes(lists=True)
    assert {"first", "first.parts.0"} <= set(blocks_of(model))
    assert list(activations_of(model, torch.randn(2, 5, 4))) == [
        f"{side}.parts.{part}" for side in ("first", "second") for part in (0, 1)
    ]


def test_a_block_that_runs_twice_has_two_records() -> None:
    block = Mlp(F.gelu)
    assert list(activations_of(Stack(block, block), torch.randn(2, 5, 8))) == ["blocks.0", "blocks.0#2"]


class Changing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) + self.second(x)


def test_parts_that_change_the_shape_are_no_blocks() -> None:
    assert "activations" not in readings_of(Changing(), torch.randn(2, 5, 8)).read()


def test_two_batches_together_give_what_one_batch_of_both_does() -> None:
    """As in a distributed training, where each process reads its own batch."""
    torch.manual_seed(0)
    model, x = Stack(Mlp(F.relu)), torch.randn(4, 6, 8)
    with torch.no_grad():
        model.blocks[0].up.bias -= 1.0  # some units are switched on by one half only
    halves = [readings_of(model, half).of("activations")["blocks.0"] for half in x.chunk(2)]
    together = Readings()
    for half in halves:
        together.add("activations", "blocks.0", half)
    read, whole = together.read()["activations"]["blocks.0"], activations_of(model, x)["blocks.0"]
    each = [activations_of(model, half)["blocks.0"]["dead_units"] for half in x.chunk(2)]
    assert 0 < whole["dead_units"] < min(each)
    assert read["dead_units"] == whole["dead_units"]
    np.testing.assert_allclose(read["residual_norm"], whole["residual_norm"], rtol=1e-6)
    np.testing.assert_allclose(read["massive"], whole["massive"], rtol=0.2)  # the median is a mean of two


def test_the_median_of_a_large_output_is_of_all_channels() -> None:
    """Half of the channels are a hundred times larger; every 16th entry would see the same channel of 16 only."""
    x = torch.rand(16 * SAMPLE // 64, 64, generator=torch.Generator().manual_seed(0)) + 1
    x[:, 1::2] *= 100
    assert abs(float((x <= activations._median(x)).double().mean()) - 0.5) < 0.02


def train(watch: bool) -> tuple[list[Tensor], list[Tensor]]:
    torch.manual_seed(0)
    model = models.NanoGPT()
    optimizer, guard = torch.optim.AdamW(model.parameters(), lr=1e-2), LoggedErrors()
    losses = []
    for _ in range(3):
        tokens = torch.randint(0, 50, (4, 9))
        if watch:
            with forward_pass_of(model, guard):
                output = model(tokens[:, :-1])
        else:
            output = model(tokens[:, :-1])
        loss = F.cross_entropy(output.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    return losses, [parameter.detach() for parameter in model.parameters()]


PLACES = (None, "_tally", "_square", "_median", "blocks_of", "kind_of", "FunctionResults")


@pytest.mark.parametrize("failing", PLACES)
def test_reading_changes_nothing_even_where_it_fails(
    failing: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain = train(watch=False)
    if failing is not None:
        monkeypatch.setattr(activations, failing, lambda *_: 1 / 0)
    with caplog.at_level(logging.WARNING, "foretrain"):
        watched = train(watch=True)
    assert all(torch.equal(a, b) for pair in zip(plain, watched, strict=True) for a, b in zip(*pair, strict=True))
    assert caplog.text.count("could not read activations (ZeroDivisionError") == (failing is not None)


def test_a_model_that_raises_leaves_nothing_behind() -> None:
    model = Stack(Mlp(F.gelu), nn.Linear(3, 3))
    with pytest.raises(RuntimeError), forward_pass_of(model):
        model(torch.randn(2, 5, 8))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.overrides._get_current_function_mode_stack() == []
