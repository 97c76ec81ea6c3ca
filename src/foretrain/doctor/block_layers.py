"""Two blocks of an MLP and a mixture of experts, with units that are switched off, and what must be seen in them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.core.streams import torch_stream

SAMPLES, TOKENS, WIDTH = 3, 5, 9  # an odd number of entries, so that their median is one of them
HIDDEN, OFF, EXPERTS, TAKEN = 12, 3, 4, 2


class ResidualBlock(nn.Module):
    """A block that adds an MLP and a mixture of experts to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.mixture = ExpertMixture()

    def forward(self, x: Float[Tensor, "sample token width"]) -> Float[Tensor, "sample token width"]:
        x = x + self.down(F.relu(self.up(x)))
        return x + self.mixture(x)


class ExpertMixture(nn.Module):
    """A router that sends every token to two of four experts."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(TAKEN)
        mixed = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            mixed = mixed + (weights * (chosen == index)).sum(-1, keepdim=True) * expert(x)
        return mixed


class ResidualBlocks(nn.Module):
    """Two of these blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ResidualBlock() for _ in range(2))
        draw = torch_stream("doctor", "blocks")
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=draw) / math.sqrt(WIDTH))
            for block in self.of_kind():
                block.up.bias[:OFF] = -100.0

    def of_kind(self) -> Iterator[ResidualBlock]:
        for block in self.blocks:
            assert isinstance(block, ResidualBlock)
            yield block

    def forward(self, x: Float[Tensor, "sample token width"]) -> Float[Tensor, "sample token width"]:
        for block in self.blocks:
            x = block(x)
        return x


def block_inputs() -> Float[Tensor, "sample token width"]:
    """Random vectors, the same for every device."""
    return torch.randn(SAMPLES, TOKENS, WIDTH, generator=torch_stream("doctor", "blocks", "inputs"))


@torch.no_grad()
def activations(model: ResidualBlocks, x: Tensor) -> dict[str, list[float]]:
    """For each block: size of its output, its largest entry over the median, and the share of units that are off."""
    measures: dict[str, list[float]] = {"residual_norm": [], "massive": [], "dead_units": []}
    for block in model.of_kind():
        hidden = block.up(x)
        x = block(x)
        sizes = x.abs().flatten().sort().values
        measures["residual_norm"].append(float(x.square().mean().sqrt()))
        measures["massive"].append(float(sizes[-1] / sizes[len(sizes) // 2]))
        measures["dead_units"].append(float((hidden <= 0).all(0).all(0).double().mean()))
    return measures


@torch.no_grad()
def routing(model: ResidualBlocks, x: Tensor) -> dict[str, list[float]]:
    """For each block: how unsure its router is, the load of the busiest expert, and then the load of each."""
    measures: dict[str, list[float]] = {"router_entropy": [], "busiest": [], "load": []}
    for block in model.of_kind():
        logits = block.mixture.router(x + block.down(F.relu(block.up(x))))
        shares = logits.softmax(-1)
        places = logits.argsort(-1, descending=True)[..., :TAKEN]
        load = torch.bincount(places.flatten(), minlength=EXPERTS).double() / places.numel()
        entropy = -(shares * shares.log()).sum(-1).mean() / math.log(EXPERTS)
        measures["router_entropy"].append(float(entropy))
        measures["busiest"].append(float(load.max() * EXPERTS))
        measures["load"] += load.tolist()
        x = block(x)
    return measures
