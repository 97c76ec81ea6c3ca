"""What is read off one matrix of weights, in one pass over blocks of it, so that no copy of the whole is made.

    norm             ‖W‖, Frobenius
    stable_rank      ‖W‖²/σ_max²
    effective_rank   exp of the entropy of the singular values
    deviation        standard deviation of the entries
    kurtosis         excess kurtosis of the entries: 0 if normal, −1.2 if uniform
    edge             σ_max² / (deviation²·(√m + √n)²): 1 for independent entries (Marchenko and Pastur), up to chance
    row_spread       variance of the rows' mean squares, in units of what independent entries give: 1 up to chance
    column_spread    the same of the columns

Singular values come from the Gram matrix of the shorter side, in float32, and in float64 where the small ones matter
for the effective rank. For singular values that fall like 1/k, 1/k² and faster, the effective rank is within 3e-4 of
svdvals in float64 (tests/checkpoints/test_measure_checkpoint.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from foretrain.measures.entropy import entropy

BLOCK = 1 << 20  # entries that are held in float32 at a time: 2 MB, which stay in the cache
SMALL, SHARE = 1e-6, 1e-3  # float64 if eigenvalues below SMALL of the largest hold more than SHARE of all σ


class MatrixReader:
    """Measures one matrix after the other. If one needs float64, the next is tried in float64 at once."""

    def __init__(self) -> None:
        self.precision = torch.float32

    def read(self, W: Shaped[Tensor, "m n"]) -> dict[str, float]:
        """All measures of a matrix with finite entries; nan where one is undefined, as for a zero matrix."""
        sums, rows, columns, gram = _pass(W, self.precision)
        measures, squares = _measures(W, sums, rows, columns, gram)
        if squares is not None:
            self.precision = torch.float64 if needs_double(squares) else torch.float32
        return measures


def measure_matrix(W: Shaped[Tensor, "m n"]) -> dict[str, float]:
    """All measures of one matrix, computed where it is."""
    return MatrixReader().read(W)


def _measures(
    W: Tensor, sums: Tensor, rows: Tensor, columns: Tensor, gram: Tensor
) -> tuple[dict[str, float], Tensor | None]:
    """The measures, and the squared singular values they come from unless the matrix is constant."""
    count, (m, n) = W.numel(), W.shape
    mean, square = float(sums[0]) / count, float(sums[1]) / count
    variance = square - mean**2
    if not variance > 1e-14 * square:  # constant
        names = ("stable_rank", "effective_rank", "kurtosis", "edge", "row_spread", "column_spread")
        return {"norm": math.sqrt(square * count), "deviation": 0.0, **dict.fromkeys(names, math.nan)}, None
    third, fourth = float(sums[2]) / count, float(sums[3]) / count
    central = fourth - 4 * mean * third + 6 * mean**2 * square - 3 * mean**4
    kurtosis = central / variance**2 - 3
    squares = _squares(W, gram)
    largest = float(squares[-1])
    measures = {
        "norm": math.sqrt(square * count),
        "stable_rank": square * count / largest,
        "effective_rank": float(torch.exp(entropy(squares.sqrt()))),
        "deviation": math.sqrt(variance),
        "kurtosis": kurtosis,
        "edge": largest / (variance * (math.sqrt(m) + math.sqrt(n)) ** 2),
        "row_spread": _spread(rows / n, n, kurtosis),
        "column_spread": _spread(columns / m, m, kurtosis),
    }
    return measures, squares


def blocks(W: Shaped[Tensor, "m n"]) -> Iterator[tuple[slice, Shaped[Tensor, "block short"]]]:
    """The matrix in blocks of lines, each as long as the shorter side, and which lines they are."""
    tall = W if W.shape[0] >= W.shape[1] else W.mT
    lines = max(1, BLOCK // tall.shape[1])
    for first in range(0, len(tall), lines):
        yield slice(first, first + lines), tall[first : first + lines]


def _pass(W: Tensor, precision: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums of the first four powers, of squares by row and by column, and the Gram matrix of the shorter side."""
    short = min(W.shape)
    sums = torch.zeros(4, dtype=torch.float64, device=W.device)
    along, across = sums.new_zeros(max(W.shape)), sums.new_zeros(short)
    gram = torch.zeros(short, short, dtype=precision, device=W.device)
    for lines, stored in blocks(W):
        block = stored.float()
        square = block * block
        by_line = square.sum(1)
        third = torch.vdot(_flat(square), _flat(block))
        sums += torch.stack([_sum(block), _sum(by_line), third, _sum(square * square)])
        along[lines] = by_line.double()
        across += square.sum(0)
        add_gram(gram, stored)
    return (sums, along, across, gram) if W.shape[0] >= W.shape[1] else (sums, across, along, gram)


def _sum(values: Tensor) -> Tensor:
    return values.sum().double()


def _flat(values: Tensor) -> Tensor:
    """In the order of memory, whatever that is: as long as both factors of a product have the same."""
    return values.reshape(-1) if values.is_contiguous() else values.mT.reshape(-1)


def _squares(W: Tensor, gram: Float[Tensor, "short short"]) -> Float[Tensor, "short"]:
    """The squared singular values in ascending order, in float64."""
    squares = torch.linalg.eigvalsh(gram).double().clamp(min=0)
    if gram.dtype is torch.float64 or not needs_double(squares):
        return squares
    exact = torch.zeros_like(gram, dtype=torch.float64)
    for _, stored in blocks(W):
        add_gram(exact, stored)
    return torch.linalg.eigvalsh(exact).clamp(min=0)


def needs_double(squares: Float[Tensor, "short"]) -> bool:
    """Whether singular values that float32 cannot tell from zero make up more than a thousandth of their sum."""
    values = squares.sqrt()
    return float(values[squares < SMALL * squares[-1]].sum()) > SHARE * float(values.sum())


def add_gram(gram: Float[Tensor, "short short"], block: Shaped[Tensor, "lines short"]) -> None:
    """Add blockᵀ·block, in the precision of the Gram matrix."""
    wide = block.to(gram.dtype)
    gram.addmm_(wide.mT, wide)


def _spread(mean_squares: Float[Tensor, "line"], length: int, kurtosis: float) -> float:
    """Lines of zeros are left out: embeddings of padding are set to zero."""
    used = mean_squares[mean_squares > 0]
    expected = (kurtosis + 2) / length
    if len(used) < 2 or expected <= 0:
        return math.nan
    return float(used.var() / used.mean() ** 2) / expected
