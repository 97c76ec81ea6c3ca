"""Scan and Snap: the sweep of Fig 6 against a plain training loop, and closed forms against root finding."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from benchmarks import Measured, cpu_seconds
from benchmarks.memory import peak_of
from foretrain.data import SequenceClasses
from foretrain.papers.scan_snap import theory
from foretrain.papers.scan_snap.experiments.training import fig6

QUERIES, RUNS_PER_QUERIES, STEPS, BATCH = (1, 3, 5, 10), 160, 100, 128


def measure() -> Iterator[Measured]:
    yield from _sweep()
    yield _linear_in_runs()
    yield _memory()
    yield _closed_form()


def _sweep() -> Iterator[Measured]:
    """All 640 runs of Fig 6, against plain loops on one run for each number of queries, scaled by their steps."""
    fig6(steps=2, seeds=1)
    ours: list[float] = []
    plain: dict[type[PlainTransformer], list[float]] = {PlainTransformer: [], QueryFirst: []}
    for _ in range(3):
        ours.append(cpu_seconds(fig6))
        for model, times in plain.items():
            times.append(sum(_plain_step(model, q) for q in QUERIES) * RUNS_PER_QUERIES * STEPS)
    a, (b, c) = median(ours), (median(times) for times in plain.values())
    yield Measured("Fig 6 sweep over plain loop", b / a, 200, detail=f"{a:.2f} s against {b:.0f} s")
    yield Measured("  … that computes no keys", c / a, None, detail=f"Z is multiplied by the query alone: {c:.0f} s")


class PlainTransformer(nn.Module):
    """The model on one-hot tokens, as attention is usually written: a key for every token."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.Y, self.Z = nn.Linear(vocab, vocab, bias=False), nn.Linear(vocab, vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        X = one_hot(tokens, self.Y.in_features).float()  # [batch, T, vocab]
        context, query = X[:, :-1], X[:, -1:]
        b = torch.softmax(self.attention_logits(context, query), dim=-1)
        u = (b @ context).squeeze(1)
        return self.Y(u / u.norm(dim=1, keepdim=True))

    def attention_logits(self, context: Tensor, query: Tensor) -> Tensor:
        return query @ self.Z(context).mT


class QueryFirst(PlainTransformer):
    """The same in the cheaper order, which only this model allows: it has one query per sequence."""

    def attention_logits(self, context: Tensor, query: Tensor) -> Tensor:
        return (query @ self.Z.weight) @ context.mT


def _plain_step(kind: type[PlainTransformer], queries: int, steps: int = 8) -> float:
    """CPU seconds of one step of one run: draw tokens, one-hot, autograd, torch.optim."""
    task = SequenceClasses.syn_medium(queries)
    probabilities = torch.tensor(task.probabilities)
    query, label = torch.from_numpy(task.query), torch.from_numpy(task.label)
    model = kind(task.vocab)
    rates = [{"params": model.Y.parameters(), "lr": 2.0}, {"params": model.Z.parameters(), "lr": 1.0}]
    optimizer = torch.optim.SGD(rates, momentum=0.9)

    def step() -> None:
        classes = torch.randint(task.classes, (BATCH,))
        context = torch.multinomial(probabilities[classes], task.length - 1, replacement=True)
        tokens = torch.cat([context, query[classes, None]], dim=1)
        loss = cross_entropy(model(tokens), label[classes])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    return cpu_seconds(step, repeats=steps)


def _linear_in_runs() -> Measured:
    """Exponent of CPU time over the number of runs."""
    seeds = np.array([3, 6, 12, 24])
    times = [cpu_seconds(partial(fig6, queries=(3,), seeds=int(n), steps=40), repeats=3) for n in seeds]
    exponent = float(np.polyfit(np.log(seeds), np.log(times), 1)[0])
    detail = f"{16 * seeds[0]} to {16 * seeds[-1]} runs: {times[0]:.2f} s to {times[-1]:.2f} s"
    return Measured("Fig 6 sweep, cost over runs", exponent, 1.1, unit="(exponent)", at_most=True, detail=detail)


def _memory() -> Measured:
    """Peak memory of a process that runs the whole sweep and nothing else."""
    code = (
        "import torch; torch.set_num_threads(1)\n"
        "from foretrain.papers.scan_snap.experiments.training import fig6\n"
        "fig6()"
    )
    return Measured("Fig 6 sweep, peak memory", peak_of(code) / 1e9, 1.0, unit="GB", at_most=True)


def _closed_form(points: int = 1_000_000, sample: int = 1000) -> Measured:
    """h(t) of Lemma 6 at many times, against a root of its equation per point, scaled from a sample."""
    eta_y, M = 0.5, 1000
    t = np.geomspace(1e-3, 1e6, points)

    def root(time: float) -> float:
        right = M * eta_y * time + 1
        high = min(np.log(right), right / (M - 1)) if right > 1 else 1.0
        return brentq(lambda u: np.exp(u) + (M - 1) * u - right, 0.0, high, xtol=1e-14, rtol=1e-14) / M

    sampled = t[:: points // sample]
    closed = theory.decoder_growth(t, eta_y=eta_y, vocab=M)
    assert np.allclose([root(time) for time in sampled], closed[:: points // sample], rtol=1e-10)
    rounds = [  # in turns, so that a slow moment of the machine affects both
        (
            cpu_seconds(lambda: theory.decoder_growth(t, eta_y=eta_y, vocab=M), repeats=3),
            cpu_seconds(lambda: [root(time) for time in sampled]) * points / len(sampled),
        )
        for _ in range(9)
    ]
    ours, roots = (median(times) for times in zip(*rounds, strict=True))
    return Measured("Lemma 6, 10⁶ points over roots", roots / ours, 1000, detail=f"{ours:.3f} s against {roots:.0f} s")
