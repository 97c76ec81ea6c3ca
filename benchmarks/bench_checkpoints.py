"""Checkpoints: CPU time and memory of `foretrain analyze` on a model of GPT-2 small's size, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import Measured
from foretrain.core.streams import torch_stream

LAYERS, WIDTH, VOCABULARY, CONTEXT, HEADS = 12, 768, 50257, 1024, 12  # GPT-2 small
SECONDS, SIZES = 10, 1.2  # allowed: CPU seconds, and memory in sizes of the checkpoint
CONFIG = {"model_type": "gpt2", "n_layer": LAYERS, "n_embd": WIDTH, "n_head": HEADS, "vocab_size": VOCABULARY}

# Memory is the peak of this process minus what it held before the analysis; pages of mapped files count.
PROGRAM = """
import json, resource, sys, time
from pathlib import Path
from benchmarks.memory import peak_memory, restart_peak
from foretrain.core.workers import settle
settle()
from foretrain.checkpoints import analyze
held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
restart_peak()
started = time.process_time()
analysis = analyze(sys.argv[1], runs=sys.argv[2])
seconds = time.process_time() - started
print(json.dumps([seconds, time.process_time(), peak_memory() - held]))
"""


def measure() -> Iterator[Measured]:
    if not Path("/proc/self/clear_refs").exists():
        print("Memory is read from /proc, which this system does not have; bench_checkpoints is skipped.")
        return
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        for kind in ("random", "steep"):
            state = dict(_state(kind))
            places = Path(folder) / kind, Path(folder) / f"{kind}16"
            for place, dtype in zip(places, (torch.float32, torch.bfloat16), strict=True):
                place.mkdir()
                save_file({name: W.to(dtype) for name, W in state.items()}, place / "model.safetensors")
                (place / "config.json").write_text(json.dumps(CONFIG))
            (Path(folder) / "torch").mkdir(exist_ok=True)
            torch.save({"model": state, "model_args": CONFIG}, Path(folder) / "torch" / f"{kind}.pt")
            del state
        for name, file in (
            ("random weights, safetensors", "random/model.safetensors"),
            ("steep spectra, safetensors", "steep/model.safetensors"),
            ("steep spectra, bfloat16", "steep16/model.safetensors"),
            ("steep spectra, file of torch", "torch/steep.pt"),
        ):
            yield from _analyse(name, Path(folder) / file, Path(folder) / "runs")


def _analyse(name: str, file: Path, runs: Path) -> Iterator[Measured]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file), str(runs)], capture_output=True, text=True, check=True
    )
    seconds, with_start, memory = json.loads(done.stdout)
    size = file.stat().st_size
    yield Measured(
        f"analyze, 12 layers, {name}", seconds, SECONDS, "s", at_most=True, detail=f"{with_start:.1f} s with imports"
    )
    detail = f"{memory / 1e6:.0f} MB for a file of {size / 1e6:.0f} MB"
    yield Measured(f"memory of that, {name}", memory / size, SIZES, "sizes", at_most=True, detail=detail)


def _state(kind: str) -> Iterator[tuple[str, Tensor]]:
    """GPT-2's tensors: independent entries, or spectra that fall like k^−1.5, which need float64."""
    yield "transformer.wte.weight", _matrix(kind, "wte", VOCABULARY, WIDTH)
    yield "transformer.wpe.weight", _matrix(kind, "wpe", CONTEXT, WIDTH)
    shapes = {
        "attn.c_attn": (WIDTH, 3 * WIDTH), "attn.c_proj": (WIDTH, WIDTH),
        "mlp.c_fc": (WIDTH, 4 * WIDTH), "mlp.c_proj": (4 * WIDTH, WIDTH),
    }  # fmt: skip
    for layer in range(LAYERS):
        for part, shape in shapes.items():
            name = f"transformer.h.{layer}.{part}"
            yield f"{name}.weight", _matrix(kind, name, *shape)
            yield f"{name}.bias", torch.zeros(shape[1])
        for norm in ("ln_1", "ln_2"):
            yield f"transformer.h.{layer}.{norm}.weight", torch.ones(WIDTH)
            yield f"transformer.h.{layer}.{norm}.bias", torch.zeros(WIDTH)
    yield "transformer.ln_f.weight", torch.ones(WIDTH)
    yield "transformer.ln_f.bias", torch.zeros(WIDTH)


def _matrix(kind: str, name: str, m: int, n: int) -> Tensor:
    W = 0.02 * torch.randn(m, n, generator=torch_stream("bench/checkpoints", kind, name))
    if kind == "steep":  # the shorter side scaled by k^−1.5, and mixed by a rotation
        scale = torch.arange(1, WIDTH + 1) ** -1.5
        turn, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch_stream("bench/checkpoints", "turn")))
        W = (W * scale) @ turn if m >= n else turn @ (scale[:, None] * W)
    return W
