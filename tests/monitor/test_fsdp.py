"""Two processes that share a model's weights by FSDP's `fully_shard`: attention is read, and not a bit differs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from foretrain.monitor.monitor import Monitor
from foretrain.runs.training_log import read_lines
from monitor.test_ddp import LAYERS, Model


def train(rank: int, watched: bool, folder: Path) -> dict[str, object]:
    torch.manual_seed(0)
    model = Model()
    mesh = init_device_mesh("cpu", (2,))
    for block in model.blocks:
        fully_shard(block["attention"], mesh=mesh)  # type: ignore[index]
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor = Monitor(model, every=2, identity=True, file=folder / "run.jsonl") if watched else None
    data, losses = torch.Generator().manual_seed(rank), []
    for _ in range(5):
        tokens = torch.randint(0, 50, (4, 9), generator=data)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    weights = {name: p.to_local().clone() for name, p in model.named_parameters()}  # type: ignore[attr-defined]
    return {"losses": losses, "weights": weights, "records": [] if monitor is None else monitor.records}


def worker(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    torch.save([train(rank, watched, folder) for watched in (False, True)], folder / f"{rank}.pt")
    dist.destroy_process_group()


def test_a_sharded_training_goes_on_as_it_would_and_its_attention_is_recorded(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    errors = []
    try:
        for process in processes:
            errors.append(process.communicate(timeout=120)[1])
            assert process.returncode == 0, errors[-1]
    finally:
        for process in processes:
            process.kill()
    for rank in (0, 1):
        plain, watched = torch.load(tmp_path / f"{rank}.pt")
        assert plain["losses"] == watched["losses"]
        assert all(torch.equal(W, watched["weights"][name]) for name, W in plain["weights"].items())
        assert [record["step"] for record in watched["records"]] == [0, 2, 4]
        assert all(list(record["attention"]) == LAYERS for record in watched["records"])
        assert not any("weights" in record for record in watched["records"])
    assert len(read_lines(tmp_path / "run.jsonl")) == 3
    assert errors[0].count("matrices are spread over processes and are not measured") == 1
    assert "could not" not in "".join(errors)


if __name__ == "__main__":
    worker(int(sys.argv[1]), Path(sys.argv[2]))
