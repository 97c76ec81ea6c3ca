"""Heads and units of one process in their places among those of all; a process group of torch's that sends nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.nn import functional as F
from torch.testing._internal.distributed.fake_pg import FakeStore

from foretrain.monitor.shards import WHOLE, local_part, shard_along, shard_of
from foretrain.monitor.shards import Shard as Part
from foretrain.monitor.watch import forward_pass_of

RANK, PROCESSES = 5, 8


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """This is the sixth of eight processes."""
    dist.init_process_group("fake", store=FakeStore(), rank=RANK, world_size=PROCESSES)
    yield
    dist.destroy_process_group()


def spread(tensor: Tensor, *placements: Shard | Replicate | Partial) -> DTensor:
    """A tensor of which this is the local part, over a mesh of 8, or of 2 times 4, where this process is at (1, 1)."""
    mesh = init_device_mesh("cpu", (8,) if len(placements) == 1 else (2, 4))
    return DTensor.from_local(tensor, mesh, placements, run_check=False)


def layer(weight: Tensor) -> nn.Linear:
    linear = nn.Linear(1, 1, bias=False)
    linear.weight = nn.Parameter(weight)
    return linear


def test_which_part_of_a_tensor_is_here() -> None:
    local = torch.ones(4, 6)
    assert shard_along(local, 0) == WHOLE
    assert shard_along(spread(local, Shard(0)), 0) == Part(5, 8)
    assert shard_along(spread(local, Shard(0)), 1) == WHOLE
    assert shard_along(spread(local, Replicate(), Shard(0)), 0) == Part(1, 4)
    assert shard_along(spread(local, Shard(0), Shard(0)), 0) == Part(5, 8)
    assert torch.equal(local_part(spread(local, Shard(0))), local)
    with pytest.raises(ValueError, match="still to be added"):
        local_part(spread(local, Partial()))


def test_how_the_matrices_of_a_module_are_cut() -> None:
    local = torch.ones(4, 6)
    attention = nn.ModuleDict({"query": layer(spread(local, Shard(0))), "out": layer(spread(local, Shard(1)))})
    assert shard_of(attention) == Part(5, 8)
    assert shard_of(nn.ModuleDict({"out": layer(spread(local, Shard(1)))})) == WHOLE
    assert shard_of(nn.ModuleDict({"out": layer(local)})) == WHOLE
    assert shard_of(nn.ModuleDict({"inner": attention})) == WHOLE  # children of children belong to something else


def test_what_fully_shard_does_to_a_child_of_its_own_is_not_about_heads() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    fully_shard(model[0], mesh=init_device_mesh("cpu", (8,)))
    assert shard_along(model[0].weight, 0) == Part(5, 8)
    assert shard_of(model) == WHOLE


class Heads(nn.Module):
    """Two of the heads of an attention layer, and six hidden units, as tensor parallelism leaves them to a process."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.up = (layer(spread(torch.randn(size, 4), Shard(0))) for size in (8, 6))
        self.norm = nn.LayerNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        q = (x @ self.query.weight.to_local().mT).unflatten(-1, (2, 4)).transpose(1, 2)  # type: ignore[operator]
        F.scaled_dot_product_attention(q, q, q)
        F.relu(self.norm(x) @ self.up.weight.to_local().mT)  # type: ignore[operator]
        return x


def test_heads_and_units_are_put_in_their_places() -> None:
    torch.manual_seed(0)
    model = nn.ModuleList([Heads()])
    with forward_pass_of(model) as readings:
        model[0](torch.randn(2, 3, 4))
    attention, activations = (readings.of(part)["0"] for part in ("attention", "activations"))
    assert attention.sums["rows"].shape == (4, 16)
    assert attention.sums["rows"].any(0).nonzero().flatten().tolist() == [10, 11]
    assert attention.largest["logit"].isfinite().nonzero().flatten().tolist() == [10, 11]
    (units,) = (value for name, value in activations.largest.items() if name != "top")
    assert units.shape == (48,)
    assert set(units.nonzero().flatten().tolist()) <= set(range(30, 36)) != set()
    finished = readings.read()["attention"]["0"]
    assert np.isfinite(finished["entropy"]).tolist() == [head in (10, 11) for head in range(16)]


@pytest.mark.parametrize(
    ("placement", "rows"),
    [(Shard(1), [0.0] * 10 + [6.0] * 2 + [0.0] * 4), (Shard(0), [6.0, 6.0]), (Replicate(), [6.0, 6.0])],
)
def test_logits_that_are_spread_over_processes(placement: Shard | Replicate, rows: list[float]) -> None:
    logits = torch.randn(2, 2, 3, 3)
    with forward_pass_of(nn.Identity()) as readings:
        torch.softmax(spread(logits, placement), -1)
    with forward_pass_of(nn.Identity()) as here:
        torch.softmax(logits, -1)
    tally, local = readings.of("attention")[""], here.of("attention")[""]
    assert tally.sums["rows"][0].tolist() == rows
    kept = slice(10, 12) if placement == Shard(1) else slice(None)
    assert torch.equal(tally.sums["totals"][:, kept], local.sums["totals"])


def test_queries_that_are_spread_by_position_are_refused() -> None:
    with pytest.raises(ValueError, match="spread over processes by position"), forward_pass_of(nn.Identity()):
        torch.softmax(spread(torch.randn(2, 2, 3, 24), Shard(2)), -1)
