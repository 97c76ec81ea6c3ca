"""What watching a training costs: a GPT-2-type model, measured every 50 steps, against the same training alone."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from statistics import mean, median

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import Measured
from foretrain.core.streams import torch_stream
from foretrain.core.workers import single_threaded
from foretrain.monitor.monitor import Monitor

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCAB = 4, 256, 8, 256, 8, 2048
CYCLES = 12
EVERY = 50


def measure() -> Iterator[Measured]:
    """In turn: a step of the watched model that is measured, one that is not, and a step of an unwatched copy."""
    with single_threaded():
        watched = _model()
        alone = copy.deepcopy(watched)
        monitor = Monitor(watched, every=2)
        trainings = {"watched": (watched, _optimizer(watched)), "alone": (alone, _optimizer(alone))}
        times: dict[str, list[float]] = {"measured": [], "not measured": [], "alone": []}
        _step(*trainings["alone"])  # the first step allocates memory
        for _ in range(CYCLES):
            for kind in times:
                began = time.process_time()
                _step(*trainings["alone" if kind == "alone" else "watched"])
                if kind != "alone":
                    monitor.step()
                times[kind].append(time.process_time() - began)
    plain = mean(times["alone"])
    extra = mean(times["measured"]) - plain
    detail = f"{extra:.3f} s per measured step, {plain:.3f} s per step, {CYCLES} cycles"
    share = 100 * extra / (EVERY * plain)
    yield Measured(f"Monitor every {EVERY} steps, over the training alone", share, 1, "%", True, detail)
    between = 100 * (median(times["not measured"]) / median(times["alone"]) - 1)
    yield Measured("steps that the Monitor does not measure, over the training alone", between, None, "%")


def _model() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": CONTEXT, "vocab_size": VOCAB}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-4)


def _step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    tokens = torch.randint(0, VOCAB, (BATCH, CONTEXT), generator=torch_stream("bench/monitor"))
    F.cross_entropy(model(tokens).logits.flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
