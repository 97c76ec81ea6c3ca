"""Random numbers: every run draws from its own stream, identified by a key.

A key is any tuple of names and numbers, such as ("scan_snap/fig6", seed, "data"). The same key gives
the same numbers however runs are batched, sharded or resumed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from foretrain.core.errors import require

if TYPE_CHECKING:
    import torch


MOST_SEEDS = 1_000_000  # more would not fit into memory


def _digest(key: tuple[str | int, ...]) -> bytes:
    return hashlib.sha256("\x1f".join(f"{type(part).__name__}:{part}" for part in key).encode()).digest()


def stream(*key: str | int) -> np.random.Generator:
    """A numpy generator for this key."""
    return np.random.Generator(np.random.SFC64(int.from_bytes(_digest(key)[:16], "big")))


def torch_stream(*key: str | int) -> torch.Generator:
    """A torch generator for this key."""
    import torch  # takes two seconds, so only processes that need torch import it

    return torch.Generator().manual_seed(int.from_bytes(_digest(key)[:7], "big"))


def seed_list(seeds: int | np.integer | Sequence[int] | np.ndarray) -> list[int]:
    """`seeds=10` means the seeds 1 to 10; a sequence lists the seeds themselves."""
    if isinstance(seeds, int | np.integer):
        require(seeds <= MOST_SEEDS, f"seeds must be at most {MOST_SEEDS:,}; got {seeds:,}.")
        require(seeds >= 1, f"seeds must be at least 1; got {seeds}.")
        return list(range(1, int(seeds) + 1))
    whole = all(isinstance(s, int | np.integer) for s in seeds)
    require(whole, f"seeds must be whole numbers; got {list(seeds)}.")
    listed = [int(s) for s in seeds]
    require(len(listed) >= 1, "seeds must name at least one seed; got an empty list.")
    require(len(set(listed)) == len(listed), f"seeds must differ from each other; got {listed}.")
    return listed
