"""Reading attention leaves a training alone: where the reader fails, and where the model compiles itself meanwhile."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.monitor import capture, multihead, watch
from foretrain.monitor.attention_calls import Products
from foretrain.monitor.guard import LoggedErrors
from foretrain.monitor.statistics import RowSums
from foretrain.monitor.watch import forward_pass_of
from monitor import models

COMPILES_ITSELF = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
from foretrain.monitor.watch import forward_pass_of

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.act, self.down = nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)
    def forward(self, x):
        return x + self.down(self.act(self.up(torch.softmax(self.norm(x), -1))))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.compiled = nn.ModuleList([Block(), Block()]), None
    def forward(self, x):
        self.compiled = self.compiled or [torch.compile(block, backend="eager") for block in self.blocks]
        for block in self.compiled:
            x = block(x)
        return x

x, model = torch.randn(1, 2, 16, 8), Model()
assert "torch._dynamo" not in sys.modules
with forward_pass_of(model):
    first = model(x)
with forward_pass_of(model) as readings:
    assert torch.equal(model(x), first)
assert list(readings.read()["activations"]) == ["blocks.0", "blocks.1"]
assert torch.equal(model(x), first)
"""
FLEX_FIRST = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
from torch.nn.attention.flex_attention import flex_attention
from foretrain.monitor.watch import forward_pass_of

q = torch.randn(1, 2, 16, 8)
assert "torch._dynamo" not in sys.modules
with forward_pass_of(torch.nn.Identity()) as readings:
    flex_attention(q, q, q)
assert len(readings.read()["attention"][""]["entropy"]) == 2
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [COMPILES_ITSELF, FLEX_FIRST])
def test_a_model_that_loads_the_compiler_in_the_middle_of_a_pass(program: str) -> None:
    """In a process in which nothing has been compiled before."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr


def losses_of(watch: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Three steps of a model that has attention of both kinds: fused, and nn.MultiheadAttention's; with dropout."""
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.ModuleDict({"decoder": models.NanoGPT(vocab=32, fused=True), "encoder": encoder})
    optimizer, guard, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), LoggedErrors(), []
    for _ in range(3):
        tokens = torch.randint(0, 32, (4, 9))
        with forward_pass_of(model, guard) if watch else nullcontext():
            output = model["encoder"](model["decoder"](tokens))
        loss = F.cross_entropy(output.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, [parameter.detach() for parameter in model.parameters()]


PLACES = {
    "nothing": None,
    "statistics": (capture, "row_sums"),
    "kernels": (capture, "kernel_sums"),
    "arguments": (capture, "_held_here"),
    "products": (Products, "rows"),
    "multihead": (multihead, "_projected"),
    "shards": (watch, "shard_of"),
    "tallies": (RowSums, "tally"),
}


@pytest.mark.parametrize("place", PLACES)
def test_reading_changes_nothing_even_where_it_fails(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain, failing = losses_of(watch=False), PLACES[place]
    if failing is not None:
        monkeypatch.setattr(*failing, lambda *_, **__: 1 / 0)
    with caplog.at_level(logging.WARNING, "foretrain"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Attention could not be read")
        watched = losses_of(watch=True)
    assert all(torch.equal(a, b) for pair in zip(plain, watched, strict=True) for a, b in zip(*pair, strict=True))
    assert caplog.text.count("could not read attention (ZeroDivisionError") == (failing is not None)
