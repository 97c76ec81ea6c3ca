"""Two processes that train one model together: with the monitor not a bit differs on either of them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from foretrain.monitor.monitor import Monitor
from foretrain.runs.training_log import read_lines

LAYERS = ["blocks.0.attention", "blocks.1.attention"]
WATCHED = ["nothing", "the wrapper", "the model inside"]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.drop = nn.Linear(16, 48), nn.Linear(16, 16), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.drop(self.out(mixed.transpose(1, 2).flatten(2)))


class Model(nn.Module):
    """Without transformers, which takes longer to load than everything else here."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)
        self.blocks = nn.ModuleList(nn.ModuleDict({"attention": Attention()}) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block["attention"](x)  # type: ignore[index]
        return self.head(x)


def train(rank: int, watched: str, folder: Path, steps: int = 5, accumulate: int = 2) -> dict[str, object]:
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    records: list[object] = []
    options = {"every": 2, "identity": True, "file": folder / f"{watched}.jsonl", "sinks": [records.append]}
    monitor = None if watched == "nothing" else Monitor(model if watched == "the wrapper" else model.module, **options)
    data, losses = torch.Generator().manual_seed(rank), []  # every process has its own batches
    for _ in range(steps):
        for part in range(accumulate):
            tokens = torch.randint(0, 50, (4, 9), generator=data)
            with model.no_sync() if part + 1 < accumulate else nullcontext():
                loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    kept = [] if monitor is None else monitor.records
    return {"losses": losses, "weights": model.module.state_dict(), "records": kept, "sent": len(records)}


def worker(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    torch.save({watched: train(rank, watched, folder) for watched in WATCHED}, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, dict[str, object]]]]:
    folder = tmp_path_factory.mktemp("ddp")
    here = Path(__file__)
    path = os.pathsep.join([str(here.parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", str(here), str(rank), str(folder)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
    return folder, [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


@pytest.mark.parametrize("watched", WATCHED[1:])
@pytest.mark.parametrize("rank", [0, 1])
def test_training_is_the_same_to_the_bit(watched: str, rank: int, trained: tuple[Path, list]) -> None:
    plain, with_monitor = trained[1][rank]["nothing"], trained[1][rank][watched]
    assert plain["losses"] == with_monitor["losses"]
    assert plain["weights"].keys() == with_monitor["weights"].keys()
    assert all(torch.equal(W, with_monitor["weights"][name]) for name, W in plain["weights"].items())
    other = trained[1][1 - rank]
    assert plain["losses"] != other["nothing"]["losses"], "both processes trained on the same batches"
    assert all(torch.equal(W, other[watched]["weights"][name]) for name, W in plain["weights"].items())


@pytest.mark.parametrize("watched", WATCHED[1:])
def test_layers_and_matrices_have_their_plain_names(watched: str, trained: tuple[Path, list]) -> None:
    for rank in (0, 1):
        for record in trained[1][rank][watched]["records"]:
            assert list(record["attention"]) == LAYERS
            assert list(record["identity"]) == LAYERS
            assert "blocks.0.attention.qkv.weight" in record["weights"]
            assert not any(name.startswith("module.") for name in record["weights"])


@pytest.mark.parametrize("watched", WATCHED[1:])
def test_every_process_measures_its_own_batches_but_only_the_first_writes(
    watched: str, trained: tuple[Path, list]
) -> None:
    folder, ranks = trained
    first, second = (result[watched]["records"] for result in ranks)
    assert [record["step"] for record in first] == [record["step"] for record in second] == [0, 2, 4]
    assert first == second
    written = read_lines(folder / f"{watched}.jsonl")
    assert [record["step"] for record in written] == [0, 2, 4]
    for line, record in zip(written, first, strict=True):
        np.testing.assert_allclose(line["loss"], record["loss"], rtol=1e-6)
    assert [result[watched]["sent"] for result in ranks] == [3, 0]


if __name__ == "__main__":
    worker(int(sys.argv[1]), Path(sys.argv[2]))
