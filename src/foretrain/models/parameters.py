"""What parameters are, and how several runs are started together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

Parameters = dict[str, Tensor]  # by name
Key = tuple[str | int, ...]  # of a random stream: see foretrain.core.streams


def start_keys(experiment: str, seeds: Iterable[int]) -> list[Key]:
    """The keys from which the trainers start the runs of these seeds."""
    return [(experiment, seed, "start") for seed in seeds]


def stacked(runs: Sequence[Mapping[str, Tensor]]) -> Parameters:
    """The parameters of single runs along a new leading axis."""
    return {name: torch.stack([run[name] for run in runs]) for name in runs[0]}
