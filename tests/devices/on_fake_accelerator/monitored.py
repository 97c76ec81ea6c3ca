"""A Monitor on an accelerator: the host reads nothing at steps that are not measured, and little at those that are."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fake_accelerator import host_reads
from foretrain.monitor.monitor import Monitor
from foretrain.runs.training_log import Record

MOST_READS = 4
STEPS, EVERY = 26, 2  # thirteen measurements: effective ranks are measured at the first and the eleventh


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(x)))


def train(layers: int, device: torch.device | str, *, identity: bool = False) -> tuple[list[Record], list[list[str]]]:
    """The records, and what the host read at each step, from the forward pass to the record."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(16, 2) for _ in range(layers))).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor = Monitor(model, every=EVERY, identity=identity)
    x, reads = torch.randn(2, 6, 16).to(device), []
    for _ in range(STEPS):
        with host_reads() as of_step:
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss=loss)
        reads.append(of_step)
    monitor.detach()
    return monitor.records, reads


@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("layers", [2, 6])
def test_how_often_the_host_reads(layers: int, identity: bool, device: torch.device) -> None:
    records, reads = train(layers, device, identity=identity)
    assert [record["step"] for record in records] == list(range(0, STEPS, EVERY))
    assert [step for step, of_step in enumerate(reads) if of_step and step % EVERY] == []
    most = max(reads, key=len)
    assert len(most) <= MOST_READS, (reads.index(most), most)


def test_records_are_those_of_the_cpu(device: torch.device) -> None:
    on_device, _ = train(2, device, identity=True)
    on_cpu, _ = train(2, "cpu", identity=True)
    assert {"attention", "identity", "weights", "loss"} <= set(on_device[0])
    for mine, expected in zip(on_device, on_cpu, strict=True):
        for key in ("attention", "identity", "weights"):
            assert list(mine[key]) == list(expected[key])
            for name, measures in expected[key].items():
                for measure, value in measures.items():
                    if measure == "effective_rank" and measure not in mine[key][name]:
                        continue
                    assert mine[key][name][measure] == pytest.approx(value, rel=1e-3, abs=1e-5), (key, name, measure)
        assert math.isclose(mine["loss"], expected["loss"], rel_tol=1e-4)
