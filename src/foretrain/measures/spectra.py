"""Following the spectra of many weight matrices through training, at a small part of the cost of an SVD."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Num
from torch import Tensor

from foretrain.measures import lanczos
from foretrain.measures.entropy import entropy
from foretrain.measures.matrices import LARGE, Prepared, plain_arithmetic, prepare

KEPT = 3  # Ritz vectors from one refresh to the next
STEPS = 5  # of the first chain in a refresh; with 4, one new direction in 50 took another refresh to be found
FRESH = 0.1  # length of the random direction beside the top vector; larger ones converge more slowly


@dataclass(frozen=True)
class Spectrum:
    """What the singular values of a matrix say about it."""

    norm: float  # Frobenius
    largest: float  # the largest singular value
    stable_rank: float  # norm²/largest²; nan for a zero matrix
    error: float  # estimated relative error of the stable rank; 0 if it comes from all singular values
    effective_rank: float | None = None  # as measures.effective_rank; None unless it was asked for


class SpectrumTracker:
    """The spectrum of each named matrix, each refresh starting from the vectors that the previous one found.

    A refresh after a small move of the weights takes about five Lanczos steps. A random direction joins them, so a
    singular vector that is new, and perpendicular to everything known, is found as well. If the estimated error is
    too large, steps are added; if that does not help, all singular values are computed. So the stable rank is within
    1e-3 of the exact one, or about to be: a new direction whose singular value exceeds the previous largest one by
    only a few percent can stay hidden for one refresh, and then `error` does not show it.

    Matrices with a side below 256 are computed exactly. The same sequence of refreshes gives the same numbers.
    """

    def __init__(self) -> None:
        self._known: dict[str, Tensor] = {}
        self._refreshes: dict[str, int] = {}

    def refresh(self, name: str, matrix: Num[Tensor, "m n"], *, full: bool = False) -> Spectrum:
        """The spectrum of this matrix now. An infinite or undefined entry raises an InputError that names the matrix.

        `full` computes all singular values, for the effective rank. That takes 20 to 50 times as long as a refresh, so
        ask for it rarely. (Stochastic Lanczos quadrature would take just as long to reach 2 %.)
        """
        with plain_arithmetic(matrix.device):
            prepared = prepare(matrix, name)
            if prepared.norm == 0:
                return Spectrum(0.0, 0.0, math.nan, 0.0, math.nan if full else None)
            small = min(matrix.shape) < LARGE
            found = None if small else self._top(name, prepared)
            if full or found is None or not found.converged:
                return _exact(prepared, full or small)
            return _spectrum(prepared, math.sqrt(found.square), found.error)

    def _top(self, name: str, prepared: Prepared) -> lanczos.Top:
        count = self._refreshes[name] = self._refreshes.get(name, 0) + 1
        fresh, known = prepared.start(name, count), self._known.get(name)
        if known is None or known.shape[1] != prepared.W.shape[1]:
            found = lanczos.top(prepared.W, fresh, kept=KEPT)
        else:
            known = known.to(prepared.W)
            found = lanczos.top(prepared.W, known[0] + FRESH * fresh, known, first=STEPS, kept=KEPT)
        self._known[name] = found.vectors
        return found


def _spectrum(prepared: Prepared, largest: float, error: float, effective_rank: float | None = None) -> Spectrum:
    norm, scale = prepared.norm, prepared.scale
    return Spectrum(norm * scale, largest * scale, (norm / largest) ** 2, error, effective_rank)


def _exact(prepared: Prepared, with_effective_rank: bool) -> Spectrum:
    values = prepared.singular_values()
    effective_rank = float(torch.exp(entropy(values))) if with_effective_rank else None
    return _spectrum(prepared, float(values[-1]), 0.0, effective_rank)
