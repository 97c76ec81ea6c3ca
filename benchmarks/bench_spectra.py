"""Spectra: the stable rank by Lanczos, cold and refreshed, against all singular values by torch.linalg.svdvals."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from statistics import median

import torch
from torch import Tensor

from benchmarks import Measured, cpu_seconds
from foretrain.core.streams import torch_stream
from foretrain.core.workers import single_threaded
from foretrain.measures import SpectrumTracker, stable_rank

LAYERS, WIDTH, START = 12, 768, 0.02  # GPT-2 small, and the standard deviation of its weights at the start
MOVE = 0.003  # relative size of the move between two refreshes


def measure() -> Iterator[Measured]:
    with single_threaded():
        yield _cold()
        yield from _refreshed()


def _random(*shape: int, key: str | int) -> Tensor:
    return torch.randn(shape, generator=torch_stream("bench/spectra", key))


def _cold() -> Measured:
    W = _random(WIDTH, 4 * WIDTH, key="cold")
    ours, plain = cpu_seconds(lambda: stable_rank(W), 9), cpu_seconds(lambda: torch.linalg.svdvals(W), 3)
    detail = f"{ours:.4f} s against {plain:.3f} s"
    return Measured("stable rank of 768×3072, cold, over svdvals", plain / ours, 5, detail=detail)


def _block(layer: int) -> dict[str, Tensor]:
    """The six matrices of a layer, laid out as GPT-2 stores them. At the start all are random: the hardest case."""
    shapes = {"qkv": (WIDTH, 3 * WIDTH), "o": (WIDTH, WIDTH), "fc": (WIDTH, 4 * WIDTH), "proj": (4 * WIDTH, WIDTH)}
    stored = {name: START * _random(*shape, key=f"{layer}/{name}") for name, shape in shapes.items()}
    parts = dict(zip("qkv", stored.pop("qkv").chunk(3, dim=1), strict=True))
    return {f"{layer}/{name}": W for name, W in (parts | stored).items()}


def _refreshed() -> Iterator[Measured]:
    """The 72 matrices, five times, each after a move. svdvals is timed on one layer, and counted 12 times."""
    matrices = {name: W for layer in range(LAYERS) for name, W in _block(layer).items()}
    tracker, times = SpectrumTracker(), []

    def refresh() -> dict[str, float]:
        return {name: tracker.refresh(name, W).stable_rank for name, W in matrices.items()}

    cold = cpu_seconds(refresh)
    for repeat in range(5):
        for name, W in matrices.items():
            W += MOVE * START * _random(*W.shape, key=f"{repeat}/{name}")
        times.append(cpu_seconds(refresh))
    warm = median(times)
    layer = [W for name, W in matrices.items() if name.startswith("0/")]
    plain = LAYERS * cpu_seconds(lambda: [torch.linalg.svdvals(W) for W in layer], 3)
    detail = f"{warm:.3f} s against 12 × {plain / LAYERS:.3f} s"
    yield Measured("refresh of GPT-2 small's 72 matrices over svdvals", plain / warm, 50, detail=detail)
    if find_spec("weightwatcher") is None:
        print("weightwatcher is not installed, so the comparison with it is skipped: pip install weightwatcher.")
    else:
        theirs = LAYERS * _weightwatcher(layer)
        detail = f"{warm:.3f} s against 12 × {theirs / LAYERS:.3f} s"
        yield Measured("refresh of GPT-2 small's 72 matrices over weightwatcher", theirs / warm, 50, detail=detail)
    detail = f"{cold:.3f} s cold"
    yield Measured("first pass over the 72 matrices over svdvals", plain / cold, None, detail=detail)
    yield Measured("error of the refreshed stable rank", _error(refresh(), matrices), 1e-3, "", at_most=True)


def _weightwatcher(matrices: list[Tensor]) -> float:
    """CPU seconds that weightwatcher's analyze takes for these matrices, as layers of a model."""
    import weightwatcher

    layers = [torch.nn.Linear(W.shape[0], W.shape[1], bias=False) for W in matrices]
    for layer, W in zip(layers, matrices, strict=True):
        layer.weight.data = W.mT.contiguous()
    watcher = weightwatcher.WeightWatcher(model=torch.nn.Sequential(*layers))
    return cpu_seconds(lambda: watcher.analyze(plot=False, randomize=False), 3)


def _error(ranks: dict[str, float], matrices: dict[str, Tensor]) -> float:
    """The largest relative error over two layers, after one more refresh."""
    some = [name for name in matrices if name.split("/")[0] in ("0", "11")]
    exact = {name: torch.linalg.svdvals(matrices[name].double()).square() for name in some}
    return max(abs(ranks[name] / float(exact[name].sum() / exact[name].max()) - 1) for name in some)
