"""The transformer kernel of majority-5, exact by equality pattern, against sampling every pair.

No library computes it. neural-tangents has no closed form for softmax attention with 1/√d scaling; what it offers
instead, keys tied to queries with 1/d scaling, has attention that does not vary between heads. If it is installed, in
this Python or in the one that NEURAL_TANGENTS_PYTHON names, we ask it anyway, and race it where it does have a kernel:
a ReLU layer on one-hot tokens. (It needs jax and tensorflow, which this environment does not have. Version 0.6.5 runs
with jax 0.4.34 and tf2jax 0.3.6, not with jax 0.10.)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import Measured, cpu_seconds
from foretrain.data.template_examples import majority
from foretrain.kernels import attention, quadrature
from foretrain.kernels.architectures import mlp_kernel
from foretrain.kernels.attention import attention_kernel, transformer_matrix
from foretrain.kernels.sampling import monte_carlo, quasi_monte_carlo

SETTING: dict[str, Any] = {"beta": 1.0, "gamma": 1.0}
ERROR = 1e-6
SAMPLES = 1000
SAID = (
    "NotImplementedError: No known closed form expression for square root scaling and AttentionMechanism.SOFTMAX "
    "attention mechanism."
)
LOG2_POINTS = 17  # in each of two randomisations


def measure() -> Iterator[Measured]:
    seconds, matrix = _cold()
    detail = f"{SAMPLES * (SAMPLES + 1) // 2} pairs, {matrix.patterns} patterns"
    yield Measured("K_trans, majority-5, n = 1000, 1e-6", seconds, 30, "s", at_most=True, detail=detail)
    yield Measured(
        "kernel evaluations, patterns up to order of positions and exchange",
        matrix.evaluations,
        42,
        "",
        at_most=True,
        detail=f"{matrix.sampled} of them sampled",
    )
    yield from _over_sampling(seconds, matrix.evaluations)
    yield _growth()
    yield from _beside_neural_tangents()


@lru_cache(maxsize=4)
def _strings(n: int) -> list[list[int]]:
    return majority(5).with_cls().sample(n, 1).tokens.tolist()


def _cold() -> tuple[float, attention.KernelMatrix]:
    """CPU seconds with empty caches, and the kernel matrix."""
    attention._evaluate.cache_clear()
    attention._parts.cache_clear()
    quadrature.grid.cache_clear()
    strings = _strings(SAMPLES)
    started = time.process_time()
    matrix = transformer_matrix(strings, strings, tolerance=ERROR, **SETTING)
    return time.process_time() - started, matrix


def _over_sampling(ours: float, patterns: int) -> Iterator[Measured]:
    """Time to sample pair by pair to an error of 1e-6, if errors fall like 1/points (Sobol) or 1/√points (plain)."""
    draw = np.random.default_rng(3)
    pairs = [draw.choice(SAMPLES, size=2, replace=False).tolist() for _ in range(6)]
    strings = _strings(SAMPLES)
    sobol, plain = [], []
    for i, j in pairs:
        x, y = strings[i], strings[j]
        exact = attention_kernel(x, y, **SETTING)
        started = time.process_time()
        value, _ = quasi_monte_carlo(x, y, log2_points=LOG2_POINTS, randomisations=2, **SETTING)
        sobol.append((time.process_time() - started) * max(1.0, abs(value - exact) / ERROR))
        started = time.process_time()
        _, error = monte_carlo(x, y, points=1 << 16, **SETTING)
        plain.append((time.process_time() - started) * (error / ERROR) ** 2)
    count = SAMPLES * (SAMPLES + 1) / 2
    for name, times, required in (("scrambled Sobol", sobol, 1000), ("plain Monte Carlo", plain, 1000)):
        detail = f"{ours:.2f} s against {median(times):.3g} s for each of {count:.0f} pairs"
        yield Measured(f"over {name} at 1e-6, per pair", median(times) * count / ours, required, detail=detail)
    detail = f"the same, if Sobol too computed each of the {patterns} patterns once"
    yield Measured("over scrambled Sobol at 1e-6, per pattern", median(sobol) * patterns / ours, 10, detail=detail)


def _growth() -> Measured:
    """Time for four times the samples, once the patterns are known."""

    def run(n: int) -> float:
        strings = _strings(n)
        return cpu_seconds(lambda: transformer_matrix(strings, strings, tolerance=ERROR, **SETTING), repeats=3)

    run(4 * SAMPLES)
    small, large = run(SAMPLES), run(4 * SAMPLES)
    detail = f"{small:.3f} s at {SAMPLES}, {large:.3f} s at {4 * SAMPLES}"
    return Measured("4 times the samples, patterns known", large / small, 16, at_most=True, detail=detail)


def _beside_neural_tangents() -> Iterator[Measured]:
    """What neural-tangents says about attention, and a race where both have a kernel; a message if it is not there."""
    strings = _strings(SAMPLES)
    asked = subprocess.run(
        [os.environ.get("NEURAL_TANGENTS_PYTHON", sys.executable), Path(__file__).parent / "neural_tangents_probe.py"],
        input=json.dumps(strings),
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(asked.stdout)
    if "missing" in answer:
        print(f"neural-tangents is not installed ({answer['missing']}); set NEURAL_TANGENTS_PYTHON to a Python with it")
        print(f"On another machine, neural-tangents 0.6.5 said: {SAID}")
        return
    print(f"neural-tangents {answer['version']}, softmax attention with 1/√d scaling: {answer['attention']}")
    tokens = np.array(strings)
    ours = cpu_seconds(lambda: mlp_kernel(tokens, tokens, activation="relu"), repeats=3)
    apart = abs(mlp_kernel(tokens[:1], tokens, activation="relu")[0] - np.array(answer["row"])).max()
    detail = f"{ours:.3f} s against {answer['seconds']:.3f} s; values differ by at most {apart:.1g}"
    yield Measured("kernel of an MLP, over neural-tangents", answer["seconds"] / ours, 1, detail=detail)
