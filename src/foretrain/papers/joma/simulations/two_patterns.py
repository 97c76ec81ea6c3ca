"""Appendix A.4: one hidden node that answers to two queries, each with a pattern of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from foretrain.core.streams import stream
from foretrain.core.trajectory import trajectory
from foretrain.models.joint import JointBatch
from foretrain.models.parameters import Parameters
from foretrain.papers.joma.experiments.layer import even_times
from foretrain.papers.joma.experiments.student import Student
from foretrain.papers.joma.setting import TwoPatterns
from foretrain.papers.joma.simulations.training import once_per_stream, train_joint

PATTERNS = TwoPatterns()
PAIRS = ("own pattern", "other query's pattern", "no pattern")


class PatternTask:
    """Samples of a query and context tokens, drawn once. The node should say 1 if the query's own pattern is there.

    Half of the context tokens come from a pattern (five tokens for each query) and half from other tokens; without a
    pattern all are other tokens.
    """

    def __init__(self, setting: TwoPatterns = PATTERNS) -> None:
        self.setting = setting

    def sample(self, n: int, generator: np.random.Generator) -> JointBatch:
        return self.with_kinds(n, generator)[0]

    @once_per_stream
    def with_kinds(self, n: int, draw: np.random.Generator) -> tuple[JointBatch, np.ndarray]:
        """The batch, and which of PAIRS each sample is."""
        size, length = self.setting.pattern, self.setting.length
        query, kind = draw.integers(2, size=n), draw.integers(len(PAIRS), size=n)
        shown = np.where(kind == 1, 1 - query, query)  # whose pattern the sample has, if any
        others = draw.integers(2 * size, self.setting.contexts, size=(n, length))
        pattern = shown[:, None] * size + draw.integers(size, size=(n, length))
        from_pattern = (np.arange(length) < length // 2) & (kind < 2)[:, None]
        tokens = np.where(from_pattern, pattern, others)
        x = np.zeros((n, self.setting.contexts))
        np.add.at(x, (np.arange(n)[:, None], tokens), 1 / length)
        y = torch.from_numpy((kind == 0).astype(np.float64))[:, None]
        return JointBatch(torch.from_numpy(x), torch.from_numpy(query), signal=y), kind


class BiasedStudent(Student):
    """A node that also adds up what eq. 60 calls ξ_m: rate·E[g·h′·1(q = m)] over all steps, from the samples."""

    def __init__(self, rate: float, **sizes: Any) -> None:
        super().__init__("squared", "relu", nodes=1, queries=2, **sizes)
        self.rate = rate
        self.bias: Tensor | None = None

    def gradient(self, parameters: Parameters, batch: JointBatch, samples: int = 0) -> Parameters:
        s = (self.signal(self.hidden(parameters, batch), batch) * self.slopes(parameters, batch))[..., 0]
        step = self.rate * torch.stack([torch.where(batch.query == m, s, 0.0).mean(-1) for m in range(2)], dim=-1)
        self.bias = step if self.bias is None else self.bias + step
        return super().gradient(parameters, batch, samples)

    def bias_so_far(self, parameters: Parameters) -> tuple[tuple[str, ...], Tensor]:
        nothing = torch.zeros(*parameters["W"].shape[:-2], 2, dtype=torch.float64)
        return ("query",), nothing if self.bias is None else self.bias.clone()


@lru_cache(maxsize=8)
def train_two_patterns(
    seeds: tuple[int, ...] = (1, 2, 3), steps: int = PATTERNS.steps, learns: bool = True, attention: str = "exp"
) -> xr.Dataset:
    """Appendix A.4, "Pattern superposition", and Fig 10 on synthetic data: one ReLU node learns both patterns.

    `response` [seed, pair, query] is the node's mean output at the end. `weights` w [seed, time, token] and `bias` ξ
    [seed, time, query] are recorded along training; the last two tokens are the queries.
    """
    setting, task = PATTERNS, PatternTask()
    model = BiasedStudent(
        setting.rate, learns=learns, attention=attention, contexts=setting.contexts, start=setting.start
    )
    run, states = train_joint(
        model, task, rate=setting.rate, steps=steps, samples=setting.samples, seeds=seeds,
        save_at=even_times(steps, 11), experiment="joma/two_patterns", record={"bias": model.bias_so_far},
    )  # fmt: skip
    drawn = [task.with_kinds(setting.samples, stream("joma/two_patterns", seed, "data")) for seed in seeds]
    batch, kinds = JointBatch.stack([batch for batch, _ in drawn]), np.stack([kind for _, kind in drawn])
    end = {name: values[-1] for name, values in states.items()}
    h, query = model.hidden(end, batch)[..., 0].numpy(), batch.query.numpy()
    response = [
        [[h[s][(kinds[s] == pair) & (query[s] == m)].mean() for m in range(2)] for pair in range(len(PAIRS))]
        for s in range(len(seeds))
    ]
    return trajectory(
        {
            "response": (("seed", "pair", "query"), np.array(response)),
            "weights": (("seed", "time", "token"), states["W"][:, :, 0].transpose(0, 1).numpy()),
            "bias": (("seed", "time", "query"), run["bias"].transpose("seed", "time", "query").values),
        },
        {"seed": list(seeds), "pair": list(PAIRS), "query": [1, 2], "time": run["time"].values},
        units={"time": "steps"},
    )
