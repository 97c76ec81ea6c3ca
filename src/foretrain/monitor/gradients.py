"""Norms of gradients, as backward leaves them: added up over processes and accumulated batches, before clipping, and
times the loss scale where there is one.

At a measured step every gradient is read whole. At the others the total norm is estimated from a sample of entries of
at most 64 gradients, because reading all of them would cost more than a thousandth of the step. The estimates of the
steps between two records are scaled by how far the estimate of the measured step was off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from foretrain.measures.matrices import plain_arithmetic
from foretrain.monitor.guard import Guard, no_guard
from foretrain.monitor.held import Held
from foretrain.monitor.spectra import norm_of

SAMPLED, ENTRIES = 64, 512  # gradients, and entries of each, from which the total norm is estimated
Squares = dict[str, Tensor]


class GradientReader:
    """Reads gradients at the end of a backward pass."""

    def __init__(self, guard: Guard = no_guard) -> None:
        self._guard = guard
        self._parts: dict[str, Held] = {}
        self._sampled: list[tuple[Held, int]] = []

    def watch(self, parts: Mapping[str, Held]) -> None:
        """Read the gradients of these parameters from now on."""
        self._parts = dict(parts)
        largest = sorted(parts.values(), key=lambda held: -math.prod(held.shape))[:SAMPLED]
        self._sampled = [(held, math.ceil(math.prod(held.shape) / ENTRIES)) for held in largest]

    def squares(self) -> Squares:
        """This process's share of the squared norm of every gradient."""
        squares = {}
        for name, held in self._parts.items():
            with self._guard("read gradients"):
                gradient = held.gradient()
                if gradient is not None:
                    with plain_arithmetic(gradient.device):
                        values = gradient.coalesce().values() if gradient.is_sparse else gradient
                        squares[name] = norm_of(values).square() / held.copies
        return squares

    def estimate(self) -> dict[bool, Tensor]:
        """An estimate of this process's share of the squared norm of the whole gradient, by whether the parameters are
        whole (True) or shards (False)."""
        samples: dict[bool, list[Tensor]] = {True: [], False: []}
        weights: dict[bool, list[float]] = {True: [], False: []}
        for held, stride in self._sampled:
            gradient = held.gradient()
            if gradient is None or gradient.is_sparse or gradient.numel() == 0:
                continue
            entries = gradient.detach().reshape(-1)[::stride]
            samples[held.whole].append(entries)
            weights[held.whole].append(math.sqrt(gradient.numel() / entries.numel() / held.copies))
        totals = {}
        with torch.no_grad():
            for whole, entries in samples.items():
                if entries:
                    norms = torch._foreach_norm(entries)  # type: ignore[attr-defined]
                    torch._foreach_mul_(norms, weights[whole])  # type: ignore[attr-defined]
                    totals[whole] = torch.stack(list(norms)).float().square().sum()
        return totals
