"""The accelerator itself: what it refuses, and what it counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fake_accelerator import host_reads


def on(device: torch.device, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(device)


def test_tensors_say_where_they_are(device: torch.device) -> None:
    x = on(device, 3, 4)
    zeros = torch.zeros(2, device=device)
    assert {t.device for t in (x, x.mT, x + 1, x.to(torch.float64), x.new_zeros(3), zeros)} == {device}
    assert x.cpu().device.type == "cpu"


@pytest.mark.parametrize(
    "mix",
    [
        lambda x: x + torch.ones(3, 4),
        lambda x: torch.ones(3, 4) + x,
        lambda x: x @ torch.ones(4, 2),
        lambda x: torch.cat([x, torch.ones(1, 4)]),
        lambda x: x.add_(torch.ones(4)),
        lambda x: torch.ones(3, 4).mul_(x),
        lambda x: torch.where(torch.ones(3, 4) > 0, x, 0.0),
        lambda x: torch.arange(4)[x[0].long()],
        lambda x: x.index_put((torch.arange(3),), torch.ones(3, 4)),
        lambda x: torch.mv(x, torch.ones(4), out=x.new_empty(3)),
    ],
)
def test_mixing_devices_raises(mix: Callable[[Tensor], Tensor], device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="expected all tensors on one device"):
        mix(on(device, 3, 4))


def test_what_a_real_accelerator_allows(device: torch.device) -> None:
    x = on(device, 3, 4)
    assert torch.equal((x * torch.tensor(2.0)).cpu(), 2 * x.cpu())
    assert torch.equal(x[torch.tensor([2, 0])].cpu(), x.cpu()[[2, 0]])
    x[0] = torch.arange(4.0)
    assert x[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("convert", [lambda x: x.numpy(), np.asarray])
def test_numpy_is_refused(convert: Callable[[Tensor], object], device: torch.device) -> None:
    with pytest.raises(TypeError, match=r"use \.cpu\(\) first"):
        convert(on(device, 3))


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (lambda x: x.sum().item(), 1),
        (lambda x: float(x[0]), 1),
        (lambda x: bool((x > 0).all()), 1),
        (lambda x: x.tolist(), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: torch.empty(4).copy_(x), 1),
        (lambda x: x.nonzero(), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: torch.equal(x, x), 1),
        (lambda x: torch.unique(x), 1),
        (lambda x: torch.linalg.eigvalsh(torch.outer(x, x)), 1),
        (lambda x: [float(value) for value in x], 4),
        (lambda x: torch.where(x > 0, x, 0.0).softmax(0).clamp(0, 1) + x.new_ones(4), 0),
        (lambda x: x[torch.arange(2)] + x[:2].to(torch.float64), 0),
        (lambda x: x.to(x.device).clone().to(torch.ones(1).to(x)), 0),
        (repr, 0),
    ],
)
def test_host_reads_are_counted(read: Callable[[Tensor], object], count: int, device: torch.device) -> None:
    x = on(device, 4)
    with host_reads() as reads:
        read(x)
    assert len(reads) == count, reads


def test_a_network_trains_as_on_the_cpu(device: torch.device) -> None:
    """With attention, dropout off, a fused optimizer, and not one host read."""
    losses = {}
    for place in ("cpu", device):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).to(place)
        x = torch.randn(4, 5, 8).to(place)
        optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2, fused=True)
        kept = []
        with host_reads() as reads:
            for _ in range(4):
                loss = layer(x).square().mean() + (layer(x) - x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                kept.append(loss.detach())
        assert reads == []
        losses[str(place)] = torch.stack(kept).cpu()
    cpu, on_device = losses.values()
    assert cpu[-1] < cpu[0]
    torch.testing.assert_close(on_device, cpu, rtol=1e-5, atol=1e-6)
