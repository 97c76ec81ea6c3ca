"""Norms of gradients, as backward leaves them: added up over processes and accumulated batches, before clipping, and
times the loss scale where there is one.

At a measured step every gradient is read whole. At the others the total norm is estimated from a sample of entries of
16 matrices, spread over the model, because reading all of them would cost more than a thousandth of the step. The
estimates of the steps between two records are scaled by how far the estimate of the measured step was off.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from foretrain.measures.matrices import plain_arithmetic
from foretrain.monitor.guard import Guard, no_guard
from foretrain.monitor.held import Held
from foretrain.monitor.spectra import norm_of

LONG = 8  # times as long as wide: a table of tokens, most of whose gradient is zero, tells nothing by a sample
SAMPLED, PIECES, NEIGHBOURS = 16, 16, 32  # gradients, and entries of each, from which the total norm is estimated
Squares = dict[str, Tensor]


class GradientReader:
    """Reads gradients at the end of a backward pass."""

    def __init__(self, guard: Guard = no_guard) -> None:
        self._guard = guard
        self._parts: dict[str, Held] = {}
        self._sampled: list[Held] = []
        self._weights: dict[tuple[float, ...], Tensor] = {}

    def watch(self, parts: Mapping[str, Held]) -> None:
        """Read the gradients of these parameters from now on."""
        self._parts, self._weights = dict(parts), {}
        matrices = [held for held in parts.values() if held.is_matrix]
        sampled = [held for held in matrices if max(held.shape) <= LONG * min(held.shape)]
        matrices = sampled if matrices else list(parts.values())
        self._sampled = [matrices[k] for k in evenly(len(matrices), SAMPLED)]

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
        entries: dict[bool, list[Tensor]] = {True: [], False: []}
        weights: dict[bool, list[float]] = {True: [], False: []}
        for held in self._sampled:
            gradient = held.gradient()
            if gradient is not None and not gradient.is_sparse and gradient.numel() > 0:
                sample = _sample(gradient)
                entries[held.whole].append(sample)
                weights[held.whole].append(gradient.numel() / (sample.numel() * held.copies))
        with torch.no_grad():
            return {whole: self._total(entries[whole], weights[whole]) for whole in entries if entries[whole]}

    def _total(self, entries: list[Tensor], weights: list[float]) -> Tensor:
        values = torch.cat(entries).float()
        key = (len(values), *weights)
        if key not in self._weights:  # sent to the device once
            each = [torch.full((len(sample),), weight) for sample, weight in zip(entries, weights, strict=True)]
            self._weights[key] = torch.cat(each).to(values.device)
        return torch.linalg.vecdot(values * values, self._weights[key])


def evenly(count: int, most: int) -> list[int]:
    """At most so many of the numbers below `count`, evenly spread."""
    return sorted({round(k * (count - 1) / max(1, most - 1)) for k in range(most)}) if count > most else [*range(count)]


def _sample(gradient: Tensor) -> Tensor:
    """Evenly spread runs of neighbouring entries: reading each entry from another place in memory would take longer."""
    size = gradient.numel()
    if size <= PIECES * NEIGHBOURS or not gradient.is_contiguous():
        return gradient.reshape(-1)[:: -(-size // (PIECES * NEIGHBOURS))]
    return gradient.as_strided((PIECES, NEIGHBOURS), ((size - NEIGHBOURS) // (PIECES - 1), 1)).reshape(-1)
