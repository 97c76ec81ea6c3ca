"""Samples for networks with a leading axis of runs, and what such a network refuses to read."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Int, Shaped
from torch import Tensor

from foretrain.core.errors import require


@dataclass(frozen=True)
class SampleRows:
    """What a network reads of every sample, one row each: a string, or the features of its last layer."""

    values: Shaped[Tensor, "run sample column"]

    def select_samples(self, samples: Int[Tensor, "run chosen"]) -> SampleRows:
        """Keep these samples of each run."""
        return SampleRows(self.values.gather(1, samples[:, :, None].expand(-1, -1, self.values.shape[2])))

    def select_runs(self, runs: Int[Tensor, "kept"]) -> SampleRows:
        """Keep these runs."""
        return SampleRows(self.values[runs])


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
