"""One training in several processes, its weights spread in every way that torch has: what tests of this folder start.

    python distributed.py FOLDER RANK PROCESSES KIND [KIND …]

Every process has its own batches; together they are the batch of `alone`, the same training in one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from foretrain.monitor.monitor import Monitor

STEPS, EVERY, BATCH, WIDTH = 5, 2, 4, 16


class Attention(nn.Module):
    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.width = WIDTH // heads

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            project(x).unflatten(-1, (-1, self.width)).transpose(1, 2) for project in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm = Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """Without transformers, which takes longer to load than everything else here."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 50)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch(step: int, rank: int) -> Tensor:
    return torch.randint(0, 50, (BATCH, 9), generator=torch.Generator().manual_seed(100 * step + rank))


def train(model: nn.Module, batches: Iterable[Tensor], monitor: Monitor | None, clip: bool = True) -> list[float]:
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False), []
    for tokens in batches:
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    return losses


def plain_model() -> Model:
    torch.manual_seed(0)
    return Model().double()  # so that only what is wrong differs


def alone(processes: int, *, clip: bool, **options: Any) -> Monitor:
    """The same training in one process."""
    model = plain_model()
    monitor = Monitor(model, every=EVERY, identity=True, **options)
    train(model, (torch.cat([batch(step, rank) for rank in range(processes)]) for step in range(STEPS)), monitor, clip)
    return monitor


def clips(kind: str) -> bool:
    """torch cannot clip sharded and whole gradients together, nor FSDP's first version in float64."""
    return not kind.startswith(("tensor parallel", "fsdp1"))


def spread(kind: str, model: Model, processes: int) -> nn.Module:
    """The model as this kind of training has it."""
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if kind.startswith("fsdp1"):
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        policy = ModuleWrapPolicy({Block})
        original = kind == "fsdp1, original parameters"
        return FullyShardedDataParallel(
            model, auto_wrap_policy=policy, use_orig_params=original, device_id=torch.device("cpu")
        )
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if kind.startswith("tensor parallel"):
        both = kind.endswith("fsdp2")
        mesh = init_device_mesh(
            "cpu",
            (2, processes // 2) if both else (processes,),
            mesh_dim_names=("data", "tensor") if both else ("tensor",),
        )
        plan = {f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")}
        plan |= {"attention.out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
        for block in model.blocks:
            parallelize_module(block, mesh["tensor"], plan)
            if both:
                fully_shard(block, mesh=mesh["data"])
        if both:
            fully_shard(model, mesh=mesh["data"])
        return model
    options: dict[str, Any] = {"mesh": init_device_mesh("cpu", (processes,))}
    if kind == "fsdp2, mixed precision":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if kind == "fsdp2, not resharded":
        options["reshard_after_forward"] = False
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model


def batches_of(kind: str, processes: int) -> int:
    """How many processes have batches of their own; those of one tensor parallel group share theirs."""
    return {"tensor parallel": 1, "tensor parallel, fsdp2": 2}.get(kind, processes)


def worker(rank: int, processes: int, kinds: list[str], folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=processes)
    if kinds == ["side by side"]:
        side_by_side(rank, folder)
        return
    for kind in kinds:
        kept = []
        share = rank * batches_of(kind, processes) // processes
        for watched in (False, True):
            model = spread(kind, plain_model(), processes)
            file = folder / f"{kind}.jsonl"
            monitor = Monitor(model, every=EVERY, identity=True, file=file) if watched else None
            losses = train(model, (batch(step, share) for step in range(STEPS)), monitor, clips(kind))
            weights = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
            kept.append({"losses": losses, "weights": [w.detach().clone() for w in weights]})
        assert monitor is not None
        torch.save([*kept, monitor.records, monitor._measurement.operations], folder / f"{kind}-{rank}.pt")
        monitor.detach()
    dist.destroy_process_group()


def side_by_side(rank: int, folder: Path) -> None:
    """Two processes train a model, and two others one whose head is ten times as large."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("model", "shard"))["shard"]
    model = plain_model()
    with torch.no_grad():
        model.head.weight *= 10 ** (rank // 2)
    fully_shard(model, mesh=mesh)
    monitor, norms = Monitor(model, every=1), []
    for step in range(3):
        model(batch(step, rank)).square().mean().backward()
        monitor.step()
        norms.append(float(model.head.weight.full_tensor().detach().norm()))  # type: ignore[operator]
    recorded = [record["weights"]["head.weight"]["norm"] for record in monitor.records]
    torch.save((norms, recorded), folder / f"side by side-{rank}.pt")
    monitor.detach()
    dist.destroy_process_group()


def start(processes: int, arguments: list[str], folder: Path, program: str = __file__) -> list[subprocess.Popen[str]]:
    path = os.pathsep.join([str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return [
        subprocess.Popen(
            [sys.executable, program, str(folder), str(rank), str(processes), *arguments],
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(processes)
    ]  # fmt: skip


def ended(running: list[subprocess.Popen[str]], seconds: float = 300) -> list[str]:
    """What they wrote to standard error, after all have ended well."""
    try:
        errors = [process.communicate(timeout=seconds)[1] for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()
    assert [process.returncode for process in running] == [0] * len(running), "\n".join(errors)
    return errors


if __name__ == "__main__":
    worker(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:], Path(sys.argv[1]))
