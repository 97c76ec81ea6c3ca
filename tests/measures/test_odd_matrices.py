"""Spectra of matrices that are zero, empty, broken, thin, or out of float32's range."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from foretrain.core.errors import InputError
from foretrain.measures import effective_rank, stable_rank
from foretrain.measures.matrices import prepare

SIDE = 300


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def exact(matrix: Tensor) -> float:
    squares = torch.linalg.svdvals(matrix).square()
    return float(squares.sum() / squares.max())


@pytest.mark.parametrize("shape", [(3, 4), (SIDE, SIDE)])
def test_matrices_without_a_stable_rank(shape: tuple[int, int]) -> None:
    assert math.isnan(float(stable_rank(torch.zeros(shape))))
    for wrong in (math.nan, math.inf):
        batch = draw(2, *shape)
        batch[0, 1, 2] = wrong
        for ranks in (stable_rank(batch), torch.from_numpy(stable_rank(batch.numpy()))):
            assert math.isnan(ranks[0])
            assert float(ranks[1]) == pytest.approx(exact(batch[1]), rel=1e-3)
    for empty in (torch.ones(0, 3), torch.ones(3, 0), torch.ones(3)):
        with pytest.raises(InputError, match="matrix with entries"):
            stable_rank(empty)


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1)])
def test_vectors_have_rank_one(shape: tuple[int, int]) -> None:
    assert float(stable_rank(draw(*shape))) == pytest.approx(1)
    assert float(effective_rank(draw(*shape).bfloat16())) == pytest.approx(1)


def test_norm_of_a_view_is_exact_and_out_of_range_numbers_are_rescaled() -> None:
    columns = draw(SIDE, 3 * SIDE).float()[:, SIDE : 2 * SIDE]
    assert prepare(columns, "W").norm == pytest.approx(float(columns.double().norm()), rel=1e-6)
    huge = prepare(1e30 * columns, "W")
    assert huge.norm * huge.scale == pytest.approx(1e30 * float(columns.double().norm()), rel=1e-6)
