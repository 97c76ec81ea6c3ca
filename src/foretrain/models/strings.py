"""Strings of tokens for networks with a leading axis of runs, and what such a network refuses to read."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from foretrain.core.errors import require


@dataclass(frozen=True)
class Strings:
    """The strings of every run, as they are."""

    values: Int[Tensor, "run sample position"]

    def select_samples(self, samples: Int[Tensor, "run chosen"]) -> Strings:
        """Keep these samples of each run."""
        return Strings(self.values.gather(1, samples[:, :, None].expand(-1, -1, self.values.shape[2])))

    def select_runs(self, runs: Int[Tensor, "kept"]) -> Strings:
        """Keep these runs."""
        return Strings(self.values[runs])


def require_fitting(strings: Int[Tensor, "run sample position"], tokens: int, length: int) -> None:
    """Refuse strings that a network with this many tokens and positions cannot read."""
    require(strings.numel() > 0, "There must be at least one string; got none.")
    least, most = int(strings.min()), int(strings.max())
    unknown = least if least < 0 else most
    require(0 <= unknown < tokens, f"The strings contain token {unknown}; the network knows 0 to {tokens - 1}.")
    require_length(strings, length)


def require_length(strings: Int[Tensor, "*rest position"], length: int) -> None:
    """Refuse strings of another length."""
    require(strings.shape[-1] == length, f"Strings have {strings.shape[-1]} tokens; the network reads {length}.")
